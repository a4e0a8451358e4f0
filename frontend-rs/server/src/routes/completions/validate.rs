//! From the JSON of a completion request to [`CompletionBody`].

use serde_json::Value;

use super::types::{CompletionBody, PromptInput};
use crate::error::ApiError;
use crate::limits::{self, Limits};
use crate::model::Model;
use crate::request::fields::{Fields, kind_of};
use crate::request::parse::List;
use crate::request::sampling::{SamplingFields, logprob_count, refuse_unsupported};
use crate::request::stream_options::StreamOptions;
use crate::routes::common;

/// The API's default, which is vLLM's too.
const DEFAULT_MAX_TOKENS: u32 = 16;

/// What the server, not the request, brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub model: &'a Model,
    pub limits: &'a Limits,
    pub force_include_usage: bool,
    /// Id of the HTTP request.
    pub http_id: &'a str,
}

pub(super) fn parse(mut body: Fields, context: Context<'_>) -> Result<CompletionBody, ApiError> {
    refuse_unsupported(&mut body)?;
    body.refuse("suffix", |value| value == "")?;
    let model = common::model_name(&mut body, context.model)?;
    let id = common::answer_id(&mut body, "cmpl", context.http_id)?;
    let prompts = prompts(&mut body)?;
    let sampling = SamplingFields::parse(&mut body, context.limits)?;
    best_of(&mut body, sampling.n)?;
    limits::check(
        "prompt",
        "prompts times n",
        context.limits.sequences_per_request,
        prompts.len().saturating_mul(sampling.n as usize),
    )?;
    let stream = StreamOptions::parse(&mut body, context.force_include_usage)?;
    if stream.stream && sampling.prompt_logprobs.is_some() {
        return Err(ApiError::invalid(
            "prompt_logprobs",
            "prompt_logprobs needs stream = false",
        ));
    }
    let echo = body.boolean("echo")?.unwrap_or(false);
    let logprobs = logprob_count(&mut body, "logprobs", context.limits)?;
    let max_tokens = body.integer("max_tokens", i64::from(!echo), i64::from(i32::MAX))?;
    Ok(CompletionBody {
        model,
        id,
        prompts,
        sampling,
        stream,
        max_tokens: max_tokens.map_or(DEFAULT_MAX_TOKENS, |tokens| tokens as u32),
        logprobs,
        echo,
        add_special_tokens: body.boolean("add_special_tokens")?.unwrap_or(true),
        ignored: body.ignored(),
    })
}

/// `best_of` equal to `n` asks for nothing more.
fn best_of(body: &mut Fields, n: u32) -> Result<(), ApiError> {
    body.refuse("best_of", |value| value.as_u64() == Some(u64::from(n)))
}

/// Takes `prompt`: a string, token ids, or a list of either.
fn prompts(body: &mut Fields) -> Result<Vec<PromptInput>, ApiError> {
    let wrong = |given: &str| {
        ApiError::invalid(
            "prompt",
            format!(
                "prompt must be a string, a list of token ids, or a list of either, but is or holds {given}"
            ),
        )
    };
    match body.list("prompt") {
        None => {}
        Some(List::Empty) => return Err(ApiError::invalid("prompt", "prompt must not be an empty list")),
        Some(List::Ids(ids)) => return Ok(vec![PromptInput::TokenIds(ids)]),
        Some(List::IdLists(lists)) => return Ok(lists.into_iter().map(PromptInput::TokenIds).collect()),
        Some(List::Texts(texts)) => return Ok(texts.into_iter().map(PromptInput::Text).collect()),
        Some(List::Bad(what)) => return Err(wrong(&what)),
    }
    match body.take("prompt") {
        None => Err(ApiError::invalid("prompt", "prompt is required")),
        Some(Value::String(text)) => Ok(vec![PromptInput::Text(text)]),
        Some(other) => Err(wrong(kind_of(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_prompts(prompt: &Value) -> Result<Vec<PromptInput>, ApiError> {
        prompts(&mut Fields::from_body(&json!({"prompt": prompt}))?)
    }

    #[test]
    fn all_four_forms_of_a_prompt() {
        let text = |text: &str| PromptInput::Text(text.to_owned());
        assert_eq!(parse_prompts(&json!("a")).expect("text"), vec![text("a")]);
        assert_eq!(
            parse_prompts(&json!(["a", "b"])).expect("texts"),
            vec![text("a"), text("b")]
        );
        assert_eq!(
            parse_prompts(&json!([1, 2])).expect("ids"),
            vec![PromptInput::TokenIds(vec![1, 2])]
        );
        assert_eq!(
            parse_prompts(&json!([[1], [2]])).expect("lists"),
            vec![PromptInput::TokenIds(vec![1]), PromptInput::TokenIds(vec![2])]
        );
        for bad in [
            json!([]),
            json!(1),
            json!({}),
            json!([1, "a"]),
            json!(["a", 1]),
            json!([null]),
        ] {
            assert_eq!(
                parse_prompts(&bad).expect_err("not a prompt").param(),
                Some("prompt")
            );
        }
    }
}
