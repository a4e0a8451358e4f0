//! A model's name → its files on this machine.
//!
//! A name is a local path, the built-in default `smollm2`, or a hub id `org/name`. What exists locally
//! always wins, and what has been fetched once is used again without the network.

mod cache;
mod checksum;
mod embedded;
mod error;
mod hub;
mod options;
mod progress;
mod resolve;

pub use embedded::EmbeddedModel;
pub use error::ResolveError;
pub use options::ResolveOptions;
pub use progress::{Progress, TerminalProgress};
pub use resolve::{DEFAULT_MODEL, resolve};
