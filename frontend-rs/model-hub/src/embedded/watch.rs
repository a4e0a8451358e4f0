//! Running a package client: its downloads watched, its words kept.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// How often the growth of the files is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Of a client's output, the end is what explains a failure.
const KEPT_OUTPUT_BYTES: usize = 64 << 10;

/// How a client ended.
pub(super) struct Ended {
    pub(super) success: bool,
    /// The end of its standard error and output.
    pub(super) output: String,
    /// Whether `on_growth` asked to stop.
    pub(super) stopped: bool,
}

/// Runs `command` to its end, calling `on_growth` with the bytes of the files under `folder`. Where that
/// answers `false` the client is ended.
pub(super) fn run(
    command: &mut Command,
    folder: &Path,
    on_growth: &dyn Fn(u64) -> bool,
) -> std::io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let streams: [Option<Box<dyn Read + Send>>; 2] = [
        child
            .stdout
            .take()
            .map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        child
            .stderr
            .take()
            .map(|stream| Box::new(stream) as Box<dyn Read + Send>),
    ];
    let readers: Vec<_> = streams
        .into_iter()
        .flatten()
        .map(|stream| thread::spawn(move || tail(stream)))
        .collect();
    let waited = wait(&mut child, folder, on_growth);
    if waited.is_err() || matches!(waited, Ok(None)) {
        // An ended client cannot be ended again; that is no error.
        let _ = child.kill();
        let _ = child.wait();
    }
    let output = readers
        .into_iter()
        .map(|reader| reader.join().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let status = waited?;
    let success = status.is_some_and(|status| status.success());
    Ok(Ended {
        success,
        output,
        stopped: status.is_none(),
    })
}

/// `None` where `on_growth` asked to stop.
fn wait(
    child: &mut Child,
    folder: &Path,
    on_growth: &dyn Fn(u64) -> bool,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if !on_growth(bytes_under(folder)) {
            return Ok(None);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

fn tail(mut stream: Box<dyn Read + Send>) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..count]);
        let excess = kept.len().saturating_sub(KEPT_OUTPUT_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Bytes of all files below `folder`; what vanishes meanwhile counts nothing.
fn bytes_under(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_under(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
