//! The chunks of a streamed chat answer.

use std::sync::Arc;

use serde_json::{Value, json};

use super::response::{AnswerShape, top_count};
use crate::generate::ChoiceDelta;
use crate::generate::logprobs::{TokenNaming, chat_content};
use crate::model::Model;
use crate::request::stream_options::StreamOptions;
use crate::routes::common::stop_reason_json;
use crate::sse::{EventWriter, push_json_str, push_number};
use crate::usage::Usage;

/// Writes `chat.completion.chunk` events. What is the same in every chunk is serialised once.
pub(super) struct ChatEvents {
    model: Arc<Model>,
    shape: AnswerShape,
    options: StreamOptions,
    usage: Usage,
    prompt_token_ids: Arc<[u32]>,
    /// `data: {"id":…,"model":…,"choices":[`
    head: Vec<u8>,
    /// Which choices have had their role chunk.
    opened: Vec<bool>,
}

impl ChatEvents {
    pub(super) fn new(
        model: Arc<Model>,
        shape: AnswerShape,
        options: StreamOptions,
        prompt_token_ids: Arc<[u32]>,
        choices: u32,
    ) -> Self {
        let mut head = b"data: {\"id\":".to_vec();
        push_json_str(&mut head, &shape.id);
        head.extend_from_slice(b",\"object\":\"chat.completion.chunk\",\"created\":");
        push_number(&mut head, shape.created_unix_s);
        head.extend_from_slice(b",\"model\":");
        push_json_str(&mut head, &shape.model);
        head.extend_from_slice(b",\"choices\":[");
        let usage = Usage {
            prompt_tokens: prompt_token_ids.len() as u64,
            completion_tokens: 0,
            cached_tokens: shape.show_cached_tokens.then_some(0),
        };
        let opened = vec![false; choices as usize];
        Self {
            model,
            shape,
            options,
            usage,
            prompt_token_ids,
            head,
            opened,
        }
    }

    /// Ends a chunk whose choices are written.
    fn end_chunk(&self, first: bool, out: &mut Vec<u8>) {
        out.push(b']');
        if first && self.shape.return_token_ids {
            out.extend_from_slice(b",\"prompt_token_ids\":");
            let _ = serde_json::to_writer(&mut *out, &*self.prompt_token_ids);
        }
        if self.options.continuous_usage {
            self.push_usage(out);
        }
        out.extend_from_slice(b"}\n\n");
    }

    fn push_usage(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"usage\":");
        let _ = serde_json::to_writer(out, &self.usage.to_json());
    }

    fn push_role(&mut self, index: u32, out: &mut Vec<u8>) {
        let opened = match self.opened.get_mut(index as usize) {
            Some(opened) if !*opened => opened,
            _ => return,
        };
        *opened = true;
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        push_number(out, u64::from(index));
        out.extend_from_slice(b",\"delta\":{\"role\":");
        push_json_str(out, &self.shape.role);
        out.extend_from_slice(b",\"content\":");
        push_json_str(out, &self.shape.opening);
        out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":null}");
        self.end_chunk(true, out);
    }

    fn push_logprobs(&self, delta: &ChoiceDelta, out: &mut Vec<u8>) {
        let Some((top, rows)) = self.shape.top_logprobs.zip(delta.logprobs.as_ref()) else {
            out.extend_from_slice(b"null");
            return;
        };
        let naming = TokenNaming {
            model: &self.model,
            as_token_ids: self.shape.tokens_as_ids,
        };
        let content: Vec<Value> = chat_content(naming, rows, top_count(top));
        let _ = serde_json::to_writer(out, &json!({"content": content, "refusal": null}));
    }
}

impl EventWriter for ChatEvents {
    fn delta(&mut self, delta: ChoiceDelta, out: &mut Vec<u8>) {
        self.usage.completion_tokens += delta.token_ids.len() as u64;
        if let (Some(shown), Some(cached)) = (&mut self.usage.cached_tokens, delta.cached_tokens) {
            *shown = (*shown).max(cached);
        }
        self.push_role(delta.index, out);
        let has_logprobs = self.shape.top_logprobs.is_some() && delta.logprobs.is_some();
        let has_ids = self.shape.return_token_ids && !delta.token_ids.is_empty();
        if delta.text.is_empty() && delta.finish.is_none() && !has_logprobs && !has_ids {
            return;
        }
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        push_number(out, u64::from(delta.index));
        out.extend_from_slice(b",\"delta\":{\"content\":");
        push_json_str(out, &delta.text);
        out.extend_from_slice(b"},\"logprobs\":");
        self.push_logprobs(&delta, out);
        match &delta.finish {
            None => out.extend_from_slice(b",\"finish_reason\":null"),
            Some(finish) => {
                out.extend_from_slice(b",\"finish_reason\":");
                push_json_str(out, finish.reason);
                out.extend_from_slice(b",\"stop_reason\":");
                let _ = serde_json::to_writer(&mut *out, &stop_reason_json(Some(finish)));
            }
        }
        if self.shape.return_token_ids {
            out.extend_from_slice(b",\"token_ids\":");
            let _ = serde_json::to_writer(&mut *out, &delta.token_ids);
        }
        out.push(b'}');
        self.end_chunk(false, out);
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
