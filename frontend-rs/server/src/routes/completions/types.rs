//! A completion request after validation.

use crate::request::sampling::SamplingFields;
use crate::request::stream_options::StreamOptions;

/// One prompt as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PromptInput {
    Text(String),
    TokenIds(Vec<u32>),
}

/// What `POST /v1/completions` was asked.
#[derive(Debug)]
pub(super) struct CompletionBody {
    /// The model as the client named it.
    pub model: String,
    /// The answer's id, `cmpl-…`.
    pub id: String,
    pub prompts: Vec<PromptInput>,
    pub sampling: SamplingFields,
    pub stream: StreamOptions,
    /// 0 only together with `echo`: the prompt alone is asked for.
    pub max_tokens: u32,
    /// Alternatives per token; `None` = no log-probabilities.
    pub logprobs: Option<i32>,
    /// Whether the answer begins with the prompt.
    pub echo: bool,
    pub add_special_tokens: bool,
    /// Names of the fields that had no effect.
    pub ignored: Vec<String>,
}
