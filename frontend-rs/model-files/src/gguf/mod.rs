//! The GGUF format, versions 2 and 3, little-endian.
//!
//! Layout: magic, version, counts; metadata key/value pairs; tensor records; padding; tensor data.
//! A file is untrusted: each count is checked against the bytes that are left before anything is
//! allocated for it, and each tensor's range is checked once, at opening.

mod config;
mod cursor;
mod error;
mod header;
mod names;
mod rope;
mod tokenizer;
mod value;

pub(crate) use config::{hf_config, hf_generation_config};
pub use error::GgufError;
pub(crate) use header::{GgufHeader, MAGIC};
pub(crate) use names::hf_tensors;
pub(crate) use tokenizer::tokenizer;
