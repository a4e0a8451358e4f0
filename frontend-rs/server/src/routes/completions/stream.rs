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
    /// Choices per prompt.
    n: u32,
    /// Per prompt, the most that any of its choices found in the cache.
    prompt_cached_tokens: Vec<u64>,
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
        n: u32,
    ) -> Self {
        let mut head = b"data: {\"id\":".to_vec();
        push_json_str(&mut head, &shape.id);
        head.extend_from_slice(b",\"object\":\"text_completion\",\"created\":");
        push_number(&mut head, shape.created_unix_s);
        head.extend_from_slice(b",\"model\":");
        push_json_str(&mut head, &shape.model);
        head.extend_from_slice(b",\"choices\":[");
        let cached_tokens = shape.show_cached_tokens.then_some(0);
        // The choices of a prompt follow each other; its tokens count once.
        let prompts = states.iter().step_by(n as usize).map(|state| &state.prompt);
        let prompt_lengths: Vec<u64> = prompts.map(|prompt| prompt.len() as u64).collect();
        let usage = Usage {
            prompt_tokens: prompt_lengths.iter().sum(),
            completion_tokens: 0,
            cached_tokens,
        };
        Self {
            model,
            shape,
            options,
            usage,
            n,
            prompt_cached_tokens: vec![0; prompt_lengths.len()],
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
        let of_prompt = self.prompt_cached_tokens.get_mut((index / self.n) as usize);
        if let (Some(cached), Some(most), Some(shown)) =
            (delta.cached_tokens, of_prompt, &mut self.usage.cached_tokens)
        {
            *shown += cached.saturating_sub(*most);
            *most = cached.max(*most);
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
