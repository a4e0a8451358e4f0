//! One sequence: engine outputs in, text deltas out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::{Stream, StreamExt};
use vllm_rs_text::OutputProcessor;
use vllm_rs_wire::{
    EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, FinishReason, LogprobsLists, LogprobsTensors,
    StopReason,
};

use super::admission::Ticket;
use crate::engine::{EngineFailure, OutputStream};
use crate::error::ApiError;
use crate::metrics::{EngineMetrics, RequestTimer, Terminal};

/// Why a sequence ended, as the client sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// `stop`, `length`, `abort` or `repetition`.
    pub reason: &'static str,
    /// The stop string or stop token that matched; none for end-of-sequence.
    pub stop_reason: Option<StopReason>,
}

/// News of one sequence.
#[derive(Debug, Default)]
pub struct ChoiceDelta {
    /// Position among the choices of the HTTP request.
    pub index: u32,
    /// Text that is safe to show: no half character, no beginning of a stop string.
    pub text: String,
    pub token_ids: Vec<u32>,
    /// One row per token id.
    pub logprobs: Option<LogprobsLists>,
    pub prompt_logprobs: Option<LogprobsTensors>,
    /// Prompt tokens found in the prefix cache; with the first delta.
    pub cached_tokens: Option<u64>,
    pub finish: Option<Finish>,
}

/// A sequence that runs in the engine. Dropped before its end, it is aborted there and counted so.
pub struct ChoiceStream {
    pub index: u32,
    pub request_id: String,
    /// `None` once the sequence has ended; dropping it tells the engine.
    outputs: Option<OutputStream>,
    processor: OutputProcessor,
    timer: RequestTimer,
    /// Held until the first output.
    ticket: Option<Ticket>,
    metrics: Arc<EngineMetrics>,
    queued_at_s: Option<f64>,
}

/// What a new stream is made of.
pub struct ChoiceParts {
    pub index: u32,
    pub request_id: String,
    pub outputs: OutputStream,
    pub processor: OutputProcessor,
    pub timer: RequestTimer,
    pub ticket: Ticket,
    pub metrics: Arc<EngineMetrics>,
}

/// Leaves out the tokens that came in the same output after the stop string.
fn keep_tokens(delta: &mut ChoiceDelta, tokens: usize) {
    delta.token_ids.truncate(tokens);
    if let Some(rows) = &mut delta.logprobs {
        rows.token_ids.truncate(tokens * rows.columns);
        rows.logprobs.truncate(tokens * rows.columns);
        rows.ranks.truncate(tokens);
    }
}

impl ChoiceStream {
    pub fn new(parts: ChoiceParts) -> Self {
        let ChoiceParts {
            index,
            request_id,
            outputs,
            processor,
            timer,
            ticket,
            metrics,
        } = parts;
        Self {
            index,
            request_id,
            outputs: Some(outputs),
            processor,
            timer,
            ticket: Some(ticket),
            metrics,
            queued_at_s: None,
        }
    }

    fn on_events(&mut self, events: &[EngineCoreEvent]) {
        for event in events {
            match event.event_type {
                Some(EngineCoreEventType::Queued) => self.queued_at_s = Some(event.timestamp),
                Some(EngineCoreEventType::Scheduled) => {
                    if let Some(queued_at_s) = self.queued_at_s {
                        self.timer.set_queue_time(event.timestamp - queued_at_s);
                    }
                }
                Some(EngineCoreEventType::Preempted) => self.metrics.preemptions.inc(),
                None => {}
            }
        }
    }

    fn on_first_output(&mut self, tokens: usize) {
        if self.ticket.take().is_some() {
            tracing::debug!(
                target: "vllm_rs::request", request_id = %self.request_id, station = "first_output", tokens
            );
        }
    }

    fn end(&mut self, terminal: Terminal) {
        self.outputs = None;
        self.timer.finish(terminal);
        tracing::debug!(
            target: "vllm_rs::request", request_id = %self.request_id, station = "finished",
            reason = terminal.label(), output_tokens = self.timer.output_tokens()
        );
    }

