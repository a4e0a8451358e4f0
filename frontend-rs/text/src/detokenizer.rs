//! Token ids to text, one token at a time.
//!
//! The deltas, joined, equal decoding all the tokens at once. What may still change is held back:
//! an unfinished UTF-8 sequence, or an unfinished run of byte tokens. Each token
//! costs O(1), whatever came before it.

use crate::tokenizer::{DecodeKind, Tokenizer, decode_window};

/// Tokens of the prompt that are put before the first window of a windowed decoder, so that it
/// knows what precedes the answer.
const CONTEXT_TOKENS: usize = 5;
/// A window longer than this is given out as it is; only a decoder that never completes a
/// character gets here.
const MAX_WINDOW_TOKENS: usize = 256;
const REPLACEMENT: char = '\u{FFFD}';

/// The incremental detokenizer of one answer.
#[derive(Debug)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special_tokens: bool,
    /// Whether added tokens in a row may have spaces put between them by a windowed decoder.
    spaces_between_special_tokens: bool,
    last_was_added: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The end of an unfinished UTF-8 sequence, at most 3 bytes.
    ByteLevel { unfinished: Vec<u8> },
    /// The current run of byte tokens, and the leading spaces still to be dropped.
    ByteFallback { run: Vec<u8>, strip_left: usize },
    /// Tokens of the window; the text of the first `shown` of them has been given out.
    Windowed { window: Vec<u32>, shown: usize },
}

impl Detokenizer {
    /// A detokenizer for an answer that follows `prompt_token_ids`. The prompt decides only
    /// whether a leading space belongs to the answer; it may be empty.
    pub fn new(
        tokenizer: Tokenizer,
        prompt_token_ids: &[u32],
        skip_special_tokens: bool,
        spaces_between_special_tokens: bool,
    ) -> Self {
        let state = match tokenizer.pieces().kind() {
            DecodeKind::ByteLevel => State::ByteLevel {
                unfinished: Vec::new(),
            },
            DecodeKind::ByteFallback { strip_left } => {
                let pieces = tokenizer.pieces();
                let writes = |&id: &u32| {
                    let skipped = skip_special_tokens && pieces.is_special(id);
                    !skipped && !pieces.piece(id).is_empty()
                };
                let strip_left = if prompt_token_ids.iter().any(writes) {
                    0
                } else {
                    strip_left
                };
                State::ByteFallback {
                    run: Vec::new(),
                    strip_left,
                }
            }
            DecodeKind::Windowed => {
                let from = prompt_token_ids.len().saturating_sub(CONTEXT_TOKENS);
                let window = prompt_token_ids[from..].to_vec();
                State::Windowed {
                    shown: window.len(),
                    window,
                }
            }
        };
        Self {
            tokenizer,
            skip_special_tokens,
            spaces_between_special_tokens: spaces_between_special_tokens || skip_special_tokens,
            last_was_added: false,
            state,
        }
    }

    /// Takes the next token and appends to `text` what is certain now.
    pub fn push(&mut self, token_id: u32, text: &mut String) {
        let pieces = self.tokenizer.pieces();
        if self.skip_special_tokens && pieces.is_special(token_id) {
            return;
        }
        let piece = pieces.piece(token_id);
        match &mut self.state {
            State::ByteLevel { unfinished } => push_bytes(unfinished, piece, text),
            State::ByteFallback { run, strip_left } => {
                if pieces.is_byte(token_id) {
                    run.extend_from_slice(piece);
                } else if pieces.is_present(token_id) {
                    end_run(run, strip_left, text);
                    append_stripped(&String::from_utf8_lossy(piece), strip_left, text);
                }
            }
            State::Windowed { window, shown } => {
                let is_added = pieces.is_added(token_id);
                let raw = !self.spaces_between_special_tokens && is_added && self.last_was_added;
                self.last_was_added = is_added;
                window.push(token_id);
                let delta = slide(&self.tokenizer, self.skip_special_tokens, window, shown, false);
                text.push_str(if raw && !delta.is_empty() {
                    delta.trim_start()
                } else {
                    &delta
                });
            }
        }
    }

