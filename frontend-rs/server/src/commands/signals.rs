//! SIGTERM and Ctrl-C.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::CommandError;

/// The signals that ask for an end.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub fn new() -> Result<Self, CommandError> {
        let listen = |kind| signal(kind).map_err(|error| CommandError::Runtime(error.to_string()));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one and names it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
