//! The one limits table. Every route and every protocol checks its requests against this.

use std::time::Duration;

use vllm_rs_flags::Config;

use crate::error::ApiError;

/// Samplers compute in float32: a smaller number is zero or denormal there, and the engine refuses it.
pub const FLOAT32_TINY: f64 = f32::MIN_POSITIVE as f64;
/// Far beyond any use, and within float32.
pub const MAX_REPETITION_PENALTY: f64 = 1e3;
/// Most bytes of text that are tokenised at once, where the context is not longer still: a tokenizer takes up to 250
/// times as much memory while it works.
pub const TOKENIZED_BYTES: u64 = 4 << 20;
/// What a text that fills the context may have per token; English has 4 to 5.
pub const CONTEXT_BYTES_PER_TOKEN: u64 = 16;
/// Most tokens of one bad word, as the engine has it.
pub const BAD_WORD_TOKENS: u64 = 256;

/// Upper bounds on what one request, or the queue of requests, may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Client connections that may be open; further ones wait in the kernel's queue.
    pub connections: usize,
    /// How long the head of a request may take from the connection's, or the last answer's, end.
    pub header_read: Duration,
    /// Bytes of a request body.
    pub body_bytes: u64,
    /// Requests whose bodies are being read, parsed or tokenised.
    pub preparing_requests: u64,
    /// Bytes of their bodies, beyond the first 64 KiB of each.
    pub preparing_bytes: u64,
    /// Choices per prompt (`n`).
    pub choices: u64,
    /// Prompts times choices: sequences one HTTP request may start.
    pub sequences_per_request: u64,
    /// Messages of one chat.
    pub messages: u64,
    /// Alternatives per position (`logprobs`, `top_logprobs`, `prompt_logprobs`).
    pub logprobs: u64,
    /// What -1 alternatives stand for; unknown before the model is.
    pub vocab_size: u64,
    pub stop_strings: u64,
    pub stop_string_bytes: u64,
    pub stop_token_ids: u64,
    pub logit_bias_entries: u64,
    pub bad_words: u64,
    pub bad_word_bytes: u64,
    pub cache_salt_chars: u64,
    /// Bytes a chat template may produce from one request.
    pub template_output_bytes: usize,
    /// Token ids of one `/detokenize` request.
    pub detokenize_tokens: u64,
    /// Requests that wait for their first token.
    pub queued_requests: u64,
    /// Prompt tokens of the requests that wait for their first token.
    pub queued_tokens: u64,
}

impl Limits {
    /// The table as the flags set it.
    pub fn from_config(config: &Config) -> Self {
        let frontend = &config.frontend;
        Self {
            body_bytes: frontend.max_request_bytes,
            preparing_bytes: frontend.max_request_bytes.saturating_mul(8),
            choices: frontend.max_n,
            sequences_per_request: frontend.max_n,
            logprobs: u64::try_from(config.model.max_logprobs).unwrap_or(u64::MAX),
            stop_strings: frontend.max_stop_strings,
            stop_string_bytes: frontend.max_stop_string_bytes,
            logit_bias_entries: frontend.max_logit_bias,
            queued_requests: config.scheduler.max_num_queued_reqs,
            queued_tokens: config.scheduler.max_num_queued_tokens.unwrap_or(u64::MAX),
            ..Self::default()
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            header_read: Duration::from_secs(30),
            body_bytes: 32 << 20,
            preparing_requests: 4096,
            preparing_bytes: 256 << 20,
            choices: 64,
            sequences_per_request: 64,
            messages: 4096,
            logprobs: 20,
            vocab_size: u64::MAX,
            stop_strings: 64,
            stop_string_bytes: 1024,
            stop_token_ids: 1024,
            logit_bias_entries: 1024,
            bad_words: 256,
            bad_word_bytes: 256,
            cache_salt_chars: 128,
            template_output_bytes: 64 << 20,
            detokenize_tokens: 4 << 20,
            queued_requests: 4096,
            queued_tokens: 8 << 20,
        }
    }
}

/// Refuses `given` above `limit`, naming the field, the limit and the value.
pub fn check(param: &str, unit: &'static str, limit: u64, given: usize) -> Result<(), ApiError> {
    let given = given as u64;
    if given <= limit {
        return Ok(());
    }
    Err(ApiError::OverLimit {
        param: param.to_owned(),
        limit,
        given,
        unit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed() {
        assert!(check("n", "choices", 4, 4).is_ok());
        assert!(check("n", "choices", 4, 5).is_err());
    }
}
