//! The HTTP routes; each has its types, its validation, its conversion and its handler.

pub mod chat;
pub mod common;
pub mod completions;
pub mod detokenize;
pub mod health;
pub mod metrics;
pub mod models;
pub mod tokenize;
