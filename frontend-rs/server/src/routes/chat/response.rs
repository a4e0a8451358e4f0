//! The whole answer to a chat request that does not stream.

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::generate::logprobs::{TokenNaming, chat_content, prompt_positions};
use crate::generate::{ChoiceDelta, Finish, Generation};
use crate::model::Model;
use crate::routes::common::stop_reason_json;
use crate::usage::Usage;

/// What shapes the answer, whole or streamed.
#[derive(Debug, Clone)]
pub(super) struct AnswerShape {
    pub id: String,
    pub created_unix_s: u64,
    pub model: String,
    pub role: String,
    /// Text before the answer (`echo`).
    pub opening: String,
    pub top_logprobs: Option<i32>,
    pub return_token_ids: bool,
    pub tokens_as_ids: bool,
    pub show_cached_tokens: bool,
}

#[derive(Debug, Default)]
struct Choice {
    text: String,
    token_ids: Vec<u32>,
    logprobs: Vec<Value>,
    finish: Option<Finish>,
}

impl Choice {
    fn add(&mut self, delta: ChoiceDelta, shape: &AnswerShape, naming: TokenNaming<'_>) {
        self.text.push_str(&delta.text);
        if let (Some(top), Some(rows)) = (shape.top_logprobs, &delta.logprobs) {
            self.logprobs.extend(chat_content(naming, rows, top_count(top)));
        }
        self.token_ids.extend(delta.token_ids);
        self.finish = delta.finish.or(self.finish.take());
    }

    fn into_json(self, index: usize, shape: &AnswerShape) -> Value {
        let content = format!("{}{}", shape.opening, self.text);
        let mut choice = json!({
            "index": index,
            "message": {"role": shape.role, "content": content, "refusal": null},
            "logprobs": shape.top_logprobs.map(|_| json!({"content": self.logprobs, "refusal": null})),
            "finish_reason": self.finish.as_ref().map(|finish| finish.reason),
            "stop_reason": stop_reason_json(self.finish.as_ref()),
        });
        if shape.return_token_ids {
            choice["token_ids"] = json!(self.token_ids);
        }
        choice
    }
}

/// Columns to show for `top_logprobs`; -1 shows all.
pub(super) fn top_count(top: i32) -> usize {
    usize::try_from(top).unwrap_or(usize::MAX)
}

/// Waits for every choice and answers.
pub(super) async fn collect(
    mut generation: Generation,
    shape: AnswerShape,
    model: &Model,
) -> Result<Response, ApiError> {
    let naming = TokenNaming {
        model,
        as_token_ids: shape.tokens_as_ids,
    };
    let mut choices: Vec<Choice> = (0..generation.n).map(|_| Choice::default()).collect();
    let mut prompt_logprobs = Value::Null;
    let mut cached_tokens = 0;
    while let Some(delta) = generation.choices.next().await {
        let mut delta = delta?;
        cached_tokens = cached_tokens.max(delta.cached_tokens.unwrap_or(0));
        if let Some(rows) = delta.prompt_logprobs.take() {
            prompt_logprobs = prompt_positions(naming, &rows);
        }
        if let Some(choice) = choices.get_mut(delta.index as usize) {
            choice.add(delta, &shape, naming);
        }
    }
    let prompt = generation
        .prompts
        .first()
        .map(|prompt| prompt.to_vec())
        .unwrap_or_default();
    let usage = Usage {
        prompt_tokens: prompt.len() as u64,
        completion_tokens: choices.iter().map(|choice| choice.token_ids.len() as u64).sum(),
        cached_tokens: shape.show_cached_tokens.then_some(cached_tokens),
    };
    let choices: Vec<Value> = choices
        .into_iter()
        .enumerate()
        .map(|(index, choice)| choice.into_json(index, &shape))
        .collect();
    let mut answer = Map::new();
    answer.insert("id".into(), json!(shape.id));
    answer.insert("object".into(), json!("chat.completion"));
    answer.insert("created".into(), json!(shape.created_unix_s));
    answer.insert("model".into(), json!(shape.model));
    answer.insert("choices".into(), Value::Array(choices));
    answer.insert("usage".into(), usage.to_json());
    answer.insert("prompt_logprobs".into(), prompt_logprobs);
    if shape.return_token_ids {
        answer.insert("prompt_token_ids".into(), json!(prompt));
    }
    Ok(Json(answer).into_response())
}
