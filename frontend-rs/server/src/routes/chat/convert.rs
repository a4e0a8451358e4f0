//! From a chat to prompt tokens.

use std::sync::Arc;

use super::types::ChatBody;
use crate::error::ApiError;
use crate::generate::params::Asked;
use crate::model::{Model, RenderInput};
use crate::request::intake::Departure;
use crate::routes::common;

/// Renders the template and tokenises the result.
pub(super) fn prompt_tokens(
    model: &Arc<Model>,
    chat: &mut ChatBody,
    departure: &Departure,
) -> Result<Vec<u32>, ApiError> {
    let messages = std::mem::take(&mut chat.messages);
    let text = model.render(RenderInput {
        messages,
        add_generation_prompt: chat.template.add_generation_prompt,
        continue_final_message: chat.template.continue_final_message,
        kwargs: std::mem::take(&mut chat.template.kwargs),
    })?;
    departure.check()?;
    let truncate = chat.sampling.truncate_prompt_tokens;
    let mut prompt = model.encode_prompt(&text, chat.template.add_special_tokens, truncate.is_some())?;
    let max_tokens = chat.max_tokens.map(|(_, tokens)| tokens);
    common::truncate(&mut prompt, truncate, max_tokens, model);
    Ok(prompt)
}

/// Role of the answer and the text before it.
pub(super) fn opening(chat: &ChatBody) -> (String, String) {
    let assistant = || "assistant".to_owned();
    let Some(last) = chat.messages.last().filter(|_| chat.echo) else {
        return (assistant(), String::new());
    };
    let role = last["role"].as_str().unwrap_or_default();
    let is_answer = role == "assistant" || chat.template.continue_final_message;
    let text = last["content"].as_str().filter(|_| is_answer).unwrap_or_default();
    (assistant(), text.to_owned())
}

pub(super) fn asked(chat: &ChatBody) -> Asked {
    Asked {
        max_tokens_param: chat.max_tokens.map_or("max_tokens", |(name, _)| name),
        max_tokens: chat.max_tokens.map(|(_, tokens)| tokens),
        logprobs: chat.top_logprobs,
        prompt_logprobs: chat.sampling.prompt_logprobs,
    }
}
