//! How far a download is.

use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::checksum::megabytes;

/// One report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The model being fetched.
    pub name: &'a str,
    /// Bytes that have arrived, those of an earlier attempt included.
    pub done_bytes: u64,
    /// Bytes of all files.
    pub total_bytes: u64,
}

/// Receives reports; `false` asks to stop.
pub(crate) type OnProgress<'a> = &'a dyn Fn(Progress<'_>) -> bool;

/// Shows progress on standard error: a bar on a terminal, else a line every tenth of the way.
#[derive(Debug)]
pub struct TerminalProgress {
    bar: Option<ProgressBar>,
    tenths: Cell<u64>,
}

impl TerminalProgress {
    /// A display that draws nothing until the first report.
    pub fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            tenths: Cell::new(u64::MAX),
        }
    }

    /// Shows one report and goes on.
    pub fn report(&self, progress: Progress<'_>) -> bool {
        let Progress {
            name,
            done_bytes,
            total_bytes,
        } = progress;
        if let Some(bar) = &self.bar {
            bar.set_length(total_bytes);
            bar.set_position(done_bytes);
            bar.set_message(format!("fetching {name}"));
            if done_bytes >= total_bytes {
                bar.finish_and_clear();
            }
            return true;
        }
        let tenths = 10 * done_bytes / total_bytes.max(1);
        if self.tenths.replace(tenths) != tenths {
            eprintln!(
                "fetching {name}: {} of {}",
                megabytes(done_bytes),
                megabytes(total_bytes)
            );
        }
        true
    }
}

impl Default for TerminalProgress {
    fn default() -> Self {
        Self::new()
    }
}
