//! One message of an engine, taken apart: outputs to their streams, the rest to whom it concerns.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use vllm_rs_wire::{
    DecodedOutputs, EngineCoreOutput, Limits, OutputError, SchedulerStats, WireError, decode_outputs_within,
    is_engine_dead,
};

use crate::error::StreamError;
use crate::health::EngineHealth;
use crate::registry::Registry;
use crate::snapshot::{Counters, SchedulerSnapshot};
use crate::stream::Delivered;
use crate::utility::Utilities;

/// Where the parts of a message go.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) registry: Arc<Registry>,
    pub(crate) utilities: Arc<Utilities>,
    pub(crate) health: watch::Sender<EngineHealth>,
    pub(crate) stats: watch::Sender<SchedulerSnapshot>,
    pub(crate) stats_feed: broadcast::Sender<Arc<SchedulerStats>>,
    pub(crate) max_buffered_tokens: usize,
    pub(crate) limits: Limits,
}

/// What a message means for the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    EngineDead,
}

impl Dispatcher {
    pub(crate) fn on_message(&self, frames: &[Bytes]) -> Verdict {
        if is_engine_dead(frames) {
            return Verdict::EngineDead;
        }
        Counters::add(&self.registry.counters.messages_received, 1);
        match decode_outputs_within(frames, self.limits) {
            Ok(decoded) => self.on_decoded(decoded),
            Err(error) => self.on_unattributable(&error),
        }
        Verdict::Continue
    }

    fn on_decoded(&self, decoded: DecodedOutputs) {
        let mut good = Vec::with_capacity(decoded.outputs.len());
        let mut bad = Vec::new();
        for output in decoded.outputs {
            match output {
                Ok(output) => good.push(output),
                Err(error) => bad.push(error),
            }
        }
        self.deliver(good);
        let mut stray = None;
        for error in bad {
            stray = stray.or(self.on_bad_output(error));
        }
        for error in &decoded.side_errors {
            Counters::add(&self.registry.counters.malformed_side_parts, 1);
            tracing::warn!(%error, "part of an engine message cannot be read");
        }
        if let Some(stats) = decoded.scheduler_stats {
            self.stats.send_modify(|snapshot| snapshot.apply(&stats));
            // Fails when nobody listens, which is fine.
            let _ = self.stats_feed.send(Arc::from(stats));
        }
        if let Some(output) = decoded.utility_output {
            self.utilities.answer(output);
        }
        match stray {
            Some(error) => self.on_unattributable(&error),
            None => self.restore_health(),
        }
    }

    fn deliver(&self, outputs: Vec<EngineCoreOutput>) {
        let ids = outputs
            .iter()
            .map(|output| (output.request_id.as_str(), output.finish_reason.is_some()));
        let streams = self.registry.look_up(ids);
        let counters = &self.registry.counters;
        for (output, stream) in outputs.into_iter().zip(streams) {
            let Some(stream) = stream else {
                Counters::add(&counters.late_outputs, 1);
                continue;
            };
            match stream.deliver(output, self.max_buffered_tokens) {
                Delivered::Queued => {}
                Delivered::Coalesced => Counters::add(&counters.coalesced_outputs, 1),
                // The stream holds its error already; this only takes it off the books.
                Delivered::Overflow { request_id } => {
                    self.registry.fail(&request_id, StreamError::Closed);
                }
            }
        }
    }

    /// Ends the stream that an unreadable output belongs to; gives the fault back if there is none.
    /// An unknown id may be a mangled one, so it counts as unattributable too.
    fn on_bad_output(&self, bad: OutputError) -> Option<WireError> {
        let OutputError { request_id, error } = bad;
        let Some(request_id) = request_id else {
            return Some(error);
        };
        let reason = error.to_string();
        if self.registry.fail(&request_id, StreamError::Malformed { reason }) {
            Counters::add(&self.registry.counters.malformed_outputs, 1);
            tracing::warn!(request_id, %error, "unreadable output; its stream ends");
            None
        } else {
            Some(error)
        }
    }

    /// The transport could not make a message of what it read.
    pub(crate) fn on_broken_transport(&self, reason: &str) {
        self.end_all_streams(reason);
    }

    fn on_unattributable(&self, error: &WireError) {
        self.end_all_streams(&error.to_string());
    }

    /// A fault that may have cost any request its tokens: all streams end rather than one lie.
    fn end_all_streams(&self, reason: &str) {
        Counters::add(&self.registry.counters.malformed_messages, 1);
        tracing::error!(reason, "unreadable message from the engine; all streams end");
        let reason = reason.to_owned();
        self.registry.fail_all(&StreamError::EngineMalformed {
            reason: reason.clone(),
        });
        self.health.send_if_modified(|health| {
            let serving = matches!(health, EngineHealth::Ready | EngineHealth::Unhealthy { .. });
            if serving {
                *health = EngineHealth::Unhealthy {
                    reason: format!("unreadable message: {reason}"),
                };
            }
            serving
        });
    }

    fn restore_health(&self) {
        self.registry.note_progress();
        self.health.send_if_modified(|health| {
            let ill = matches!(health, EngineHealth::Unhealthy { .. });
            if ill {
                *health = EngineHealth::Ready;
            }
            ill
        });
    }
}
