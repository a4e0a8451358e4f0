//! Log-probabilities in the three shapes the API has: chat, completions, and prompt positions.

use serde_json::{Map, Value, json};
use vllm_rs_text::Detokenizer;
use vllm_rs_wire::Logprobs;

use crate::model::Model;

/// JSON has no infinity; vLLM writes this instead.
const MIN_LOGPROB: f32 = -9999.0;

/// How token texts are written.
#[derive(Debug, Clone, Copy)]
pub struct TokenNaming<'a> {
    pub model: &'a Model,
    /// `token_id:42` instead of the text.
    pub as_token_ids: bool,
}

impl TokenNaming<'_> {
    /// The token as text; parts of characters show as U+FFFD.
    pub fn text(&self, id: u32) -> String {
        if self.as_token_ids {
            format!("token_id:{id}")
        } else {
            self.model.token_text(id)
        }
    }

    fn bytes(&self, id: u32) -> Vec<u8> {
        if self.as_token_ids {
            self.text(id).into_bytes()
        } else {
            self.model.token_bytes(id)
        }
    }
}

fn finite(logprob: f32) -> f32 {
    // Also catches NaN, which has no place in JSON either.
    if logprob > MIN_LOGPROB {
        logprob
    } else {
        MIN_LOGPROB
    }
}

/// Column `1..` of a row, at most `top` entries: (token id, logprob).
fn alternatives<'a>(
    ids: &'a [u32],
    logprobs: &'a [f32],
    top: usize,
) -> impl Iterator<Item = (u32, f32)> + 'a {
    ids.iter()
        .copied()
        .zip(logprobs.iter().map(|value| finite(*value)))
        .skip(1)
        .take(top)
}

/// `choices[].logprobs.content` of chat: one entry per generated token.
pub fn chat_content<const T: bool>(naming: TokenNaming<'_>, rows: &Logprobs<T>, top: usize) -> Vec<Value> {
    let entry = |id: u32, logprob: f32| json!({"token": naming.text(id), "logprob": logprob, "bytes": naming.bytes(id)});
    (0..rows.positions())
        .filter_map(|position| rows.row(position))
        .filter(|(ids, logprobs, _)| !ids.is_empty() && !logprobs.is_empty())
        .map(|(ids, logprobs, _)| {
            let mut content = entry(ids[0], finite(logprobs[0]));
            content["top_logprobs"] = alternatives(ids, logprobs, top)
                .map(|(id, value)| entry(id, value))
                .collect();
            content
        })
        .collect()
}

/// Where tokens stand in a text, in characters: each after what those before it wrote. A token that ends inside a
/// character writes nothing, and the one that completes it writes it.
#[derive(Debug)]
pub struct TextOffsets {
    detokenizer: Detokenizer,
    chars: usize,
    piece: String,
}

impl TextOffsets {
    /// Offsets of the tokens that follow `prompt_token_ids`, from 0.
    pub fn new(model: &Model, prompt_token_ids: &[u32], skip_special_tokens: bool) -> Self {
        Self {
            detokenizer: Detokenizer::new(
                model.tokenizer.clone(),
                prompt_token_ids,
                skip_special_tokens,
                true,
            ),
            chars: 0,
            piece: String::new(),
        }
    }

    #[must_use]
    pub fn starting_at(self, chars: usize) -> Self {
        Self { chars, ..self }
    }

    /// Characters written so far.
    pub fn chars(&self) -> usize {
        self.chars
    }

    /// The offset of the next token.
    pub fn next(&mut self, id: u32) -> usize {
        let offset = self.chars;
        self.piece.clear();
        self.detokenizer.push(id, &mut self.piece);
        self.chars += self.piece.chars().count();
        offset
    }
}

/// `choices[].logprobs` of completions, filled token by token.
#[derive(Debug, Default)]
pub struct CompletionLogprobs {
    tokens: Vec<Value>,
    token_logprobs: Vec<Value>,
    top_logprobs: Vec<Value>,
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    fn push_token(&mut self, naming: TokenNaming<'_>, id: u32, offset: usize, logprob: Value, top: Value) {
        self.text_offset.push(offset);
        self.tokens.push(Value::String(naming.text(id)));
        self.token_logprobs.push(logprob);
        self.top_logprobs.push(top);
    }

    /// Adds a token that has no log-probability: the first of the prompt.
    pub fn push_unscored(&mut self, naming: TokenNaming<'_>, id: u32, offset: usize) {
        self.push_token(naming, id, offset, Value::Null, Value::Null);
    }

    /// Adds one entry per row, at the offset that `offset_of` gives for its token. `top_logprobs` always holds the
    /// token itself, as lm-eval expects.
    pub fn push_rows<const T: bool>(
        &mut self,
        naming: TokenNaming<'_>,
        rows: &Logprobs<T>,
        top: usize,
        mut offset_of: impl FnMut(u32) -> usize,
    ) {
        for position in 0..rows.positions() {
            let Some((ids, logprobs, _)) = rows.row(position) else {
                continue;
            };
            let (Some(&id), Some(&logprob)) = (ids.first(), logprobs.first()) else {
                continue;
            };
            let mut best = Map::new();
            for (other, value) in alternatives(ids, logprobs, top) {
                best.entry(naming.text(other)).or_insert_with(|| json!(value));
            }
            best.entry(naming.text(id))
                .or_insert_with(|| json!(finite(logprob)));
            let offset = offset_of(id);
            self.push_token(naming, id, offset, json!(finite(logprob)), Value::Object(best));
        }
    }

    /// Adds the entries of a later block of the same choice.
    pub fn append(&mut self, later: Self) {
        self.tokens.extend(later.tokens);
        self.token_logprobs.extend(later.token_logprobs);
        self.top_logprobs.extend(later.top_logprobs);
        self.text_offset.extend(later.text_offset);
    }

    pub fn into_json(self) -> Value {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        })
    }
}

/// `prompt_logprobs`: null for the first position, then `{id: {logprob, rank, decoded_token}}`.
pub fn prompt_positions<const T: bool>(naming: TokenNaming<'_>, rows: &Logprobs<T>) -> Value {
    let mut positions = vec![Value::Null];
    for position in 0..rows.positions() {
        let Some((ids, logprobs, rank)) = rows.row(position) else {
            continue;
        };
        let mut entries = Map::new();
        for (column, (id, value)) in ids.iter().zip(logprobs).enumerate() {
            let rank = if column == 0 { rank as usize } else { column };
            entries.entry(id.to_string()).or_insert_with(
                || json!({"logprob": finite(*value), "rank": rank, "decoded_token": naming.text(*id)}),
            );
        }
        positions.push(Value::Object(entries));
    }
    Value::Array(positions)
}
