//! Logs: to stderr, one line per event, no colours unless a terminal reads them.

use std::io::IsTerminal;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};
use vllm_rs_flags::{LogFormat, LogLevel, ObservabilityConfig};

use crate::log_sink::{self, LogSink};

fn level(level: LogLevel) -> Level {
    match level.as_str() {
        "trace" => Level::TRACE,
        "debug" => Level::DEBUG,
        "warning" | "warn" => Level::WARN,
        "error" | "critical" => Level::ERROR,
        _ => Level::INFO,
    }
}

/// Installs the log writer of this process. Libraries below us stay at `warn`.
pub fn init(config: &ObservabilityConfig) {
    let own = level(config.log_level);
    let targets = [
        "vllm_rs",
        "vllm_rs_server",
        "vllm_rs_engine_client",
        "vllm_rs_model_hub",
        "vllm_rs_text",
        "engine",
    ];
    let filter = Targets::new()
        .with_default(own.min(Level::WARN))
        // It warns when a socket file that it deletes on closing is gone already.
        .with_target("zeromq", Level::ERROR)
        .with_targets(targets.into_iter().map(|target| (target, own)));
    let sink = LogSink::new(std::io::stderr());
    sink.install();
    let layer = fmt::layer()
        .with_writer(sink)
        .with_ansi(std::io::stderr().is_terminal());
    let layer = match config.log_format {
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Text => layer.boxed(),
    };
    // A second call (tests) keeps the first writer.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init();
}

/// Before the process ends: lets the last lines out.
pub fn flush() {
    log_sink::flush_installed();
}
