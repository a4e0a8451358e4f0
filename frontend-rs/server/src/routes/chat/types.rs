//! A chat request after validation.

use serde_json::{Map, Value};

use crate::request::sampling::SamplingFields;
use crate::request::stream_options::StreamOptions;

/// What `POST /v1/chat/completions` was asked.
#[derive(Debug)]
pub(super) struct ChatBody {
    /// The model as the client named it.
    pub model: String,
    /// The answer's id, `chatcmpl-…`.
    pub id: String,
    pub messages: Vec<Value>,
    pub sampling: SamplingFields,
    pub stream: StreamOptions,
    /// Name of the field that gave it, and the limit.
    pub max_tokens: Option<(&'static str, u32)>,
    /// Alternatives per generated token; `None` = no log-probabilities.
    pub top_logprobs: Option<i32>,
    pub echo: bool,
    pub template: TemplateFields,
    /// Names of the fields that had no effect.
    pub ignored: Vec<String>,
}

/// The fields that shape the prompt.
#[derive(Debug)]
pub struct TemplateFields {
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
    pub add_special_tokens: bool,
    /// Variables for the template.
    pub kwargs: Map<String, Value>,
}
