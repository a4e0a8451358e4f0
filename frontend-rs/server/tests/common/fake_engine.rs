//! An engine that writes a fixed text, one byte token per output.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::Stream;
use vllm_rs_server::engine::{Engine, EngineFailure, EngineSnapshot, EngineState, OutputStream, Outputs};
use vllm_rs_wire::{
    EngineCoreOutput, EngineCoreRequest, FinishReason, LogprobsLists, LogprobsTensors, PrefillStats,
};

use super::tiny_model::IM_END;

/// What the fake does after its last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// The end-of-sequence token, or `max_tokens`.
    #[default]
    Finish,
    /// Nothing more ever comes.
    Hang,
    /// The engine dies.
    Die,
    /// The engine answers with an error.
    Error,
}

#[derive(Debug, Default)]
pub struct FakeEngine {
    pub text: Mutex<String>,
    pub ending: Ending,
    pub down: Mutex<Option<String>>,
    pub unhealthy: AtomicBool,
    pub tokens_per_output: usize,
    pub requests: Mutex<Vec<EngineCoreRequest>>,
    pub aborts: Arc<AtomicU64>,
    pub stop_strings: Arc<AtomicU64>,
}

impl FakeEngine {
    pub fn writing(text: &str) -> Self {
        Self {
            text: Mutex::new(text.to_owned()),
            ..Self::default()
        }
    }

    pub fn ending(text: &str, ending: Ending) -> Self {
        Self {
            ending,
            ..Self::writing(text)
        }
    }

    pub fn last_request(&self) -> EngineCoreRequest {
        self.requests
            .lock()
            .expect("no panic")
            .last()
            .expect("a request")
            .clone()
    }
}

impl Engine for FakeEngine {
    fn submit(&self, request: EngineCoreRequest) -> Result<OutputStream, EngineFailure> {
        let params = request.sampling_params.clone().expect("sampling parameters");
        let prompt = request.prompt_token_ids.clone().expect("a prompt");
        let mut tokens: Vec<u32> = self
            .text
            .lock()
            .expect("no panic")
            .bytes()
            .map(u32::from)
            .collect();
        if !params.ignore_eos {
            tokens.push(IM_END);
        }
        let max_tokens = params.max_tokens.expect("max_tokens is always set") as usize;
        let finish = if tokens.len() > max_tokens {
            FinishReason::Length
        } else {
            FinishReason::Stop
        };
        tokens.truncate(max_tokens);
        self.requests.lock().expect("no panic").push(request);
        Ok(Box::new(FakeOutputs {
            tokens,
            position: 0,
            step: self.tokens_per_output.max(1),
            finish,
            ending: self.ending,
            ended: false,
            logprobs: params.logprobs,
            prompt_logprobs: params.prompt_logprobs.map(|top| (top, prompt)),
            aborts: self.aborts.clone(),
            stop_strings: self.stop_strings.clone(),
        }))
    }

    fn state(&self) -> EngineState {
        match &*self.down.lock().expect("no panic") {
            Some(reason) => EngineState::Down {
                reason: reason.clone(),
            },
            None if self.unhealthy.load(Relaxed) => EngineState::Unhealthy {
                reason: "no progress".to_owned(),
            },
            None => EngineState::Ready,
        }
    }

    fn snapshot(&self) -> EngineSnapshot {
        EngineSnapshot::default()
    }
}

struct FakeOutputs {
    tokens: Vec<u32>,
    position: usize,
    step: usize,
    finish: FinishReason,
    ending: Ending,
    ended: bool,
    logprobs: Option<i32>,
    prompt_logprobs: Option<(i32, Vec<u32>)>,
    aborts: Arc<AtomicU64>,
    stop_strings: Arc<AtomicU64>,
}

/// Rows in which every token has logprob -0.5 and alternatives `id + 1 ..` follow.
fn rows<const T: bool>(ids: &[u32], top: i32) -> vllm_rs_wire::Logprobs<T> {
    let columns = 1 + top.max(0) as usize;
    vllm_rs_wire::Logprobs {
        columns,
        token_ids: ids
            .iter()
            .flat_map(|id| (0..columns as u32).map(move |column| (id + column) % 256))
            .collect(),
        logprobs: ids
            .iter()
            .flat_map(|_| (0..columns).map(|column| -0.5 - column as f32))
            .collect(),
        ranks: vec![1; ids.len()],
    }
}

impl Stream for FakeOutputs {
    type Item = Result<EngineCoreOutput, EngineFailure>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let end = (this.position + this.step).min(this.tokens.len());
        let last = end == this.tokens.len();
        if last && this.ending == Ending::Hang {
            return Poll::Pending;
        }
        if last && this.ending == Ending::Die {
            this.ended = true;
            return Poll::Ready(Some(Err(EngineFailure::Died {
                reason: "killed by the test".to_owned(),
            })));
        }
        let first = this.position == 0;
        let new_token_ids = this.tokens[this.position..end].to_vec();
        this.position = end;
        this.ended = last;
        let finish = if this.ending == Ending::Error {
            FinishReason::Error
        } else {
            this.finish
        };
        let new_logprobs: Option<LogprobsLists> = this.logprobs.map(|top| rows(&new_token_ids, top));
        let prompt: Option<LogprobsTensors> = this
            .prompt_logprobs
            .as_ref()
            .filter(|(_, prompt)| first && prompt.len() > 1)
            .map(|(top, prompt)| rows(&prompt[1..], *top));
        Poll::Ready(Some(Ok(EngineCoreOutput {
            new_token_ids,
            new_logprobs,
            new_prompt_logprobs_tensors: prompt,
            finish_reason: last.then_some(finish),
            prefill_stats: first.then(|| PrefillStats {
                num_cached_tokens: 4,
                ..PrefillStats::default()
            }),
            ..EngineCoreOutput::default()
        })))
    }
}

impl Outputs for FakeOutputs {
    fn stop_string_found(mut self: Box<Self>) {
        self.ended = true;
        self.stop_strings.fetch_add(1, Relaxed);
    }
}

impl Drop for FakeOutputs {
    fn drop(&mut self) {
        if !self.ended {
            self.aborts.fetch_add(1, Relaxed);
        }
    }
}
