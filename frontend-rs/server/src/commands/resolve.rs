//! From a model's name to a path on this machine.

use std::path::{Path, PathBuf};

use vllm_rs_engine_client::find_python;
use vllm_rs_flags::Config;
use vllm_rs_model_hub::{ResolveOptions, TerminalProgress};

use super::CommandError;

/// Finds or fetches a model, with a progress bar on a terminal.
pub fn resolve(
    model: &str,
    download_dir: Option<&str>,
    revision: Option<&str>,
) -> Result<PathBuf, CommandError> {
    let options = ResolveOptions::from_env().with_flags(download_dir.map(Path::new), revision);
    // What is here already needs neither network nor Python, whose search costs a tenth of a second.
    let local = ResolveOptions {
        offline: true,
        ..options.clone()
    };
    if let Ok(path) = vllm_rs_model_hub::resolve(model, &local, &|_| true) {
        return Ok(path);
    }
    let options = ResolveOptions {
        python: find_python().ok(),
        ..options
    };
    let display = TerminalProgress::new();
    vllm_rs_model_hub::resolve(model, &options, &|progress| display.report(progress))
        .map_err(|error| CommandError::Resolve(error.to_string()))
}

/// Fills in `model_path`.
pub async fn resolve_config(config: &mut Config) -> Result<PathBuf, CommandError> {
    let model = config.model.clone();
    let work = move || {
        resolve(
            &model.model,
            model.download_dir.as_deref(),
            model.revision.as_deref(),
        )
    };
    let path = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| CommandError::Runtime(error.to_string()))??;
    config.model.model_path = Some(path.display().to_string());
    Ok(path)
}
