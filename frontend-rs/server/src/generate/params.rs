//! Sampling parameters as the engine wants them: defaults filled in, ids and lengths checked against the model.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vllm_rs_wire::{RequestOutputKind, SamplingParams, StopStrings};

use crate::error::ApiError;
use crate::limits::{self, BAD_WORD_TOKENS, FLOAT32_TINY, MAX_REPETITION_PENALTY};
use crate::model::Model;
use crate::request::sampling::SamplingFields;

/// Below this a positive temperature is raised, as the engine protocol asks.
const MIN_TEMPERATURE: f64 = 0.01;

/// Sampling defaults of the model's `generation_config.json`; each is overridden by the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingDefaults {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<i32>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub max_new_tokens: Option<u32>,
}

impl SamplingDefaults {
    /// Reads the values that lie in the range a request could ask for; others are left to the API's defaults.
    pub fn from_generation_config(config: &Value) -> Self {
        let number = |name: &str, low: f64, high: f64| {
            config
                .get(name)
                .and_then(Value::as_f64)
                .filter(|value| (low..=high).contains(value))
        };
        Self {
            temperature: number("temperature", 0.0, 2.0),
            top_p: number("top_p", FLOAT32_TINY, 1.0),
            top_k: number("top_k", -1.0, f64::from(i32::MAX)).map(|k| k as i32),
            min_p: number("min_p", 0.0, 1.0),
            repetition_penalty: number("repetition_penalty", FLOAT32_TINY, MAX_REPETITION_PENALTY),
            max_new_tokens: number("max_new_tokens", 1.0, f64::from(i32::MAX)).map(|tokens| tokens as u32),
        }
    }
}

/// The token counts a request asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// Name of the field that gave `max_tokens`, for messages.
    pub max_tokens_param: &'static str,
    pub max_tokens: Option<u32>,
    /// Alternatives per generated token.
    pub logprobs: Option<i32>,
    pub prompt_logprobs: Option<i32>,
}

/// Builds the parameters of each prompt, from its length in tokens; `seed` is set per sequence.
pub fn resolve(
    fields: &SamplingFields,
    asked: Asked,
    model: &Model,
    prompt_tokens: &[usize],
) -> Result<Vec<SamplingParams>, ApiError> {
    check_vocabulary(fields, model)?;
    let shared = shared(fields, asked, model)?;
    prompt_tokens
        .iter()
        .map(|prompt_tokens| {
            let max_tokens = max_tokens(asked, model, *prompt_tokens)?;
            if fields.min_tokens > max_tokens {
                return Err(ApiError::invalid(
                    "min_tokens",
                    format!(
                        "min_tokens must be at most max_tokens = {max_tokens}, but is {}",
                        fields.min_tokens
                    ),
                ));
            }
            Ok(SamplingParams {
                max_tokens: Some(max_tokens),
                ..shared.clone()
            })
        })
        .collect()
}

/// What is the same for every prompt of a request.
fn shared(fields: &SamplingFields, asked: Asked, model: &Model) -> Result<SamplingParams, ApiError> {
    let defaults = &model.defaults;
    let mut temperature = fields.temperature.or(defaults.temperature).unwrap_or(1.0);
    if temperature > 0.0 {
        temperature = temperature.max(MIN_TEMPERATURE);
    }
    let (eos_token_id, stop_token_ids, all_stop_token_ids) = stops(fields, model);
    Ok(SamplingParams {
        temperature,
        top_p: fields.top_p.or(defaults.top_p).unwrap_or(1.0),
        top_k: fields.top_k.or(defaults.top_k).unwrap_or(0).max(0),
        min_p: fields.min_p.or(defaults.min_p).unwrap_or(0.0),
        repetition_penalty: fields
            .repetition_penalty
            .or(defaults.repetition_penalty)
            .unwrap_or(1.0),
        presence_penalty: fields.presence_penalty,
        frequency_penalty: fields.frequency_penalty,
        stop: (!fields.stop.is_empty()).then(|| StopStrings(fields.stop.clone())),
        stop_token_ids,
        ignore_eos: fields.ignore_eos,
        min_tokens: fields.min_tokens,
        logprobs: asked.logprobs,
        prompt_logprobs: asked.prompt_logprobs,
        skip_special_tokens: fields.skip_special_tokens,
        spaces_between_special_tokens: fields.spaces_between_special_tokens,
        include_stop_str_in_output: fields.include_stop_str_in_output,
        output_kind: RequestOutputKind::Delta,
        eos_token_id,
        all_stop_token_ids,
        logit_bias: (!fields.logit_bias.is_empty()).then(|| {
            fields
                .logit_bias
                .iter()
                .map(|(id, bias)| (*id, f64::from(*bias)))
                .collect::<BTreeMap<_, _>>()
        }),
        allowed_token_ids: fields.allowed_token_ids.clone(),
        bad_words: (!fields.bad_words.is_empty()).then(|| fields.bad_words.clone()),
        bad_words_token_ids: bad_words(fields, model)?,
        // A cached prefix has no log-probabilities, so it must be computed again.
        skip_reading_prefix_cache: asked.prompt_logprobs.is_some().then_some(true),
        ..SamplingParams::default()
    })
}

