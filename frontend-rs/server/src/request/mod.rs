//! What is common to every request body: reading it, its typed fields, its sampling parameters.

pub mod body;
pub mod fields;
pub mod intake;
pub mod parse;
pub mod sampling;
pub mod stream_options;