    fn on_output(&mut self, output: EngineCoreOutput) -> Result<ChoiceDelta, ApiError> {
        let mut delta = ChoiceDelta {
            index: self.index,
            ..ChoiceDelta::default()
        };
        self.on_events(output.events.as_deref().unwrap_or_default());
        self.on_first_output(output.new_token_ids.len());
        if let Some(stats) = &output.prefill_stats {
            self.timer.set_cached_tokens(stats.num_cached_tokens);
            delta.cached_tokens = Some(stats.num_cached_tokens);
        }
        match self.outputs.as_ref().map(|outputs| outputs.arrivals()) {
            Some(arrivals) if !arrivals.is_empty() => {
                for arrival in arrivals {
                    self.timer.on_tokens(arrival.tokens as u64, arrival.at);
                }
            }
            _ => self
                .timer
                .on_tokens(output.new_token_ids.len() as u64, Instant::now()),
        }
        delta.prompt_logprobs = output.new_prompt_logprobs_tensors;
        delta.logprobs = output.new_logprobs;
        delta.token_ids = output.new_token_ids;

        let text = if output.finish_reason == Some(FinishReason::Stop) {
            self.processor.push_stopped(&delta.token_ids)
        } else {
            self.processor.push(&delta.token_ids)
        };
        delta.text = text.text;
        let mut stop = text.stop;
        if stop.is_some() {
            keep_tokens(&mut delta, text.tokens_used);
        } else if output.finish_reason.is_some() {
            let rest = self.processor.finish();
            delta.text.push_str(&rest.text);
            stop = rest.stop;
        }
        if let Some(index) = stop {
            let stop = self.processor.stop_string(index).unwrap_or_default().to_owned();
            delta.finish = Some(Finish {
                reason: "stop",
                stop_reason: Some(StopReason::Text(stop)),
            });
            if let Some(outputs) = self.outputs.take() {
                outputs.stop_string_found();
            }
            self.end(Terminal::Stop);
        } else if let Some(reason) = output.finish_reason {
            delta.finish = Some(self.engine_finish(reason, output.stop_reason)?);
        }
        Ok(delta)
    }

    fn engine_finish(
        &mut self,
        reason: FinishReason,
        stop_reason: Option<StopReason>,
    ) -> Result<Finish, ApiError> {
        let terminal = match reason {
            FinishReason::Stop => Terminal::Stop,
            FinishReason::Length => Terminal::Length,
            FinishReason::Abort => Terminal::Abort,
            FinishReason::Error => Terminal::Error,
            FinishReason::Repetition => Terminal::Repetition,
        };
        self.end(terminal);
        if terminal == Terminal::Error {
            return Err(ApiError::EngineRequest {
                reason: "it answered with an error; see the engine's log".into(),
            });
        }
        Ok(Finish {
            reason: terminal.label(),
            stop_reason,
        })
    }

    fn fail(&mut self, failure: EngineFailure) -> ApiError {
        self.end(Terminal::Error);
        tracing::warn!(request_id = %self.request_id, "the engine failed a request: {failure}");
        failure.into()
    }
}

impl Stream for ChoiceStream {
    type Item = Result<ChoiceDelta, ApiError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(outputs) = this.outputs.as_mut() else {
            return Poll::Ready(None);
        };
        match outputs.poll_next_unpin(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(output))) => {
                let delta = this.on_output(output);
                if delta.is_err() {
                    this.end(Terminal::Error);
                }
                Poll::Ready(Some(delta))
            }
            Poll::Ready(Some(Err(failure))) => Poll::Ready(Some(Err(this.fail(failure)))),
            Poll::Ready(None) => {
                let reason = "its output stream ended early".to_owned();
                Poll::Ready(Some(Err(this.fail(EngineFailure::Died { reason }))))
            }
        }
    }
}
