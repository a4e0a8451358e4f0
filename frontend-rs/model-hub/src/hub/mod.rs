//! Models of the Hugging Face hub or a mirror of it.
//!
//! A model is fetched as a snapshot of one commit. What has been fetched is used without asking the hub
//! again, unless a refresh is asked for; a fetch that was cut off goes on where it stopped.

mod api;
mod download;
mod select;
mod snapshot;

use std::path::PathBuf;

use self::api::Hub;
use self::snapshot::Repository;
use crate::cache;
use crate::error::{ResolveError, Result};
use crate::options::ResolveOptions;
use crate::progress::OnProgress;

pub(crate) use self::snapshot::cached_names;

const DEFAULT_REVISION: &str = "main";

/// `org/name`, or `org/name:variant` to choose among GGUF files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HubName {
    pub(crate) repo: String,
    /// Part of the wanted GGUF file's name, e.g. `Q4_K_M`.
    pub(crate) variant: Option<String>,
}

impl HubName {
    /// `None` where `name` cannot be a hub id.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (repo, variant) = match name.split_once(':') {
            Some((repo, variant)) => (repo, Some(variant)),
            None => (name, None),
        };
        let (organisation, model) = repo.split_once('/')?;
        let words = [Some(organisation), Some(model), variant];
        words.into_iter().flatten().all(is_word).then(|| Self {
            repo: repo.to_owned(),
            variant: variant.map(str::to_owned),
        })
    }
}

/// Letters, digits and `. _ -`, not starting with a dot: safe in a URL and as a folder name.
fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !word.is_empty() && word.len() <= 96 && !word.starts_with('.') && word.bytes().all(allowed)
}

/// The local path of a hub model.
pub(crate) fn fetch(name: &HubName, options: &ResolveOptions, progress: OnProgress<'_>) -> Result<PathBuf> {
    let revision = options.revision.as_deref().unwrap_or(DEFAULT_REVISION);
    if !revision.split('/').all(is_word) {
        let endpoint = options.hub_endpoint.clone();
        let (repo, revision) = (name.repo.clone(), revision.to_owned());
        return Err(ResolveError::NotOnHub {
            endpoint,
            repo,
            revision,
            near: Vec::new(),
        });
    }
    let repository = Repository::new(options, name);
    let cached = || repository.cached(revision);
    if (options.offline || !options.refresh)
        && let Some(path) = cached()
    {
        return Ok(path);
    }
    if options.offline {
        let cache = repository.folder.clone();
        return Err(ResolveError::Offline {
            name: name.repo.clone(),
            cache,
        });
    }
    let hub = Hub::new(options, name)?;
    let listing = hub.listing(revision)?;
    let selection = select::choose(name, &listing.files)?;
    let _lock = cache::lock(&repository.folder)?;
    if !options.refresh
        && let Some(path) = cached()
    {
        return Ok(path);
    }
    repository.fill(revision, &listing.commit, &selection, &hub, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_names_are_two_plain_words() {
        let name = HubName::parse("org/Model-1.7B").unwrap();
        assert_eq!((name.repo.as_str(), name.variant), ("org/Model-1.7B", None));
        let name = HubName::parse("org/model:Q4_K_M").unwrap();
        assert_eq!(
            (name.repo.as_str(), name.variant.as_deref()),
            ("org/model", Some("Q4_K_M"))
        );
        for bad in [
            "model", "a/b/c", "../b", "a/..", "a b/c", "a/", "/a", "a/b:", "a/b?x", "a/b:../c",
        ] {
            assert_eq!(HubName::parse(bad), None, "{bad}");
        }
    }
}
