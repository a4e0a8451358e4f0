//! The sampling fields chat and completions share: reading them and checking them against the limits table.

use serde_json::Value;

use super::fields::{Fields, brief};
use crate::error::ApiError;
use crate::limits::{self, FLOAT32_TINY, Limits, MAX_REPETITION_PENALTY};

/// Largest integer the wire and JSON clients agree on without rounding.
const MAX_COUNT: i64 = i32::MAX as i64;

/// Sampling as the client asked for it; `None` means "not given", so that server defaults can fill it.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the API")]
pub struct SamplingFields {
    /// Choices per prompt.
    pub n: u32,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// 0 or -1: no limit.
    pub top_k: Option<i32>,
    pub min_p: Option<f64>,
    pub repetition_penalty: Option<f64>,
    pub presence_penalty: f64,
    pub frequency_penalty: f64,
    pub seed: Option<i64>,
    pub stop: Vec<String>,
    pub stop_token_ids: Vec<u32>,
    pub include_stop_str_in_output: bool,
    pub ignore_eos: bool,
    pub min_tokens: u32,
    /// Alternatives per prompt position.
    pub prompt_logprobs: Option<i32>,
    pub skip_special_tokens: bool,
    pub spaces_between_special_tokens: bool,
    pub logit_bias: Vec<(u32, f32)>,
    pub allowed_token_ids: Option<Vec<u32>>,
    pub bad_words: Vec<String>,
    /// Lower is served first, under `--scheduling-policy priority`.
    pub priority: i32,
    /// Requests with different salts never share cached blocks.
    pub cache_salt: Option<String>,
    /// Keep only the last so many prompt tokens; -1 = as many as fit.
    pub truncate_prompt_tokens: Option<i64>,
    pub return_token_ids: bool,
    pub return_tokens_as_token_ids: bool,
}

impl SamplingFields {
    pub fn parse(body: &mut Fields, limits: &Limits) -> Result<Self, ApiError> {
        let n = body.integer("n", 1, MAX_COUNT)?.unwrap_or(1);
        limits::check("n", "choices", limits.choices, n as usize)?;
        let fields = Self {
            n: n as u32,
            temperature: body.number("temperature", 0.0, 2.0, false)?,
            top_p: body.number("top_p", FLOAT32_TINY, 1.0, false)?,
            top_k: body.integer("top_k", -1, MAX_COUNT)?.map(|k| k as i32),
            min_p: body.number("min_p", 0.0, 1.0, false)?,
            repetition_penalty: body.number(
                "repetition_penalty",
                FLOAT32_TINY,
                MAX_REPETITION_PENALTY,
                false,
            )?,
            presence_penalty: body.number("presence_penalty", -2.0, 2.0, false)?.unwrap_or(0.0),
            frequency_penalty: body.number("frequency_penalty", -2.0, 2.0, false)?.unwrap_or(0.0),
            seed: body.integer("seed", i64::MIN, i64::MAX)?,
            stop: stop_strings(body, limits)?,
            stop_token_ids: body.token_ids("stop_token_ids")?.unwrap_or_default(),
            include_stop_str_in_output: body.boolean("include_stop_str_in_output")?.unwrap_or(false),
            ignore_eos: body.boolean("ignore_eos")?.unwrap_or(false),
            min_tokens: body.integer("min_tokens", 0, MAX_COUNT)?.unwrap_or(0) as u32,
            prompt_logprobs: logprob_count(body, "prompt_logprobs", limits)?,
            skip_special_tokens: body.boolean("skip_special_tokens")?.unwrap_or(true),
            spaces_between_special_tokens: body.boolean("spaces_between_special_tokens")?.unwrap_or(true),
            logit_bias: logit_bias(body, limits)?,
            allowed_token_ids: body.token_ids("allowed_token_ids")?,
            bad_words: bad_words(body, limits)?,
            priority: body
                .integer("priority", i64::from(i32::MIN), MAX_COUNT)?
                .unwrap_or(0) as i32,
            cache_salt: cache_salt(body, limits)?,
            truncate_prompt_tokens: body.integer("truncate_prompt_tokens", -1, MAX_COUNT)?,
            return_token_ids: body.boolean("return_token_ids")?.unwrap_or(false),
            return_tokens_as_token_ids: body.boolean("return_tokens_as_token_ids")?.unwrap_or(false),
        };
        fields.check(limits)?;
        Ok(fields)
    }

