//! Messages as clients send them, made into what a template reads.

use serde_json::{Map, Value, json};

use super::ChatRequest;
use crate::error::ChatTemplateError;

/// Marks the end of an open last message, so that the rendered text can be cut there. The space
/// at its end shows whether the template trims messages.
pub(super) const CONTINUE_TAG: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// Messages ready for a template.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) messages: Value,
    /// The text of the last message, if it is to be continued.
    pub(super) open_text: Option<String>,
}

fn bad(field: impl Into<String>, message: impl Into<String>) -> ChatTemplateError {
    ChatTemplateError::BadRequest {
        field: field.into(),
        message: message.into(),
    }
}

/// Checks the messages and brings their content into a shape the template reads.
pub(super) fn prepare(
    request: &ChatRequest<'_>,
    takes_string: bool,
    takes_parts: bool,
) -> Result<Prepared, ChatTemplateError> {
    let messages = request
        .messages
        .as_array()
        .ok_or_else(|| bad("messages", "must be a list"))?;
    if messages.is_empty() {
        return Err(bad("messages", "must not be empty"));
    }
    let mut prepared = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let field = format!("messages[{index}]");
        let message = message
            .as_object()
            .ok_or_else(|| bad(field.as_str(), "must be an object"))?;
        prepared.push(prepare_message(message, &field, takes_string, takes_parts)?);
    }
    let mut open_text = None;
    if request.continue_final_message {
        if request.add_generation_prompt {
            return Err(bad(
                "continue_final_message",
                "cannot be combined with add_generation_prompt",
            ));
        }
        if let Some(last) = prepared.last_mut() {
            open_text = Some(mark_open(last)?);
        }
    }
    Ok(Prepared {
        messages: Value::from(prepared),
        open_text,
    })
}

fn prepare_message(
    message: &Map<String, Value>,
    field: &str,
    takes_string: bool,
    takes_parts: bool,
) -> Result<Map<String, Value>, ChatTemplateError> {
    if !message.get("role").is_some_and(Value::is_string) {
        return Err(bad(format!("{field}.role"), "must be a string"));
    }
    let field = format!("{field}.content");
    let mut prepared = message.clone();
    let content = match message.get("content") {
        None | Some(Value::Null) => Value::from(""),
        Some(Value::String(text)) if takes_string => Value::from(text.as_str()),
        Some(Value::String(text)) => json!([{"type": "text", "text": text}]),
        Some(Value::Array(parts)) => {
            let texts = part_texts(parts, &field)?;
            if takes_parts {
                texts
                    .into_iter()
                    .map(|text| json!({"type": "text", "text": text}))
                    .collect()
            } else {
                Value::from(texts.join("\n"))
            }
        }
        Some(_) => return Err(bad(field, "must be a string or a list of parts")),
    };
    prepared.insert("content".to_owned(), content);
    if let Some(Value::Array(calls)) = prepared.get_mut("tool_calls") {
        calls.iter_mut().for_each(open_arguments);
    }
    Ok(prepared)
}

/// The texts of a list of content parts; other kinds of part are refused.
fn part_texts<'a>(parts: &'a [Value], field: &str) -> Result<Vec<&'a str>, ChatTemplateError> {
    let text_of = |(index, part): (usize, &'a Value)| {
        if let Some(text) = part.as_str() {
            return Ok(text);
        }
        let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
        let key = match kind {
            "text" | "input_text" | "output_text" => "text",
            "refusal" => "refusal",
            other => {
                let message = format!("content of type '{other}' is not supported; this model reads text");
                return Err(bad(format!("{field}[{index}].type"), message));
            }
        };
        let text = part.get(key).and_then(Value::as_str);
        text.ok_or_else(|| bad(format!("{field}[{index}].{key}"), "must be a string"))
    };
    parts.iter().enumerate().map(text_of).collect()
}

/// The API carries a call's arguments as JSON text; templates expect the object.
fn open_arguments(call: &mut Value) {
    let Some(arguments) = call.pointer_mut("/function/arguments") else {
        return;
    };
    let Some(text) = arguments.as_str() else { return };
    if text.trim().is_empty() {
        *arguments = json!({});
    } else if let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text) {
        *arguments = parsed;
    }
}

/// Appends the tag to the last text of a message; returns that text.
fn mark_open(message: &mut Map<String, Value>) -> Result<String, ChatTemplateError> {
    let text = match message.get_mut("content") {
        Some(Value::Array(parts)) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")),
        other => other,
    };
    let Some(Value::String(text)) = text else {
        return Err(bad(
            "continue_final_message",
            "the last message has no text to continue",
        ));
    };
    let open = text.clone();
    text.push_str(CONTINUE_TAG);
    Ok(open)
}
