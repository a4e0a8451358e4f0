//! The socket file of `--uds`: taken over only from a server that is gone, removed only while it is ours.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::listen::ListenError;

/// Device and inode: which file it is, whatever its name.
type FileId = (u64, u64);

/// A listening socket whose file is removed when this is dropped.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    file: Option<FileId>,
}

fn file_id(path: &Path) -> Option<FileId> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Removes what a killed server left at `path`; anything else there is an error and stays.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let taken = |what: String| ListenError::SocketPath {
        path: path.display().to_string(),
        what,
    };
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(taken(format!("cannot be read: {error}"))),
    };
    if !found.file_type().is_socket() {
        return Err(taken(
            "the file there is not a socket, so it is left alone".to_owned(),
        ));
    }
    match BlockingStream::connect(path) {
        Ok(_) => Err(taken("another server answers there".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| taken(format!("cannot be removed: {error}")))
        }
        Err(error) => Err(taken(format!("cannot be asked whether it is in use: {error}"))),
    }
}

impl UnixSocket {
    pub fn bind(path: PathBuf) -> Result<Self, ListenError> {
        clear_stale(&path)?;
        let listener = UnixListener::bind(&path).map_err(|source| ListenError::Bind {
            address: path.display().to_string(),
            source,
        })?;
        let file = file_id(&path);
        Ok(Self { listener, path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Another server may have put its own there meanwhile.
        if self.file.is_some() && file_id(&self.path) == self.file {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary folder")
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_never_removed() {
        let folder = folder();
        let path = folder.path().join("precious");
        std::fs::write(&path, "data").expect("writable");
        let error = UnixSocket::bind(path.clone()).expect_err("not a socket");
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "data");
        // Nor through a link.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(UnixSocket::bind(link).is_err());
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_socket_is_taken_over_only_when_nobody_answers() {
        let folder = folder();
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let first = UnixSocket::bind(path.clone()).expect("the stale socket is replaced");
        let error = UnixSocket::bind(path.clone()).expect_err("in use");
        assert!(error.to_string().contains("another server"), "{error}");
        drop(first);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn at_the_end_only_its_own_file_is_removed() {
        let folder = folder();
        let path = folder.path().join("s");
        let first = UnixSocket::bind(path.clone()).expect("bound");
        std::fs::rename(&path, folder.path().join("moved")).expect("renamed");
        let _second = UnixSocket::bind(path.clone()).expect("bound");
        drop(first);
        assert!(path.exists());
    }
}
