//! The chunks of a streamed completion.

use std::sync::Arc;

use super::choice::{AnswerShape, ChoiceState, Piece, logprobs_json};
use crate::generate::ChoiceDelta;
use crate::generate::logprobs::TokenNaming;
use crate::model::Model;
use crate::request::stream_options::StreamOptions;
use crate::routes::common::stop_reason_json;
use crate::sse::{EventWriter, push_json_str, push_number};
use crate::usage::Usage;

/// Writes `text_completion` events. What is the same in every chunk is serialised once.
pub(super) struct CompletionEvents {
    model: Arc<Model>,
    shape: AnswerShape,
    options: StreamOptions,
    usage: Usage,
    states: Vec<ChoiceState>,
    /// `data: {"id":…,"model":…,"choices":[`
    head: Vec<u8>,
}

impl CompletionEvents {
    pub(super) fn new(
        model: Arc<Model>,
        shape: AnswerShape,
        options: StreamOptions,
        states: Vec<ChoiceState>,
        prompt_tokens: u64,
    ) -> Self {
        let mut head = b"data: {\"id\":".to_vec();
        push_json_str(&mut head, &shape.id);
        head.extend_from_slice(b",\"object\":\"text_completion\",\"created\":");
        push_number(&mut head, shape.created_unix_s);
        head.extend_from_slice(b",\"model\":");
        push_json_str(&mut head, &shape.model);
        head.extend_from_slice(b",\"choices\":[");
        let cached_tokens = shape.show_cached_tokens.then_some(0);
        let usage = Usage {
            prompt_tokens,
            completion_tokens: 0,
            cached_tokens,
        };
        Self {
            model,
            shape,
            options,
            usage,
            states,
            head,
        }
    }

    fn push_usage(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"usage\":");
        let _ = serde_json::to_writer(out, &self.usage.to_json());
    }

    fn push_piece(&self, index: u32, piece: Piece, prompt: Option<&[u32]>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        push_number(out, u64::from(index));
        out.extend_from_slice(b",\"text\":");
        push_json_str(out, &piece.text);
        out.extend_from_slice(b",\"logprobs\":");
        let _ = serde_json::to_writer(&mut *out, &logprobs_json(piece.logprobs));
        match &piece.finish {
            None => out.extend_from_slice(b",\"finish_reason\":null,\"stop_reason\":null"),
            Some(finish) => {
                out.extend_from_slice(b",\"finish_reason\":");
                push_json_str(out, finish.reason);
                out.extend_from_slice(b",\"stop_reason\":");
                let _ = serde_json::to_writer(&mut *out, &stop_reason_json(Some(finish)));
            }
        }
        if self.shape.return_token_ids {
            if let Some(prompt) = prompt {
                out.extend_from_slice(b",\"prompt_token_ids\":");
                let _ = serde_json::to_writer(&mut *out, prompt);
            }
            out.extend_from_slice(b",\"token_ids\":");
            let _ = serde_json::to_writer(&mut *out, &piece.token_ids);
        }
        out.extend_from_slice(b"}]");
        if self.options.continuous_usage {
            self.push_usage(out);
        }
        out.extend_from_slice(b"}\n\n");
    }
}

impl EventWriter for CompletionEvents {
    fn delta(&mut self, delta: ChoiceDelta, out: &mut Vec<u8>) {
        let index = delta.index;
        if let (Some(shown), Some(cached)) = (&mut self.usage.cached_tokens, delta.cached_tokens) {
            *shown = (*shown).max(cached);
        }
        let Some(state) = self.states.get_mut(index as usize) else {
            return;
        };
        let is_first = state.is_new();
        let naming = TokenNaming {
            model: &self.model,
            as_token_ids: self.shape.tokens_as_ids,
        };
        let piece = state.take(delta, &self.shape, naming);
        self.usage.completion_tokens += piece.token_ids.len() as u64;
        let has_ids = self.shape.return_token_ids && !piece.token_ids.is_empty();
        if piece.text.is_empty() && piece.finish.is_none() && piece.logprobs.is_none() && !has_ids {
            return;
        }
        let prompt = self.states[index as usize].prompt.clone();
        self.push_piece(index, piece, is_first.then_some(&*prompt), out);
    }

    fn closing(&mut self, out: &mut Vec<u8>) {
        if self.options.include_usage {
            out.extend_from_slice(&self.head);
            out.push(b']');
            self.push_usage(out);
            out.extend_from_slice(b"}\n\n");
        }
    }
}
