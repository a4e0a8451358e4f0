//! One file: resumed, checked, and only then given its name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::api::{Hub, HubFile};
use crate::checksum::sha256;
use crate::error::{ResolveError, Result};

/// Attempts in a row that may bring nothing new before we give up.
const FRUITLESS_ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const BUFFER_BYTES: usize = 256 << 10;

/// Fetches `file` of `commit` to `target`, through `partial`, which survives this process. `on_bytes` is
/// told how many bytes of the file are there and may answer `false` to stop.
pub(super) fn download(
    hub: &Hub<'_>,
    commit: &str,
    file: &HubFile,
    partial: &Path,
    target: &Path,
    on_bytes: &dyn Fn(u64) -> bool,
) -> Result<()> {
    let mut fruitless = 0;
    loop {
        let before = size_of(partial);
        if before == file.size_bytes && (before > 0 || partial.is_file()) {
            break;
        }
        let attempt = extend(hub, commit, file, partial, on_bytes);
        let problem = match attempt {
            Ok(()) if size_of(partial) == file.size_bytes => break,
            Ok(()) => None,
            Err(
                error @ (ResolveError::Unreachable { .. } | ResolveError::HubStatus { status: 500.., .. }),
            ) => Some(error),
            Err(error) => return Err(error),
        };
        fruitless = if size_of(partial) > before {
            0
        } else {
            fruitless + 1
        };
        if fruitless >= FRUITLESS_ATTEMPTS {
            return Err(problem.unwrap_or_else(|| wrong_size(file, partial)));
        }
        thread::sleep(FIRST_PAUSE * 2u32.pow(fruitless.min(5)));
    }
    check(file, partial)?;
    fs::rename(partial, target).map_err(|source| ResolveError::io(target, file.size_bytes, source))
}

/// One request: adds to `partial` what comes.
fn extend(
    hub: &Hub<'_>,
    commit: &str,
    file: &HubFile,
    partial: &Path,
    on_bytes: &dyn Fn(u64) -> bool,
) -> Result<()> {
    let io = |source| ResolveError::io(partial, file.size_bytes, source);
    // More than the whole file is no beginning of it.
    let have = Some(size_of(partial))
        .filter(|have| *have < file.size_bytes)
        .unwrap_or(0);
    let mut part = hub.read(commit, &file.name, have)?;
    let mut out = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(partial)
        .map_err(io)?;
    out.set_len(part.start).map_err(io)?;
    io::Seek::seek(&mut out, io::SeekFrom::Start(part.start)).map_err(io)?;
    let mut written = part.start;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = match part.body.read(&mut buffer) {
            Ok(0) => return out.sync_data().map_err(io),
            Ok(count) => count,
            // The connection broke: what came is kept, and the next request goes on from there.
            Err(error) => {
                let url = format!("{commit}/{}", file.name);
                return Err(ResolveError::Unreachable {
                    url,
                    problem: error.to_string(),
                });
            }
        };
        written += count as u64;
        if written > file.size_bytes {
            return Err(remove(
                partial,
                format!("more than its {} bytes came", file.size_bytes),
            ));
        }
        out.write_all(&buffer[..count]).map_err(io)?;
        if !on_bytes(written) {
            return Err(ResolveError::Interrupted {
                name: file.name.clone(),
            });
        }
    }
}

fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn check(file: &HubFile, partial: &Path) -> Result<()> {
    let Some(expected) = &file.sha256 else {
        return Ok(());
    };
    let found = sha256(partial).map_err(|source| ResolveError::io(partial, file.size_bytes, source))?;
    if found == *expected {
        return Ok(());
    }
    Err(remove(
        partial,
        format!("its sha256 is {found}, the hub promised {expected}"),
    ))
}

fn wrong_size(file: &HubFile, partial: &Path) -> ResolveError {
    remove(
        partial,
        format!(
            "it has {} bytes, the hub promised {}",
            size_of(partial),
            file.size_bytes
        ),
    )
}

/// Bytes that are wrong must not be gone on from.
fn remove(partial: &Path, problem: String) -> ResolveError {
    // If it cannot be removed, the next attempt finds it wrong again and says so.
    let _ = fs::remove_file(partial);
    ResolveError::Corrupt {
        file: partial.to_owned(),
        problem,
    }
}
