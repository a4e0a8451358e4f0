//! What can go wrong between a frontend and its engine.

use std::time::Duration;

/// A call on the client that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("the engine is not ready: {state}")]
    NotReady { state: String },
    #[error("the engine is gone: {reason}")]
    Dead { reason: String },
    #[error("request id '{request_id}' is already in use")]
    DuplicateRequest { request_id: String },
    #[error("{open} requests are open, at most {limit} are allowed")]
    TooManyRequests { limit: usize, open: usize },
    #[error("cannot bind {address}: {reason}")]
    Bind { address: String, reason: String },
    #[error("cannot make the socket folder {path}: {reason}")]
    RuntimeDir { path: String, reason: String },
    #[error(
        "the socket path {path} has {given} bytes, at most {limit} are allowed; set --ipc-dir or TMPDIR to a shorter folder"
    )]
    PathTooLong {
        path: String,
        limit: usize,
        given: usize,
    },
    #[error("cannot start the engine: {reason}")]
    Spawn { reason: String },
    #[error("the engine did not register within {timeout:?}")]
    ReadyTimeout { timeout: Duration },
    #[error("the engine speaks another build: it is {engine}, this is {frontend}")]
    VersionMismatch { engine: String, frontend: String },
    #[error("bad start-up message from the engine: {reason}")]
    Handshake { reason: String },
    #[error("call of {method} failed: {reason}")]
    Utility { method: String, reason: String },
    #[error("call of {method} had no answer within {timeout:?}")]
    UtilityTimeout { method: String, timeout: Duration },
}

/// Why a stream ended before its last output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("the engine died: {reason}")]
    EngineDied { reason: String },
    /// The engine's output for this request could not be read.
    #[error("the engine sent an unreadable output: {reason}")]
    Malformed { reason: String },
    /// A message could not be read that may have been for this request.
    #[error("the engine sent an unreadable message: {reason}")]
    EngineMalformed { reason: String },
    #[error("the request could not be sent: {reason}")]
    Unsent { reason: String },
    #[error("{given} tokens wait to be read, at most {limit} are kept")]
    Overflow { limit: usize, given: usize },
    #[error("the client was shut down")]
    Closed,
}
