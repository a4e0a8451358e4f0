//! From prompts as sent to prompts as token ids.

use std::sync::Arc;

use super::types::{CompletionBody, PromptInput};
use crate::error::ApiError;
use crate::generate::logprobs::TextOffsets;
use crate::generate::params::{Asked, check_ids};
use crate::model::Model;
use crate::request::intake::Departure;
use crate::routes::common;

/// One prompt ready to run, and how to echo it.
#[derive(Debug)]
pub(super) struct Prompt {
    pub token_ids: Vec<u32>,
    pub echo: Echo,
}

/// What comes before the answer's text; empty unless `echo`.
#[derive(Debug, Default)]
pub(super) struct Echo {
    pub text: String,
    /// Characters of `text` before each token of the prompt; only where log-probabilities are asked for.
    pub offsets: Vec<usize>,
}

pub(super) fn prompts(
    model: &Arc<Model>,
    body: &mut CompletionBody,
    departure: &Departure,
) -> Result<Vec<Prompt>, ApiError> {
    let inputs = std::mem::take(&mut body.prompts);
    inputs
        .into_iter()
        .map(|input| {
            departure.check()?;
            prompt(model, body, input)
        })
        .collect()
}

fn prompt(model: &Model, body: &CompletionBody, input: PromptInput) -> Result<Prompt, ApiError> {
    let truncate = body.sampling.truncate_prompt_tokens;
    let (mut token_ids, text) = match input {
        PromptInput::Text(text) => {
            let ids = model.encode_prompt(&text, body.add_special_tokens, truncate.is_some())?;
            (ids, Some(text))
        }
        PromptInput::TokenIds(ids) => {
            check_ids("prompt", ids.iter().copied(), model.vocab_size)?;
            (ids, None)
        }
    };
    let sent_tokens = token_ids.len();
    common::truncate(&mut token_ids, truncate, Some(body.max_tokens), model);
    if !body.echo {
        let echo = Echo::default();
        return Ok(Prompt { token_ids, echo });
    }
    let text = match text {
        Some(text) if token_ids.len() == sent_tokens => text,
        // A prompt is shown as it was sent, special tokens too; `skip_special_tokens` is about the answer.
        _ => model.decode(&token_ids, false)?,
    };
    let offsets = if body.logprobs.is_some() {
        prompt_offsets(model, &token_ids, &text)
    } else {
        Vec::new()
    };
    let echo = Echo { text, offsets };
    Ok(Prompt { token_ids, echo })
}

/// Characters of the echoed text before each token of the prompt. Tokens that the tokenizer put in front of the text
/// stand at its beginning.
fn prompt_offsets(model: &Model, token_ids: &[u32], echo: &str) -> Vec<usize> {
    let mut offsets = TextOffsets::new(model, &[], false);
    let starts: Vec<usize> = token_ids.iter().map(|id| offsets.next(*id)).collect();
    let chars = echo.chars().count();
    let in_front = offsets.chars().saturating_sub(chars);
    starts
        .into_iter()
        .map(|start| start.saturating_sub(in_front).min(chars))
        .collect()
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