fn max_tokens(asked: Asked, model: &Model, prompt_tokens: usize) -> Result<u32, ApiError> {
    let limit = model.max_model_len.get() as usize;
    if prompt_tokens == 0 {
        return Err(ApiError::invalid(
            "prompt",
            "the prompt must hold at least one token",
        ));
    }
    if prompt_tokens >= limit {
        return Err(ApiError::ContextLength {
            param: "prompt".to_owned(),
            message: format!(
                "the prompt has {prompt_tokens} tokens, but the model's context is {limit} tokens \
                 (--max-model-len), of which at least one must be left for the answer"
            ),
        });
    }
    let room = (limit - prompt_tokens) as u32;
    let Some(wanted) = asked.max_tokens else {
        return Ok(model
            .defaults
            .max_new_tokens
            .map_or(room, |tokens| tokens.min(room)));
    };
    if wanted > room {
        return Err(ApiError::ContextLength {
            param: asked.max_tokens_param.to_owned(),
            message: format!(
                "the model's context is {limit} tokens (--max-model-len), but {} were asked for: \
                 {prompt_tokens} in the prompt and {wanted} as {}",
                prompt_tokens + wanted as usize,
                asked.max_tokens_param
            ),
        });
    }
    Ok(wanted)
}

/// (primary end-of-sequence id, stop ids, both together), as the engine wants them.
fn stops(fields: &SamplingFields, model: &Model) -> (Option<u32>, Option<Vec<u32>>, BTreeSet<u32>) {
    let mut stop_ids: Vec<u32> = fields.stop_token_ids.clone();
    let mut all: BTreeSet<u32> = stop_ids.iter().copied().collect();
    if fields.ignore_eos {
        return (None, (!stop_ids.is_empty()).then_some(stop_ids), all);
    }
    all.extend(&model.eos_token_ids);
    let primary = model.eos_token_ids.first().copied();
    for id in model.eos_token_ids.iter().skip(1) {
        if !stop_ids.contains(id) {
            stop_ids.push(*id);
        }
    }
    (primary, (!stop_ids.is_empty()).then_some(stop_ids), all)
}

fn check_vocabulary(fields: &SamplingFields, model: &Model) -> Result<(), ApiError> {
    check_ids(
        "stop_token_ids",
        fields.stop_token_ids.iter().copied(),
        model.vocab_size,
    )?;
    check_ids(
        "logit_bias",
        fields.logit_bias.iter().map(|(id, _)| *id),
        model.vocab_size,
    )?;
    check_ids(
        "allowed_token_ids",
        fields.allowed_token_ids.iter().flatten().copied(),
        model.vocab_size,
    )
}

/// Refuses ids outside the vocabulary.
pub fn check_ids(param: &str, ids: impl Iterator<Item = u32>, vocab_size: u32) -> Result<(), ApiError> {
    for id in ids {
        if id >= vocab_size {
            return Err(ApiError::invalid(
                param,
                format!("{param} must hold token ids below the vocabulary's {vocab_size}, but holds {id}"),
            ));
        }
    }
    Ok(())
}

/// Each bad word as token ids, at the start of a text and after a space.
fn bad_words(fields: &SamplingFields, model: &Model) -> Result<Option<Vec<Vec<u32>>>, ApiError> {
    if fields.bad_words.is_empty() {
        return Ok(None);
    }
    let mut out: Vec<Vec<u32>> = Vec::new();
    for word in &fields.bad_words {
        let bare = word.trim_start_matches(' ');
        let plain = model.encode(bare, false)?;
        let spaced = model.encode(&format!(" {bare}"), false)?;
        for (first, ids) in [(true, plain), (false, spaced)] {
            limits::check("bad_words", "tokens per word", BAD_WORD_TOKENS, ids.len())?;
            check_ids("bad_words", ids.iter().copied(), model.vocab_size)?;
            let known = out
                .last()
                .is_some_and(|last| !first && last.first() == ids.first() && last.len() == ids.len());
            if !ids.is_empty() && !known {
                out.push(ids);
            }
        }
    }
    Ok(Some(out))
}
