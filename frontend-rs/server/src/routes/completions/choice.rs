//! One choice of a completion while it grows, for whole and streamed answers alike.

use std::sync::Arc;

use serde_json::Value;

use super::convert::Echo;
use crate::generate::logprobs::{CompletionLogprobs, TextOffsets, TokenNaming};
use crate::generate::{ChoiceDelta, Finish};
use crate::model::Model;

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
    /// What to put first; taken by the first piece.
    echo: Option<Arc<Echo>>,
    pub prompt: Arc<[u32]>,
    /// Where generated tokens stand in the text; only where log-probabilities are asked for.
    offsets: Option<TextOffsets>,
}

impl ChoiceState {
    pub(super) fn new(
        model: &Model,
        prompt: &Arc<[u32]>,
        echo: &Arc<Echo>,
        shape: &AnswerShape,
        skip_special_tokens: bool,
    ) -> Self {
        let offsets = shape.logprobs.map(|_| {
            TextOffsets::new(model, prompt, skip_special_tokens).starting_at(echo.text.chars().count())
        });
        Self {
            echo: Some(echo.clone()),
            prompt: prompt.clone(),
            offsets,
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
            (top, CompletionLogprobs::default())
        });
        if let Some(echo) = self.echo.take() {
            piece.text.push_str(&echo.text);
            if let (Some((top, block)), true, Some(first)) = (&mut logprobs, shape.echo, self.prompt.first())
            {
                let mut offsets = echo.offsets.iter().copied();
                let mut next = |_| offsets.next().unwrap_or_default();
                block.push_unscored(naming, *first, next(*first));
                if let Some(rows) = &delta.prompt_logprobs {
                    block.push_rows(naming, rows, *top, next);
                }
            }
        }
        if !shape.prompt_only {
            piece.text.push_str(&delta.text);
            if let (Some((top, block)), Some(rows), Some(offsets)) =
                (&mut logprobs, &delta.logprobs, &mut self.offsets)
            {
                block.push_rows(naming, rows, *top, |id| offsets.next(id));
            }
            piece.token_ids = delta.token_ids;
        } else if let Some(finish) = &mut piece.finish {
            *finish = Finish {
                reason: "length",
                stop_reason: None,
            };
        }
        piece.logprobs = logprobs.map(|(_, block)| block);
        piece
    }
}

/// The `logprobs` of a piece as JSON.
pub(super) fn logprobs_json(logprobs: Option<CompletionLogprobs>) -> Value {
    logprobs.map_or(Value::Null, CompletionLogprobs::into_json)
}
