//! A private folder for the sockets of one process, and the removal of those left by dead ones.

use std::fs::{self, DirBuilder, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::ClientError;

/// What a Unix socket path may hold: 108 bytes with its terminating zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Longest file name that [`RuntimeDir::address`] is asked for, with its slash.
const LONGEST_NAME_BYTES: usize = 16;
const PREFIX: &str = "vllm-rs-";
const LOCK_FILE: &str = "lock";
/// Its name until its lock is held.
const NEW_LOCK_FILE: &str = "lock.new";

/// A folder of mode 0700, removed on drop. Its lock is held for as long as its owner lives, so that
/// others can tell a folder in use from a stale one without trusting process ids.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    _lock: File,
}

impl RuntimeDir {
    /// Makes a folder below `parent`, else below the first of `XDG_RUNTIME_DIR`, the temporary folder
    /// and `/tmp` that can be written to and gives short enough paths; sweeps stale ones beside it.
    pub fn create(parent: Option<&Path>) -> Result<Self, ClientError> {
        if let Some(parent) = parent {
            return Self::create_in(parent);
        }
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let mut last = None;
        for parent in runtime
            .into_iter()
            .chain([std::env::temp_dir(), PathBuf::from("/tmp")])
        {
            match Self::create_in(&parent) {
                Ok(dir) => return Ok(dir),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| ClientError::RuntimeDir {
            path: "/tmp".to_owned(),
            reason: "no folder to try".to_owned(),
        }))
    }

    fn create_in(parent: &Path) -> Result<Self, ClientError> {
        sweep(parent);
        let random = uuid::Uuid::new_v4().simple().to_string();
        let path = parent.join(format!("{PREFIX}{}", &random[..12]));
        let given = path.as_os_str().as_bytes().len() + LONGEST_NAME_BYTES;
        if given > MAX_SOCKET_PATH_BYTES {
            let path = path.display().to_string();
            return Err(ClientError::PathTooLong {
                path,
                limit: MAX_SOCKET_PATH_BYTES,
                given,
            });
        }
        let failed = |error: std::io::Error| ClientError::RuntimeDir {
            path: path.display().to_string(),
            reason: error.to_string(),
        };
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        // A sweeper takes a lock file that nobody holds for a dead owner's, so it only ever sees a held one.
        let new = path.join(NEW_LOCK_FILE);
        let lock = File::create(&new).map_err(failed)?;
        lock.try_lock().map_err(|error| failed(error.into()))?;
        fs::rename(&new, path.join(LOCK_FILE)).map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The address of a socket in this folder. `name` is at most 15 bytes.
    pub fn address(&self, name: &str) -> String {
        debug_assert!(name.len() < LONGEST_NAME_BYTES);
        format!("ipc://{}", self.path.join(name).display())
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        // Nothing to do about a failure here; the next process sweeps.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of ours whose lock nobody holds.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let Ok(own) = fs::metadata("/proc/self").map(|meta| meta.uid()) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == own);
        if !is_ours {
            continue;
        }
        // No lock file yet means that its owner is between making the folder and locking it.
        let stale = File::open(entry.path().join(LOCK_FILE)).is_ok_and(|lock| lock.try_lock().is_ok());
        if stale {
            tracing::debug!(path = %entry.path().display(), "removing a stale socket folder");
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_is_private_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::create(Some(parent.path())).unwrap();
        let mode = fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn only_folders_that_nobody_holds_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let held = RuntimeDir::create(Some(parent.path())).unwrap();
        let stale = parent.path().join("vllm-rs-0123456789ab");
        fs::create_dir(&stale).unwrap();
        fs::write(stale.join(LOCK_FILE), "").unwrap();
        let other = parent.path().join("something-else");
        fs::create_dir(&other).unwrap();
        let _second = RuntimeDir::create(Some(parent.path())).unwrap();
        assert!(held.path().exists() && other.exists());
        assert!(!stale.exists());
    }

    #[test]
    fn a_sweep_never_takes_a_folder_that_is_just_being_made() {
        let parent = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        sweep(parent.path());
                    }
                });
            }
            let made: Vec<_> = (0..150)
                .map(|_| RuntimeDir::create(Some(parent.path())))
                .collect();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            for dir in made {
                assert!(dir.unwrap().path().join(LOCK_FILE).exists());
            }
        });
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let deep = parent.path().join("x".repeat(90));
        fs::create_dir(&deep).unwrap();
        let error = RuntimeDir::create(Some(&deep)).unwrap_err();
        assert!(
            matches!(error, ClientError::PathTooLong { limit: 107, .. }),
            "{error}"
        );
    }
}
