//! Folders of the cache, and the lock that keeps two processes from filling one at the same time.

use std::fs::{self, File};
use std::path::Path;

use crate::error::{ResolveError, Result};

/// Creates `folder` and those above it.
pub(crate) fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| ResolveError::io(folder, 0, source))
}

/// Takes the lock of `folder`, waiting for another process that holds it. The lock ends with the value,
/// and with the process however it ends.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    create(folder)?;
    let path = folder.join(".lock");
    let io = |source| ResolveError::io(&path, 0, source);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(io)?;
    if file.try_lock().is_err() {
        eprintln!(
            "waiting for another process that is fetching into {}",
            folder.display()
        );
        file.lock().map_err(io)?;
    }
    Ok(file)
}

/// Writes a small file so that a reader sees all of it or none.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|source| ResolveError::io(path, content.len() as u64, source))
}