    /// No more tokens: appends what was held back, unfinished characters as U+FFFD.
    pub fn finish(&mut self, text: &mut String) {
        match &mut self.state {
            State::ByteLevel { unfinished } => {
                text.push_str(&String::from_utf8_lossy(unfinished));
                unfinished.clear();
            }
            State::ByteFallback { run, strip_left } => end_run(run, strip_left, text),
            State::Windowed { window, shown } => {
                text.push_str(&slide(
                    &self.tokenizer,
                    self.skip_special_tokens,
                    window,
                    shown,
                    true,
                ));
            }
        }
    }
}

/// Appends `unfinished + piece` as UTF-8, bad sequences as U+FFFD, and keeps an unfinished end.
fn push_bytes(unfinished: &mut Vec<u8>, piece: &[u8], text: &mut String) {
    if unfinished.is_empty()
        && let Ok(whole) = std::str::from_utf8(piece)
    {
        text.push_str(whole);
        return;
    }
    unfinished.extend_from_slice(piece);
    let mut from = 0;
    while from < unfinished.len() {
        match std::str::from_utf8(&unfinished[from..]) {
            Ok(valid) => {
                text.push_str(valid);
                from = unfinished.len();
            }
            Err(error) => {
                let valid = &unfinished[from..from + error.valid_up_to()];
                text.push_str(&String::from_utf8_lossy(valid));
                from += error.valid_up_to();
                let Some(bad) = error.error_len() else { break };
                text.push(REPLACEMENT);
                from += bad;
            }
        }
    }
    unfinished.drain(..from);
}

/// A run of byte tokens is valid as a whole, or each of its bytes is shown as U+FFFD.
fn end_run(run: &mut Vec<u8>, strip_left: &mut usize, text: &mut String) {
    if run.is_empty() {
        return;
    }
    if let Ok(valid) = std::str::from_utf8(run) {
        append_stripped(valid, strip_left, text);
    } else {
        *strip_left = 0;
        text.extend(std::iter::repeat_n(REPLACEMENT, run.len()));
    }
    run.clear();
}

/// Appends `piece` without the leading spaces that are still to be dropped.
fn append_stripped(mut piece: &str, strip_left: &mut usize, text: &mut String) {
    while *strip_left > 0 && !piece.is_empty() {
        match piece.strip_prefix(' ') {
            Some(rest) => {
                piece = rest;
                *strip_left -= 1;
            }
            None => *strip_left = 0,
        }
    }
    text.push_str(piece);
}

/// Decodes the window with and without its new tokens; the difference is new text. The window
/// then moves on, so it stays short.
fn slide(
    tokenizer: &Tokenizer,
    skip_special_tokens: bool,
    window: &mut Vec<u32>,
    shown: &mut usize,
    last: bool,
) -> String {
    let decode = |ids: &[u32]| {
        let pieces = tokenizer.pieces();
        let wanted = ids
            .iter()
            .filter(|&&id| !(skip_special_tokens && pieces.is_special(id)));
        let tokens = wanted.filter_map(|&id| tokenizer.id_to_token(id)).collect();
        decode_window(tokenizer.hf(), tokens).unwrap_or_default()
    };
    let before = decode(&window[..*shown]);
    let whole = decode(window);
    let must_move = last || window.len() >= MAX_WINDOW_TOKENS;
    let delta = match whole.strip_prefix(before.as_str()) {
        Some(delta) if must_move || !(delta.is_empty() || whole.ends_with(REPLACEMENT)) => delta.to_owned(),
        _ if !must_move => return String::new(),
        _ => after_common_prefix(&before, &whole).to_owned(),
    };
    window.drain(..*shown);
    *shown = window.len();
    delta
}

/// What `whole` has beyond the characters it begins with in common with `before`.
fn after_common_prefix<'a>(before: &str, whole: &'a str) -> &'a str {
    let common = before.chars().zip(whole.chars()).take_while(|(a, b)| a == b);
    let bytes: usize = common.map(|(c, _)| c.len_utf8()).sum();
    &whole[bytes..]
}
