//! From the JSON of a chat request to [`ChatBody`].

use serde_json::Value;

use super::types::{ChatBody, TemplateFields};
use crate::error::ApiError;
use crate::limits::{self, Limits};
use crate::model::Model;
use crate::request::fields::{Fields, kind_of};
use crate::request::sampling::{SamplingFields, logprob_count, refuse_unsupported};
use crate::request::stream_options::StreamOptions;
use crate::routes::common;

/// What the server, not the request, brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub model: &'a Model,
    pub limits: &'a Limits,
    pub force_include_usage: bool,
    /// Id of the HTTP request.
    pub http_id: &'a str,
}

pub(super) fn parse(mut body: Fields, context: Context<'_>) -> Result<ChatBody, ApiError> {
    refuse(&mut body)?;
    let model = common::model_name(&mut body, context.model)?;
    let id = common::answer_id(&mut body, "chatcmpl", context.http_id)?;
    let messages = messages(&mut body, context.limits)?;
    let sampling = SamplingFields::parse(&mut body, context.limits)?;
    let stream = StreamOptions::parse(&mut body, context.force_include_usage)?;
    if stream.stream && sampling.prompt_logprobs.is_some() {
        return Err(ApiError::invalid(
            "prompt_logprobs",
            "prompt_logprobs needs stream = false",
        ));
    }
    let chat = ChatBody {
        model,
        id,
        messages,
        max_tokens: max_tokens(&mut body)?,
        top_logprobs: top_logprobs(&mut body, context.limits)?,
        echo: body.boolean("echo")?.unwrap_or(false),
        template: template(&mut body)?,
        sampling,
        stream,
        ignored: body.ignored(),
    };
    Ok(chat)
}

fn refuse(body: &mut Fields) -> Result<(), ApiError> {
    let is_text = |value: &Value| {
        value
            .as_array()
            .is_some_and(|kinds| kinds.iter().all(|kind| kind == "text"))
    };
    refuse_unsupported(body)?;
    body.refuse("tool_choice", |value| value == "none")?;
    body.refuse("function_call", |value| value == "none")?;
    body.refuse("modalities", is_text)?;
    let refused = [
        "tools",
        "functions",
        "audio",
        "prediction",
        "web_search_options",
        "chat_template",
        "media_io_kwargs",
        "mm_processor_kwargs",
    ];
    refused.iter().try_for_each(|name| body.refuse(name, |_| false))
}

/// Takes `messages`; their content is judged where the template is rendered.
pub fn messages(body: &mut Fields, limits: &Limits) -> Result<Vec<Value>, ApiError> {
    let messages = match body.take("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        Some(Value::Array(_)) => {
            return Err(ApiError::invalid(
                "messages",
                "messages must hold at least one message",
            ));
        }
        Some(other) => {
            return Err(ApiError::invalid(
                "messages",
                format!("messages must be a list, but is {}", kind_of(&other)),
            ));
        }
        None => return Err(ApiError::invalid("messages", "messages is required")),
    };
    limits::check("messages", "messages", limits.messages, messages.len())?;
    for (index, message) in messages.iter().enumerate() {
        check_message(index, message)?;
    }
    Ok(messages)
}

fn check_message(index: usize, message: &Value) -> Result<(), ApiError> {
    let path = format!("messages[{index}]");
    if !message.is_object() {
        return Err(ApiError::invalid(
            &path,
            format!("{path} must be an object, but is {}", kind_of(message)),
        ));
    }
    match &message["role"] {
        Value::String(role) if !role.is_empty() && role.len() <= 64 => {}
        other => {
            let path = format!("{path}.role");
            return Err(ApiError::invalid(
                &path,
                format!(
                    "{path} must be a name such as \"user\", but is {}",
                    kind_of(other)
                ),
            ));
        }
    }
    let parts = match &message["content"] {
        Value::Null | Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        other => {
            let path = format!("{path}.content");
            return Err(ApiError::invalid(
                &path,
                format!(
                    "{path} must be a string or a list of parts, but is {}",
                    kind_of(other)
                ),
            ));
        }
    };
    for (part_index, part) in parts.iter().enumerate() {
        let path = format!("{path}.content[{part_index}]");
        match part["type"].as_str() {
            Some("text") if part["text"].is_string() => {}
            Some("text") => {
                return Err(ApiError::invalid(
                    format!("{path}.text"),
                    format!("{path}.text must be a string"),
                ));
            }
            Some(kind) => {
                let kind: String = kind.chars().take(40).collect();
                return Err(ApiError::Unsupported {
                    param: format!("{path}.type"),
                    detail: format!(" ({kind:?}; only \"text\" is)"),
                });
            }
            None => {
                return Err(ApiError::invalid(
                    format!("{path}.type"),
                    format!("{path}.type must be \"text\""),
                ));
            }
        }
    }
    Ok(())
}

/// `max_completion_tokens` wins over its older name.
fn max_tokens(body: &mut Fields) -> Result<Option<(&'static str, u32)>, ApiError> {
    let high = i64::from(i32::MAX);
    let old = body
        .integer("max_tokens", 1, high)?
        .map(|tokens| ("max_tokens", tokens as u32));
    let new = body
        .integer("max_completion_tokens", 1, high)?
        .map(|tokens| ("max_completion_tokens", tokens as u32));
    Ok(new.or(old))
}

fn top_logprobs(body: &mut Fields, limits: &Limits) -> Result<Option<i32>, ApiError> {
    let wanted = body.boolean("logprobs")?.unwrap_or(false);
    let top = logprob_count(body, "top_logprobs", limits)?;
    match (wanted, top) {
        (false, Some(top)) if top != 0 => Err(ApiError::invalid(
            "top_logprobs",
            "top_logprobs needs logprobs = true",
        )),
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// Takes the fields that shape the prompt.
pub fn template(body: &mut Fields) -> Result<TemplateFields, ApiError> {
    let continue_final_message = body.boolean("continue_final_message")?.unwrap_or(false);
    let add_generation_prompt = body.boolean("add_generation_prompt")?;
    if continue_final_message && add_generation_prompt == Some(true) {
        return Err(ApiError::invalid(
            "continue_final_message",
            "continue_final_message and add_generation_prompt cannot both be true",
        ));
    }
    let mut kwargs = body.raw_object("chat_template_kwargs")?.unwrap_or_default();
    if let Some(effort) = body.string("reasoning_effort")? {
        kwargs.insert("reasoning_effort".to_owned(), Value::String(effort));
    }
    if let Some(documents) = body.take("documents") {
        kwargs.insert("documents".to_owned(), documents);
    }
    Ok(TemplateFields {
        add_generation_prompt: add_generation_prompt.unwrap_or(!continue_final_message),
        continue_final_message,
        // The template writes them itself.
        add_special_tokens: body.boolean("add_special_tokens")?.unwrap_or(false),
        kwargs,
    })
}
