//! One request in the mock: what it still owes, and when.

use std::time::Duration;

use tokio::time::Instant;
use vllm_rs_wire::{
    EngineCoreOutput, EngineCoreRequest, FinishReason, LogprobsTensors, PrefillStats, SamplingParams,
    StopReason,
};

use crate::mock::MockConfig;
use crate::mock::tokens::TokenSource;

/// A request that runs or waits.
#[derive(Debug)]
pub(crate) struct MockRequest {
    pub(crate) request_id: String,
    pub(crate) client_index: u32,
    prompt_token_ids: Vec<u32>,
    params: SamplingParams,
    source: TokenSource,
    num_output_tokens: usize,
    /// Output tokens after which the length limit ends it.
    max_output_tokens: usize,
    /// When the next output is due; set when it starts to run.
    pub(crate) due: Option<Instant>,
}

impl MockRequest {
    /// Takes a request in; `Err` with its answer if it cannot run.
    pub(crate) fn new(
        config: &MockConfig,
        request: EngineCoreRequest,
    ) -> Result<Self, Box<EngineCoreOutput>> {
        let prompt_token_ids = request.prompt_token_ids.unwrap_or_default();
        let room = (config.max_model_len as usize).saturating_sub(prompt_token_ids.len());
        let refused = |request_id: String| {
            Box::new(EngineCoreOutput {
                request_id,
                finish_reason: Some(FinishReason::Error),
                ..EngineCoreOutput::default()
            })
        };
        let Some(params) = request.sampling_params else {
            return Err(refused(request.request_id));
        };
        if prompt_token_ids.is_empty() || room == 0 {
            return Err(refused(request.request_id));
        }
        Ok(Self {
            source: TokenSource::new(config, &prompt_token_ids, &params),
            max_output_tokens: params
                .max_tokens
                .map_or(room, |max_tokens| room.min(max_tokens as usize)),
            request_id: request.request_id,
            client_index: request.client_index,
            prompt_token_ids,
            params,
            num_output_tokens: 0,
            due: None,
        })
    }

    pub(crate) fn num_tokens(&self) -> usize {
        self.prompt_token_ids.len() + self.num_output_tokens
    }

    /// Starts its clock.
    pub(crate) fn start(&mut self, now: Instant, first_token_delay: Duration) {
        self.due = Some(now + first_token_delay);
    }

    /// The output that is due, and when the next one will be.
    pub(crate) fn step(&mut self, now: Instant, config: &MockConfig) -> EngineCoreOutput {
        let first = self.num_output_tokens == 0;
        let start = self.num_output_tokens;
        let mut output = EngineCoreOutput {
            request_id: self.request_id.clone(),
            ..EngineCoreOutput::default()
        };
        for _ in 0..config.tokens_per_output.max(1) {
            let token = self.next_token();
            output.new_token_ids.push(token);
            self.num_output_tokens += 1;
            (output.finish_reason, output.stop_reason) = self.finish(token);
            if output.finish_reason.is_some() {
                break;
            }
        }
        if let Some(top_k) = self.params.logprobs {
            let top_k = width(top_k, config);
            output.new_logprobs = Some(self.source.logprobs(start, &output.new_token_ids, top_k));
        }
        if first {
            let num_prompt_tokens = self.prompt_token_ids.len() as u64;
            output.prefill_stats = Some(PrefillStats {
                num_prompt_tokens,
                num_computed_tokens: num_prompt_tokens,
                ..PrefillStats::default()
            });
            output.new_prompt_logprobs_tensors = self.prompt_logprobs(config);
        }
        let pause = if config.tokens_per_second > 0.0 {
            let seconds = output.new_token_ids.len() as f64 / config.tokens_per_second;
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        };
        self.due = self.due.unwrap_or(now).checked_add(pause);
        output
    }

    fn next_token(&self) -> u32 {
        let held_back = self.num_output_tokens < self.params.min_tokens as usize;
        self.source.token(self.num_output_tokens, |token| {
            held_back && self.params.all_stop_token_ids.contains(&token)
        })
    }

    fn finish(&self, token: u32) -> (Option<FinishReason>, Option<StopReason>) {
        if self.num_output_tokens >= self.params.min_tokens as usize {
            if self.params.eos_token_id == Some(token) {
                return (Some(FinishReason::Stop), None);
            }
            if self
                .params
                .stop_token_ids
                .as_ref()
                .is_some_and(|ids| ids.contains(&token))
            {
                return (Some(FinishReason::Stop), Some(StopReason::TokenId(token)));
            }
        }
        let at_limit = self.num_output_tokens >= self.max_output_tokens;
        (at_limit.then_some(FinishReason::Length), None)
    }

    fn prompt_logprobs(&self, config: &MockConfig) -> Option<LogprobsTensors> {
        let top_k = width(self.params.prompt_logprobs?, config);
        let scored = self.prompt_token_ids.get(1..)?;
        Some(self.source.logprobs(0, scored, top_k))
    }
}

/// Columns beside the token's own; -1 asks for the whole vocabulary.
fn width(top_k: i32, config: &MockConfig) -> usize {
    usize::try_from(top_k).unwrap_or(config.vocab_size as usize)
}