    fn check(&self, limits: &Limits) -> Result<(), ApiError> {
        limits::check(
            "stop_token_ids",
            "ids",
            limits.stop_token_ids,
            self.stop_token_ids.len(),
        )?;
        if self.allowed_token_ids.as_ref().is_some_and(Vec::is_empty) {
            return Err(ApiError::invalid(
                "allowed_token_ids",
                "allowed_token_ids must not be empty",
            ));
        }
        if self.truncate_prompt_tokens == Some(0) {
            return Err(ApiError::invalid(
                "truncate_prompt_tokens",
                "truncate_prompt_tokens must be -1 or at least 1",
            ));
        }
        if self.n > 1 && self.temperature == Some(0.0) {
            return Err(ApiError::invalid(
                "n",
                format!(
                    "n must be 1 when temperature is 0 (all choices would be equal), but is {}",
                    self.n
                ),
            ));
        }
        Ok(())
    }
}

/// Fields of vLLM's protocol that this server knows and does not implement, with the values that ask for nothing.
pub fn refuse_unsupported(body: &mut Fields) -> Result<(), ApiError> {
    let never = |_: &Value| false;
    let when_false = |value: &Value| *value == Value::Bool(false);
    body.refuse("response_format", |value| {
        value.get("type").and_then(Value::as_str) == Some("text")
    })?;
    body.refuse("use_beam_search", when_false)?;
    body.refuse("length_penalty", |value| value.as_f64() == Some(1.0))?;
    body.refuse("return_token_offsets", when_false)?;
    body.refuse("return_prompt_text", when_false)?;
    body.refuse("watermarking", when_false)?;
    body.refuse("stream_interval", |value| value.as_i64() == Some(1))?;
    body.refuse("truncation_side", |value| value.as_str() == Some("left"))?;
    let refused = [
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "guided_decoding_backend",
        "logprob_token_ids",
        "thinking_token_budget",
        "repetition_detection",
        "kv_transfer_params",
        "ec_transfer_params",
        "vllm_xargs",
        "prompt_embeds",
        "session_id",
    ];
    refused.iter().try_for_each(|name| body.refuse(name, never))
}

/// Takes a count of alternatives; -1 stands for the whole vocabulary, where that many are allowed.
pub fn logprob_count(body: &mut Fields, name: &str, limits: &Limits) -> Result<Option<i32>, ApiError> {
    let Some(count) = body.integer(name, -1, MAX_COUNT)? else {
        return Ok(None);
    };
    // -1 stands for all of them.
    let wanted = u64::try_from(count).unwrap_or(limits.vocab_size);
    if wanted > limits.logprobs.min(limits.vocab_size) {
        return Err(ApiError::invalid(
            name,
            format!(
                "{name} must be at most {} (--max-logprobs; the vocabulary has {}), but is {count}",
                limits.logprobs.min(limits.vocab_size),
                limits.vocab_size
            ),
        ));
    }
    Ok(Some(count as i32))
}

fn stop_strings(body: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let stop = body.strings("stop")?;
    limits::check("stop", "strings", limits.stop_strings, stop.len())?;
    for text in &stop {
        if text.is_empty() {
            return Err(ApiError::invalid("stop", "stop must not hold an empty string"));
        }
        limits::check("stop", "bytes per string", limits.stop_string_bytes, text.len())?;
    }
    Ok(stop)
}

fn bad_words(body: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let words = body.strings("bad_words")?;
    limits::check("bad_words", "words", limits.bad_words, words.len())?;
    for word in &words {
        if word.is_empty() {
            return Err(ApiError::invalid(
                "bad_words",
                "bad_words must not hold an empty string",
            ));
        }
        limits::check("bad_words", "bytes per word", limits.bad_word_bytes, word.len())?;
    }
    Ok(words)
}

fn cache_salt(body: &mut Fields, limits: &Limits) -> Result<Option<String>, ApiError> {
    let Some(salt) = body.string("cache_salt")? else {
        return Ok(None);
    };
    if salt.is_empty() {
        return Err(ApiError::invalid("cache_salt", "cache_salt must not be empty"));
    }
    limits::check(
        "cache_salt",
        "characters",
        limits.cache_salt_chars,
        salt.chars().count(),
    )?;
    Ok(Some(salt))
}

