//! `vllm-rs pull`.

use super::CommandError;
use super::resolve::resolve;
use crate::cli::PullCommand;

/// Fetches the model and prints where it lies.
pub fn run(command: &PullCommand) -> Result<(), CommandError> {
    let path = resolve(
        &command.model,
        command.download_dir.as_deref(),
        command.revision.as_deref(),
    )?;
    println!("{}", path.display());
    Ok(())
}
