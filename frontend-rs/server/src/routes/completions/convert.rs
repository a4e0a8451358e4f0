//! From prompts as sent to prompts as token ids.

use std::sync::Arc;

use super::types::{CompletionBody, PromptInput};
use crate::error::ApiError;
use crate::generate::params::{Asked, check_ids};
use crate::model::Model;
use crate::routes::common;

/// Bytes of text to tokenise.
pub(super) fn text_bytes(prompts: &[PromptInput]) -> usize {
    let bytes = |prompt: &PromptInput| match prompt {
        PromptInput::Text(text) => text.len(),
        PromptInput::TokenIds(_) => 0,
    };
    prompts.iter().map(bytes).sum()
}

/// One prompt ready to run, and the text to echo.
#[derive(Debug)]
pub(super) struct Prompt {
    pub token_ids: Vec<u32>,
    /// Empty unless `echo`.
    pub echo: String,
}

pub(super) fn prompts(model: &Arc<Model>, body: &mut CompletionBody) -> Result<Vec<Prompt>, ApiError> {
    let inputs = std::mem::take(&mut body.prompts);
    inputs
        .into_iter()
        .map(|input| prompt(model, body, input))
        .collect()
}

fn prompt(model: &Model, body: &CompletionBody, input: PromptInput) -> Result<Prompt, ApiError> {
    let truncate = body.sampling.truncate_prompt_tokens;
    let (mut token_ids, text) = match input {
        PromptInput::Text(text) => (model.encode(&text, body.add_special_tokens)?, Some(text)),
        PromptInput::TokenIds(ids) => {
            check_ids("prompt", ids.iter().copied(), model.vocab_size)?;
            (ids, None)
        }
    };
    let sent_tokens = token_ids.len();
    common::truncate(&mut token_ids, truncate, model);
    let echo = match text {
        _ if !body.echo => String::new(),
        Some(text) if token_ids.len() == sent_tokens => text,
        _ => model.decode(&token_ids, body.sampling.skip_special_tokens)?,
    };
    Ok(Prompt { token_ids, echo })
}

pub(super) fn asked(body: &CompletionBody) -> Asked {
    let with_prompt = body.logprobs.filter(|_| body.echo);
    let prompt_logprobs = match (body.sampling.prompt_logprobs, with_prompt) {
        (Some(given), Some(echoed)) => Some(if given < 0 || echoed < 0 {
            -1
        } else {
            given.max(echoed)
        }),
        (given, echoed) => given.or(echoed),
    };
    Asked {
        max_tokens_param: "max_tokens",
        // The engine always makes one token; it is left out of the answer when none was asked for.
        max_tokens: Some(body.max_tokens.max(1)),
        logprobs: body.logprobs,
        prompt_logprobs,
    }
}