/// Takes `{"token id": bias}`. vLLM clamps a bias to [-100, 100]; so does this.
fn logit_bias(body: &mut Fields, limits: &Limits) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(entries) = body.raw_object("logit_bias")? else {
        return Ok(Vec::new());
    };
    limits::check("logit_bias", "entries", limits.logit_bias_entries, entries.len())?;
    entries
        .iter()
        .map(|(key, value)| {
            let id = key
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|id| i32::try_from(*id).is_ok())
                .ok_or_else(|| {
                    let key: String = key.chars().take(40).collect();
                    ApiError::invalid(
                        "logit_bias",
                        format!("logit_bias keys must be token ids, but one is {key:?}"),
                    )
                })?;
            let bias = value.as_f64().ok_or_else(|| {
                ApiError::invalid(
                    "logit_bias",
                    format!("logit_bias[{id}] must be a number, but is {}", brief(value)),
                )
            })?;
            Ok((id, bias.clamp(-100.0, 100.0) as f32))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    fn parse(body: Value) -> Result<SamplingFields, ApiError> {
        SamplingFields::parse(&mut Fields::from_body(&body)?, &Limits::default())
    }

    #[test]
    fn an_empty_body_gives_the_defaults() {
        let fields = parse(json!({})).expect("valid");
        assert_eq!(fields.n, 1);
        assert_eq!(fields.temperature, None);
        assert!(fields.skip_special_tokens);
    }

    #[test]
    fn every_field_is_bounded() {
        let long = "x".repeat(1025);
        let cases = [
            ("n", json!({"n": 0})),
            ("n", json!({"n": 65})),
            ("n", json!({"n": 2, "temperature": 0})),
            ("temperature", json!({"temperature": -0.1})),
            ("temperature", json!({"temperature": 2.01})),
            ("top_p", json!({"top_p": 0})),
            ("top_p", json!({"top_p": 1e-50})),
            ("repetition_penalty", json!({"repetition_penalty": 1e-40})),
            ("repetition_penalty", json!({"repetition_penalty": 1e39})),
            ("top_k", json!({"top_k": 2_147_483_648_u64})),
            ("top_k", json!({"top_k": -2})),
            ("min_p", json!({"min_p": 1.5})),
            ("repetition_penalty", json!({"repetition_penalty": 0})),
            ("repetition_penalty", json!({"repetition_penalty": 1e-50})),
            ("repetition_penalty", json!({"repetition_penalty": 1e300})),
            ("presence_penalty", json!({"presence_penalty": 2.5})),
            ("frequency_penalty", json!({"frequency_penalty": "1"})),
            ("seed", json!({"seed": 1.5})),
            ("stop", json!({"stop": [""]})),
            ("stop", json!({"stop": [long]})),
            ("stop", json!({"stop": vec!["a"; 65]})),
            ("stop_token_ids", json!({"stop_token_ids": [-1]})),
            ("min_tokens", json!({"min_tokens": -1})),
            ("min_tokens", json!({"min_tokens": 1_u64 << 40})),
            ("prompt_logprobs", json!({"prompt_logprobs": 21})),
            ("prompt_logprobs", json!({"prompt_logprobs": -1})),
            ("logit_bias", json!({"logit_bias": {"x": 1}})),
            ("logit_bias", json!({"logit_bias": {"1": "x"}})),
            ("allowed_token_ids", json!({"allowed_token_ids": []})),
            ("bad_words", json!({"bad_words": [""]})),
            ("cache_salt", json!({"cache_salt": ""})),
            ("truncate_prompt_tokens", json!({"truncate_prompt_tokens": 0})),
        ];
        for (param, body) in cases {
            let error = parse(body.clone()).expect_err("out of range");
            assert_eq!(error.param(), Some(param), "{body}");
            assert_eq!(error.status().as_u16(), 400);
        }
    }

    #[test]
    fn all_of_the_vocabulary_may_be_asked_for_where_that_many_are_allowed() {
        let limits = |logprobs| Limits {
            logprobs,
            vocab_size: 258,
            ..Limits::default()
        };
        let count = |given: i64, logprobs| {
            let mut body = Fields::from_body(&json!({"logprobs": given})).expect("object");
            logprob_count(&mut body, "logprobs", &limits(logprobs))
        };
        for allowed in [u64::MAX, 300, 258] {
            assert_eq!(count(-1, allowed).expect("all 258"), Some(-1));
        }
        assert!(count(-1, 257).is_err());
        assert_eq!(count(258, u64::MAX).expect("as many as there are"), Some(258));
        assert_eq!(count(259, u64::MAX).expect_err("more").param(), Some("logprobs"));
    }

    #[test]
    fn known_but_missing_features_are_refused_by_name() {
        let refuse = |body: Value| refuse_unsupported(&mut Fields::from_body(&body).expect("object"));
        assert_eq!(
            refuse(json!({"guided_json": {}})).expect_err("refused").param(),
            Some("guided_json")
        );
        assert_eq!(
            refuse(json!({"response_format": {"type": "json_object"}}))
                .expect_err("refused")
                .to_string(),
            "response_format is not supported yet"
        );
        assert!(refuse(json!({"response_format": {"type": "text"}, "use_beam_search": false})).is_ok());
    }
}
