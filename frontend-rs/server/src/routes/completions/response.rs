//! The whole answer to a completion request that does not stream.

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde_json::{Value, json};

use super::choice::{AnswerShape, ChoiceState, Piece, logprobs_json};
use crate::error::ApiError;
use crate::generate::Generation;
use crate::generate::logprobs::{TokenNaming, prompt_positions};
use crate::model::Model;
use crate::routes::common::stop_reason_json;
use crate::usage::Usage;

#[derive(Debug, Default)]
struct Choice {
    whole: Piece,
    prompt_logprobs: Value,
}

impl Choice {
    fn add(&mut self, piece: Piece) {
        self.whole.text.push_str(&piece.text);
        self.whole.token_ids.extend(piece.token_ids);
        self.whole.finish = piece.finish.or(self.whole.finish.take());
        match (&mut self.whole.logprobs, piece.logprobs) {
            (Some(whole), Some(later)) => whole.append(later),
            (whole @ None, later) => *whole = later,
            (Some(_), None) => {}
        }
    }

    fn into_json(self, index: usize, shape: &AnswerShape, state: &ChoiceState) -> Value {
        let finish = self.whole.finish;
        let mut choice = json!({
            "index": index,
            "text": self.whole.text,
            "logprobs": logprobs_json(self.whole.logprobs),
            "finish_reason": finish.as_ref().map(|finish| finish.reason),
            "stop_reason": stop_reason_json(finish.as_ref()),
            "prompt_logprobs": self.prompt_logprobs,
        });
        if shape.return_token_ids {
            choice["token_ids"] = json!(self.whole.token_ids);
            choice["prompt_token_ids"] = json!(*state.prompt);
        }
        choice
    }
}

/// Waits for every choice and answers.
pub(super) async fn collect(
    mut generation: Generation,
    mut states: Vec<ChoiceState>,
    shape: AnswerShape,
    model: &Model,
) -> Result<Response, ApiError> {
    let naming = TokenNaming {
        model,
        as_token_ids: shape.tokens_as_ids,
    };
    // The first prompt token is never scored; an engine need not answer for a prompt that has no other.
    let unscored = if shape.show_prompt_logprobs {
        json!([null])
    } else {
        Value::Null
    };
    let mut choices: Vec<Choice> = states
        .iter()
        .map(|_| Choice {
            prompt_logprobs: unscored.clone(),
            ..Choice::default()
        })
        .collect();
    let mut cached_tokens = vec![0_u64; generation.prompts.len()];
    while let Some(delta) = generation.choices.next().await {
        let delta = delta?;
        let index = delta.index as usize;
        let (Some(choice), Some(state)) = (choices.get_mut(index), states.get_mut(index)) else {
            continue;
        };
        if let (Some(cached), Some(most)) = (
            delta.cached_tokens,
            cached_tokens.get_mut(index / generation.n as usize),
        ) {
            *most = cached.max(*most);
        }
        if let Some(rows) = delta
            .prompt_logprobs
            .as_ref()
            .filter(|_| shape.show_prompt_logprobs)
        {
            choice.prompt_logprobs = prompt_positions(naming, rows);
        }
        choice.add(state.take(delta, &shape, naming));
    }
    let usage = Usage {
        prompt_tokens: generation.prompts.iter().map(|prompt| prompt.len() as u64).sum(),
        completion_tokens: choices
            .iter()
            .map(|choice| choice.whole.token_ids.len() as u64)
            .sum(),
        cached_tokens: shape.show_cached_tokens.then_some(cached_tokens.iter().sum()),
    };
    let choices: Vec<Value> = choices
        .into_iter()
        .zip(&states)
        .enumerate()
        .map(|(index, (choice, state))| choice.into_json(index, &shape, state))
        .collect();
    Ok(Json(json!({
        "id": shape.id,
        "object": "text_completion",
        "created": shape.created_unix_s,
        "model": shape.model,
        "choices": choices,
        "usage": usage.to_json(),
    }))
    .into_response())
}
