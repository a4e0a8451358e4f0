//! One choice of a completion while it grows, for whole and streamed answers alike.

use std::sync::Arc;

use serde_json::Value;

use crate::generate::logprobs::{CompletionLogprobs, TokenNaming};
use crate::generate::{ChoiceDelta, Finish};

/// What shapes the answer, whole or streamed.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is asked for by a field of the API"
)]
pub(super) struct AnswerShape {
    pub id: String,
    pub created_unix_s: u64,
    pub model: String,
    pub logprobs: Option<i32>,
    pub echo: bool,
    /// The prompt alone was asked for: generated tokens are left out.
    pub prompt_only: bool,
    pub return_token_ids: bool,
    pub tokens_as_ids: bool,
    pub show_cached_tokens: bool,
    /// `prompt_logprobs` was asked for.
    pub show_prompt_logprobs: bool,
}

/// A piece of the answer.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub text: String,
    pub logprobs: Option<CompletionLogprobs>,
    pub token_ids: Vec<u32>,
    pub finish: Option<Finish>,
}

/// The state of one choice between pieces.
#[derive(Debug)]
pub(super) struct ChoiceState {
    /// Text to put first; taken by the first piece.
    echo: Option<String>,
    pub prompt: Arc<[u32]>,
    /// Characters covered by the log-probabilities so far.
    logprob_offset: usize,
}

impl ChoiceState {
    pub(super) fn new(echo: String, prompt: Arc<[u32]>) -> Self {
        Self {
            echo: Some(echo),
            prompt,
            logprob_offset: 0,
        }
    }

    /// Whether no piece has been made yet.
    pub(super) fn is_new(&self) -> bool {
        self.echo.is_some()
    }

    /// Turns a delta into the next piece of the answer.
    pub(super) fn take(&mut self, delta: ChoiceDelta, shape: &AnswerShape, naming: TokenNaming<'_>) -> Piece {
        let mut piece = Piece {
            finish: delta.finish,
            ..Piece::default()
        };
        let mut logprobs = shape.logprobs.map(|top| {
            let top = usize::try_from(top).unwrap_or(usize::MAX);
            (top, CompletionLogprobs::at_offset(self.logprob_offset))
        });
        if let Some(echo) = self.echo.take() {
            piece.text = echo;
            if let (Some((top, block)), true, Some(first)) = (&mut logprobs, shape.echo, self.prompt.first())
            {
                block.push_unscored(naming, *first);
                if let Some(rows) = &delta.prompt_logprobs {
                    block.push_rows(naming, rows, *top);
                }
            }
        }
        if !shape.prompt_only {
            piece.text.push_str(&delta.text);
            if let (Some((top, block)), Some(rows)) = (&mut logprobs, &delta.logprobs) {
                block.push_rows(naming, rows, *top);
            }
            piece.token_ids = delta.token_ids;
        } else if let Some(finish) = &mut piece.finish {
            *finish = Finish {
                reason: "length",
                stop_reason: None,
            };
        }
        if let Some((_, block)) = logprobs {
            self.logprob_offset = block.offset();
            piece.logprobs = Some(block);
        }
        piece
    }
}

/// The `logprobs` of a piece as JSON.
pub(super) fn logprobs_json(logprobs: Option<CompletionLogprobs>) -> Value {
    logprobs.map_or(Value::Null, CompletionLogprobs::into_json)
}
