//! Starting the sequences of one HTTP request: one per prompt and choice.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::stream::SelectAll;
use vllm_rs_text::{OutputOptions, OutputProcessor};
use vllm_rs_wire::{EngineCoreRequest, SamplingParams};

use super::choice::{ChoiceParts, ChoiceStream};
use super::params::{Asked, resolve};
use crate::error::ApiError;
use crate::metrics::{RequestGroup, RequestTimer};
use crate::model::Model;
use crate::request::sampling::SamplingFields;
use crate::state::Serving;

/// All that is needed to start, checked.
#[derive(Debug)]
pub struct GenerationPlan {
    /// The id the client sees.
    pub request_id: String,
    pub arrival: Instant,
    /// One prompt per entry, as token ids.
    pub prompts: Vec<Arc<[u32]>>,
    pub sampling: SamplingFields,
    pub asked: Asked,
    /// Per prompt.
    params: Vec<SamplingParams>,
}

impl GenerationPlan {
    /// Checks everything that can be checked without the engine. May take long: bad words are tokenised here.
    pub fn new(
        model: &Model,
        request_id: String,
        arrival: Instant,
        prompts: Vec<Vec<u32>>,
        sampling: SamplingFields,
        asked: Asked,
    ) -> Result<Self, ApiError> {
        let lengths: Vec<usize> = prompts.iter().map(Vec::len).collect();
        let params = resolve(&sampling, asked, model, &lengths)?;
        Ok(Self {
            request_id,
            arrival,
            prompts: prompts.into_iter().map(Arc::from).collect(),
            sampling,
            asked,
            params,
        })
    }
}

/// Running sequences; the choice index of prompt `p`, choice `c` is `p * n + c`.
pub struct Generation {
    pub choices: SelectAll<ChoiceStream>,
    pub prompts: Vec<Arc<[u32]>>,
    pub n: u32,
}

/// Admits and submits every sequence. Nothing is left running when one of them fails.
pub fn start(serving: &Serving, plan: GenerationPlan) -> Result<Generation, ApiError> {
    let GenerationPlan {
        request_id,
        arrival,
        prompts,
        sampling,
        params,
        ..
    } = plan;
    let n = sampling.n;
    let sizes: Vec<u64> = prompts
        .iter()
        .flat_map(|prompt| std::iter::repeat_n(prompt.len() as u64, n as usize))
        .collect();
    let metrics = &serving.metrics;
    let tickets = serving
        .admission
        .admit(&sizes, &serving.limits)
        .inspect_err(|_| metrics.admission_rejections.inc())?;
    metrics.request_n.observe(f64::from(n));
    let mut tickets = tickets.into_iter();

    let base_seed = sampling.seed.unwrap_or_else(random_seed);
    let many_prompts = prompts.len() > 1;
    let group = RequestGroup::new(metrics.clone());
    let mut choices = SelectAll::new();
    for (prompt_index, (prompt, params)) in prompts.iter().zip(params).enumerate() {
        metrics
            .request_max_tokens
            .observe(f64::from(params.max_tokens.unwrap_or_default()));
        let prompt_id = if many_prompts {
            format!("{request_id}-{prompt_index}")
        } else {
            request_id.clone()
        };
        for choice in 0..n {
            let Some(ticket) = tickets.next() else { break };
            let engine_id = if n > 1 {
                format!("{choice}_{prompt_id}")
            } else {
                prompt_id.clone()
            };
            let seed = base_seed.wrapping_add(i64::from(choice));
            let request = engine_request(&engine_id, &request_id, prompt, &params, &sampling, seed);
            // Before it is sent: the engine may be at its own station within microseconds.
            tracing::debug!(
                target: "vllm_rs::request", request_id = %engine_id, station = "submitted",
                prompt_tokens = prompt.len(), max_tokens = params.max_tokens, seed
            );
            let outputs = serving.engine.submit(request)?;
            choices.push(ChoiceStream::new(ChoiceParts {
                index: prompt_index as u32 * n + choice,
                request_id: engine_id,
                outputs,
                processor: processor(serving, prompt, &sampling),
                timer: RequestTimer::start(group.clone(), arrival, prompt.len() as u64),
                ticket,
                metrics: metrics.clone(),
            }));
        }
    }
    Ok(Generation { choices, prompts, n })
}

fn processor(serving: &Serving, prompt: &[u32], sampling: &SamplingFields) -> OutputProcessor {
    let options = OutputOptions {
        stop: sampling.stop.clone(),
        include_stop_str_in_output: sampling.include_stop_str_in_output,
        skip_special_tokens: sampling.skip_special_tokens,
        spaces_between_special_tokens: sampling.spaces_between_special_tokens,
        min_tokens: sampling.min_tokens as usize,
    };
    OutputProcessor::new(&serving.model.tokenizer, prompt, options)
}

fn engine_request(
    engine_id: &str,
    request_id: &str,
    prompt: &[u32],
    params: &SamplingParams,
    sampling: &SamplingFields,
    seed: i64,
) -> EngineCoreRequest {
    EngineCoreRequest {
        // Two clients may send the same X-Request-Id: the engine's id must still be its own.
        request_id: format!("{engine_id}-{:08x}", uuid::Uuid::new_v4().as_fields().0),
        prompt_token_ids: Some(prompt.to_vec()),
        sampling_params: Some(SamplingParams {
            seed: Some(seed),
            ..params.clone()
        }),
        arrival_time: unix_seconds(),
        cache_salt: sampling.cache_salt.clone(),
        priority: i64::from(sampling.priority),
        external_req_id: Some(request_id.to_owned()),
        ..EngineCoreRequest::default()
    }
}

/// A seed for a request that brought none, so that its log line can repeat it. Positive, as JSON clients like.
fn random_seed() -> i64 {
    (uuid::Uuid::new_v4().as_u128() as u64 >> 1) as i64
}

/// Wall clock, seconds since the epoch.
pub fn unix_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
