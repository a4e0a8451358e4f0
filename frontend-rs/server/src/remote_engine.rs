//! The real engine behind the trait the routes use.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use vllm_rs_engine_client::{AbortCause, ClientError, EngineClient, EngineEvent, EngineHealth, StreamError};
use vllm_rs_wire::{EngineCoreOutput, EngineCoreRequest, SchedulerStats, Value};

use crate::engine::{Arrival, Engine, EngineFailure, EngineSnapshot, EngineState, OutputStream, Outputs};
use crate::metrics::EngineMetrics;

/// An engine reached over sockets.
#[derive(Debug)]
pub struct RemoteEngine {
    client: EngineClient,
    health: tokio::sync::watch::Receiver<EngineHealth>,
    stats: tokio::sync::watch::Receiver<vllm_rs_engine_client::SchedulerSnapshot>,
}

impl RemoteEngine {
    pub fn new(client: EngineClient) -> Self {
        let (health, stats) = (client.health(), client.stats());
        Self {
            client,
            health,
            stats,
        }
    }
}

fn failure(error: ClientError) -> EngineFailure {
    match error {
        ClientError::NotReady { state } => EngineFailure::Unavailable { state },
        ClientError::TooManyRequests { limit, open } => EngineFailure::Overloaded {
            limit: limit as u64,
            open: open as u64,
        },
        ClientError::Dead { reason } => EngineFailure::Unavailable {
            state: format!("the engine is gone: {reason}"),
        },
        other => EngineFailure::Request {
            reason: other.to_string(),
        },
    }
}

fn stream_failure(error: StreamError) -> EngineFailure {
    match error {
        StreamError::EngineDied { reason } => EngineFailure::Died { reason },
        StreamError::Closed => EngineFailure::Died {
            reason: "the server is shutting down".to_owned(),
        },
        other => EngineFailure::Request {
            reason: other.to_string(),
        },
    }
}

impl Engine for RemoteEngine {
    fn submit(&self, request: EngineCoreRequest) -> Result<OutputStream, EngineFailure> {
        let stream = self.client.submit(request).map_err(failure)?;
        Ok(Box::new(RemoteOutputs(stream)))
    }

    fn state(&self) -> EngineState {
        match &*self.health.borrow() {
            EngineHealth::Ready => EngineState::Ready,
            ill if ill.admits_requests() => EngineState::Unhealthy {
                reason: format!("the engine is {ill}"),
            },
            other => EngineState::Down {
                reason: format!("the engine is {other}"),
            },
        }
    }

    fn snapshot(&self) -> EngineSnapshot {
        let stats = *self.stats.borrow();
        EngineSnapshot {
            running_requests: stats.num_running_reqs,
            waiting_requests: stats.num_waiting_reqs,
            kv_cache_usage: stats.kv_cache_usage,
            prefix_cache_queries_tokens: stats.totals.prefix_cache_queries_tokens,
            prefix_cache_hits_tokens: stats.totals.prefix_cache_hits_tokens,
            deaths: self.client.counters().engine_deaths,
        }
    }
}

struct RemoteOutputs(vllm_rs_engine_client::OutputStream);

impl Stream for RemoteOutputs {
    type Item = Result<EngineCoreOutput, EngineFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0
            .poll_next_unpin(context)
            .map(|item| item.map(|output| output.map_err(stream_failure)))
    }
}

impl Outputs for RemoteOutputs {
    fn arrivals(&self) -> &[Arrival] {
        self.0.arrivals()
    }

    fn stop_string_found(self: Box<Self>) {
        self.0.abort(AbortCause::StopString);
    }
}

/// Follows the scheduler's reports for the metrics that need every one of them.
pub async fn record_steps(mut feed: Receiver<Arc<SchedulerStats>>, metrics: Arc<EngineMetrics>) {
    loop {
        match feed.recv().await {
            Ok(stats) => record_step(&stats, &metrics),
            // A few steps fewer in a histogram is no harm.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Keeps the memory gauges at what the engine last reported, until it is gone for good.
pub async fn record_memory(mut events: Receiver<EngineEvent>, metrics: Arc<EngineMetrics>) {
    loop {
        match events.recv().await {
            Ok(EngineEvent::Memory { table }) => metrics.set_memory(memory_parts(&table)),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// The parts of the engine's memory table that stand for memory taken, by name.
fn memory_parts(table: &serde_json::Value) -> Vec<(String, f64)> {
    ["weights", "activations", "context", "kv_cache"]
        .into_iter()
        .filter_map(|part| Some((part.to_owned(), table.get(format!("{part}_bytes"))?.as_f64()?)))
        .collect()
}

fn record_step(stats: &SchedulerStats, metrics: &EngineMetrics) {
    let Some(Value::Map(details)) = &stats.iteration_details else {
        return;
    };
    let tokens: u64 = details
        .iter()
        .filter(|(key, _)| matches!(key.as_str(), Some("num_ctx_tokens" | "num_generation_tokens")))
        .filter_map(|(_, value)| value.as_u64())
        .sum();
    if tokens > 0 {
        metrics.iteration_tokens.observe(tokens as f64);
    }
}
