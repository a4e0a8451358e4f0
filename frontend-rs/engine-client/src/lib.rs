//! The frontend's side of an engine: sockets, handshake, streams, and the life of the process.
//!
//! [`EngineClient`] owns one engine, whoever started it. It submits requests, hands every request's
//! outputs to its own [`OutputStream`], and keeps [`EngineHealth`] true: a message that cannot be read
//! ends the streams it may have belonged to and nothing else, a dead process ends all of them with an
//! error and, where we own it, is started once more. Dropping a stream before its last output aborts
//! the request. [`mock`] is an engine with a scripted temper for tests and load measurements.

mod client;
mod config;
mod dispatch;
#[cfg(test)]
mod dispatch_tests;
mod error;
mod events;
mod health;
mod lifecycle;
mod link;
pub mod mock;
mod python;
mod registry;
mod runtime_dir;
mod sender;
mod snapshot;
mod stream;
mod supervisor;
mod utility;
mod watchdog;

pub use client::EngineClient;
pub use config::{BuildIdentity, ClientConfig, EngineSource, RestartPolicy};
pub use error::{ClientError, StreamError};
pub use events::EngineEvent;
pub use health::EngineHealth;
pub use python::{PythonError, find_python};
pub use runtime_dir::RuntimeDir;
pub use snapshot::{ClientCounters, SchedulerSnapshot, StatsTotals};
pub use stream::{AbortCause, Arrival, OutputStream};
pub use supervisor::{EngineExit, EngineSupervisor, SpawnConfig};
