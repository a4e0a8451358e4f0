//! The server of vllm-rs: HTTP in front of an engine.
//!
//! JSON ends here: routes turn requests into token ids and sampling parameters, and outputs back into text.

pub mod app;
pub mod auth;
pub mod build_info;
pub mod cli;
pub mod commands;
pub mod connection;
pub mod engine;
pub mod error;
pub mod facts;
pub mod generate;
pub mod limits;
pub mod listen;
pub mod log_sink;
pub mod logging;
pub mod metrics;
pub mod model;
pub mod observe;
pub mod remote_engine;
pub mod request;
pub mod routes;
pub mod sse;
pub mod state;
pub mod stats_log;
pub mod unix_socket;
pub mod usage;
