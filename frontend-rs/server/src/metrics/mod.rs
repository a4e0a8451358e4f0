//! What `/metrics` shows: vLLM's names for everything that exists here, and a few of our own (`vllm_rs:`).

pub mod buckets;
pub mod engine_metrics;
pub mod http_metrics;
pub mod primitives;
pub mod process;
pub mod render;
pub mod request_timer;

pub use engine_metrics::{EngineMetrics, Terminal};
pub use http_metrics::HttpMetrics;
pub use request_timer::{RequestGroup, RequestTimer};
