//! A repository in the cache.
//!
//! ```text
//! CACHE/hub/org--name/
//!   refs/main            the commit that `main` was when it was fetched, and its GGUF file if that is the model
//!   COMMIT/              the files; complete when a ref names it
//!   COMMIT.partial/      files that are still arriving
//! ```
//! With a target folder the files lie in that folder itself.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use super::HubName;
use super::api::Hub;
use super::download::download;
use super::select::Selection;
use crate::cache;
use crate::error::{ResolveError, Result};
use crate::options::ResolveOptions;
use crate::progress::{OnProgress, Progress};

/// Where a repository's files are kept.
pub(super) struct Repository {
    pub(super) folder: PathBuf,
    name: HubName,
    /// The user's own folder for the files.
    target: Option<PathBuf>,
}

impl Repository {
    pub(super) fn new(options: &ResolveOptions, name: &HubName) -> Self {
        let folder = options.cache_dir.join("hub").join(name.repo.replace('/', "--"));
        Self {
            folder,
            name: name.clone(),
            target: options.target_dir.clone(),
        }
    }

    /// The path of a complete snapshot, without the network.
    pub(super) fn cached(&self, revision: &str) -> Option<PathBuf> {
        if self.target.is_some() {
            // What a user's folder holds is the user's affair: it is brought up to date file by file.
            return None;
        }
        let reference = fs::read_to_string(self.reference(revision)).ok()?;
        let mut lines = reference.lines();
        let snapshot = self
            .folder
            .join(lines.next().filter(|commit| !commit.is_empty())?);
        let path = lines
            .next()
            .map_or_else(|| snapshot.clone(), |gguf| snapshot.join(gguf));
        path.exists().then_some(path)
    }

    /// One file per revision and variant.
    fn reference(&self, revision: &str) -> PathBuf {
        let variant = self
            .name
            .variant
            .as_ref()
            .map_or_else(String::new, |variant| format!("@{variant}"));
        self.folder
            .join("refs")
            .join(format!("{}{variant}", revision.replace('/', "--")))
    }

    /// Fetches what is missing of the snapshot, then names it.
    pub(super) fn fill(
        &self,
        revision: &str,
        commit: &str,
        selection: &Selection,
        hub: &Hub<'_>,
        progress: OnProgress<'_>,
    ) -> Result<PathBuf> {
        let snapshot = self.target.clone().unwrap_or_else(|| self.folder.join(commit));
        let partials = self.folder.join(format!("{commit}.partial"));
        cache::create(&snapshot)?;
        let total_bytes = selection.total_bytes();
        let done_before = Cell::new(0);
        let report = |bytes_of_file: u64| {
            let done_bytes = done_before.get() + bytes_of_file;
            progress(Progress {
                name: &self.name.repo,
                done_bytes,
                total_bytes,
            })
        };
        if !report(0) {
            return Err(ResolveError::Interrupted {
                name: self.name.repo.clone(),
            });
        }
        for file in &selection.files {
            let target = snapshot.join(&file.name);
            // Files of a commit never change, and they get their names only when they are whole. In a
            // user's folder an older version may lie under the same name.
            let present = fs::metadata(&target).is_ok_and(|metadata| metadata.len() == file.size_bytes);
            if !present || !self.is_ours(&target, file.sha256.as_deref())? {
                let partial = self.partial(&partials, &target)?;
                download(hub, commit, file, &partial, &target, &report)?;
            }
            done_before.set(done_before.get() + file.size_bytes);
            report(0);
        }
        // Empty by now; if something foreign is in it, it stays.
        let _ = fs::remove_dir(&partials);
        let path = selection
            .gguf
            .as_ref()
            .map_or_else(|| snapshot.clone(), |gguf| snapshot.join(gguf));
        if self.target.is_none() {
            cache::create(&self.folder.join("refs"))?;
            let gguf = selection
                .gguf
                .as_ref()
                .map_or_else(String::new, |gguf| format!("{gguf}\n"));
            cache::write_atomically(&self.reference(revision), format!("{commit}\n{gguf}").as_bytes())?;
        }
        Ok(path)
    }

    /// Whether a file under its final name can be trusted to be this commit's.
    fn is_ours(&self, file: &Path, expected: Option<&str>) -> Result<bool> {
        if self.target.is_none() {
            return Ok(true);
        }
        let Some(expected) = expected else {
            return Ok(false);
        };
        let found = crate::checksum::sha256(file).map_err(|source| ResolveError::io(file, 0, source))?;
        Ok(found == expected)
    }

    /// Where a file arrives: on the disk of its final place, so that the rename is atomic.
    fn partial(&self, partials: &Path, target: &Path) -> Result<PathBuf> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        if self.target.is_some() {
            return Ok(target.with_file_name(format!("{name}.partial")));
        }
        cache::create(partials)?;
        Ok(partials.join(&*name))
    }
}

/// Repositories that have been fetched.
pub(crate) fn cached_names(cache_dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(cache_dir.join("hub")) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let has_refs = entry.path().join("refs").is_dir();
        let name = entry.file_name().into_string().ok()?;
        has_refs.then(|| name.replacen("--", "/", 1))
    });
    names.collect()
}
