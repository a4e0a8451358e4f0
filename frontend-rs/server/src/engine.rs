//! The engine as the routes see it: submit a sequence, read its outputs, ask for its health.
//!
//! Routes depend on this trait and not on sockets, so that tests can put a fake in its place.

use futures::Stream;
pub use vllm_rs_engine_client::Arrival;
use vllm_rs_wire::{EngineCoreOutput, EngineCoreRequest};

use crate::error::ApiError;

/// Why the engine gave no (further) output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineFailure {
    /// The process is gone, or its connection.
    #[error("{reason}")]
    Died { reason: String },
    /// This one request failed; the engine goes on.
    #[error("{reason}")]
    Request { reason: String },
    /// As many requests are open as the engine's client takes.
    #[error("{open} requests are open, at most {limit} are allowed")]
    Overloaded { limit: u64, open: u64 },
    /// Not up (yet, or again).
    #[error("{state}")]
    Unavailable { state: String },
}

impl From<EngineFailure> for ApiError {
    fn from(failure: EngineFailure) -> Self {
        match failure {
            EngineFailure::Died { reason } => Self::EngineDied { reason },
            EngineFailure::Request { reason } => Self::EngineRequest { reason },
            EngineFailure::Overloaded { limit, open } => Self::QueueFull {
                what: "open requests",
                flag: "a fixed limit",
                limit,
                waiting: open,
                retry_after_s: 1,
            },
            EngineFailure::Unavailable { state } => Self::NotReady {
                state,
                retry_after_s: 2,
            },
        }
    }
}

/// Whether the engine can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineState {
    Ready,
    /// Connected and taking requests, but a sign of life is overdue, for the reason given.
    Unhealthy {
        reason: String,
    },
    /// Not serving now, for the reason given.
    Down {
        reason: String,
    },
}

/// The scheduler's last word, and sums since this process started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineSnapshot {
    pub running_requests: u64,
    pub waiting_requests: u64,
    /// 0 to 1.
    pub kv_cache_usage: f64,
    pub prefix_cache_queries_tokens: u64,
    pub prefix_cache_hits_tokens: u64,
    /// Times the engine process died.
    pub deaths: u64,
}

/// Outputs of one sequence. Dropped before the last one, it aborts the sequence.
pub trait Outputs: Stream<Item = Result<EngineCoreOutput, EngineFailure>> + Send + Unpin {
    /// When the tokens of the item taken last came from the engine, in order; empty where that is not known.
    fn arrivals(&self) -> &[Arrival] {
        &[]
    }

    /// Ends the sequence because its text holds a stop string, which the engine cannot know.
    fn stop_string_found(self: Box<Self>);
}

pub type OutputStream = Box<dyn Outputs>;

/// What the routes need of an engine.
pub trait Engine: Send + Sync {
    fn submit(&self, request: EngineCoreRequest) -> Result<OutputStream, EngineFailure>;
    fn state(&self) -> EngineState;
    fn snapshot(&self) -> EngineSnapshot;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_requests_are_the_client_s_to_try_again() {
        let error = ApiError::from(EngineFailure::Overloaded { limit: 8, open: 8 });
        assert_eq!((error.status().as_u16(), error.retry_after_s()), (429, Some(1)));
    }
}
