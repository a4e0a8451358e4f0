//! Small steps that several routes share.

use std::time::Instant;

use serde_json::{Value, json};
use vllm_rs_wire::StopReason;

use crate::error::ApiError;
use crate::generate::{Finish, GenerationPlan};
use crate::model::Model;
use crate::observe::is_plain_id;
use crate::request::fields::Fields;
use crate::state::AppState;

/// Takes `model` and checks that it is served here; the answer names it as the client did.
pub fn model_name(body: &mut Fields, model: &Model) -> Result<String, ApiError> {
    match body.string("model")? {
        None => Ok(model.names[0].clone()),
        Some(name) if model.names.contains(&name) => Ok(name),
        Some(name) => Err(ApiError::ModelNotFound {
            given: name.chars().take(200).collect(),
            served: model.names.join(", "),
        }),
    }
}

/// The id of the answer: the field `request_id`, else the HTTP request's.
pub fn answer_id(body: &mut Fields, prefix: &str, http_id: &str) -> Result<String, ApiError> {
    match body.string("request_id")? {
        None => Ok(format!("{prefix}-{http_id}")),
        Some(id) if is_plain_id(&id) => Ok(format!("{prefix}-{id}")),
        Some(_) => Err(ApiError::invalid(
            "request_id",
            "request_id must be 1 to 128 characters of letters, digits, '-', '_', '.' and ':'",
        )),
    }
}

/// Logs a station of a request's way, without any of its text.
pub fn log_station(request_id: &str, station: &'static str, arrival: Instant, prompt_tokens: Option<usize>) {
    tracing::debug!(
        target: "vllm_rs::request", request_id, station, prompt_tokens,
        elapsed_us = arrival.elapsed().as_micros() as u64
    );
}

/// Logs counts and parameters of a request under `--enable-log-requests`. Its text, stop strings and token ids
/// are never logged.
pub fn log_request(state: &AppState, plan: &GenerationPlan) {
    if !state.log_requests() {
        return;
    }
    let sampling = &plan.sampling;
    for prompt in &plan.prompts {
        tracing::info!(
            target: "vllm_rs::request", request_id = %plan.request_id, prompt_tokens = prompt.len(),
            max_tokens = plan.asked.max_tokens, n = sampling.n, temperature = sampling.temperature,
            top_p = sampling.top_p, top_k = sampling.top_k, seed = sampling.seed,
            stop_strings = sampling.stop.len(), "request"
        );
    }
}

/// Keeps the last `limit` tokens of a prompt (`truncate_prompt_tokens`; -1 = what the context holds beside
/// `max_tokens` of answer, of which there is at least one).
pub fn truncate(prompt: &mut Vec<u32>, limit: Option<i64>, max_tokens: Option<u32>, model: &Model) {
    let Some(limit) = limit else { return };
    let answer = max_tokens.unwrap_or(1).max(1);
    let room = model.max_model_len.get().saturating_sub(answer).max(1);
    let limit = usize::try_from(limit).unwrap_or(room as usize);
    if prompt.len() > limit {
        prompt.drain(..prompt.len() - limit);
    }
}

/// `stop_reason`: the stop string, the stop token id, or null.
pub fn stop_reason_json(finish: Option<&Finish>) -> Value {
    match finish.and_then(|finish| finish.stop_reason.as_ref()) {
        Some(StopReason::TokenId(id)) => json!(id),
        Some(StopReason::Text(text)) => json!(text),
        None => Value::Null,
    }
}
