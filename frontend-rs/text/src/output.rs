//! One answer's way from token ids to text: incremental detokenisation, then stop strings.

use crate::detokenizer::Detokenizer;
use crate::stop::StopMatcher;
use crate::tokenizer::Tokenizer;

/// How an answer's tokens become text.
#[derive(Debug, Clone)]
pub struct OutputOptions {
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// Whether the text keeps the stop string (or stop token) that ended it.
    pub include_stop_str_in_output: bool,
    /// Whether special tokens write nothing.
    pub skip_special_tokens: bool,
    /// Whether special tokens in a row may be separated by spaces.
    pub spaces_between_special_tokens: bool,
    /// Stop strings that are complete within this many tokens are passed over.
    pub min_tokens: usize,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self {
            stop: Vec::new(),
            include_stop_str_in_output: false,
            skip_special_tokens: true,
            spaces_between_special_tokens: true,
            min_tokens: 0,
        }
    }
}

/// What one call added to an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextDelta {
    /// New text, safe to show: no stop string and no unfinished character can begin in it.
    pub text: String,
    /// Index into the stop strings, if one ended the answer.
    pub stop: Option<usize>,
    /// How many of the given tokens were taken; the rest came after the stop string.
    pub tokens_used: usize,
}

/// Turns the token ids of one answer into text.
#[derive(Debug)]
pub struct OutputProcessor {
    detokenizer: Detokenizer,
    matcher: StopMatcher,
    stop: Vec<String>,
    include_stop: bool,
    min_tokens: usize,
    tokens: usize,
    text: String,
    ended: bool,
}

impl OutputProcessor {
    /// A processor for one answer to `prompt_token_ids`.
    pub fn new(tokenizer: &Tokenizer, prompt_token_ids: &[u32], options: OutputOptions) -> Self {
        Self {
            detokenizer: Detokenizer::new(
                tokenizer.clone(),
                prompt_token_ids,
                options.skip_special_tokens,
                options.spaces_between_special_tokens,
            ),
            matcher: StopMatcher::new(&options.stop),
            stop: options.stop,
            include_stop: options.include_stop_str_in_output,
            min_tokens: options.min_tokens,
            tokens: 0,
            text: String::new(),
            ended: false,
        }
    }

    /// Takes the next tokens. After a stop string has been found, tokens are no longer used.
    ///
    /// When the engine ended the answer with a stop token, leave that token out unless
    /// `include_stop_str_in_output` is set; [`push_stopped`](Self::push_stopped) does so.
    pub fn push(&mut self, token_ids: &[u32]) -> TextDelta {
        let mut delta = TextDelta::default();
        let mut piece = String::new();
        for &id in token_ids {
            if self.ended {
                break;
            }
            piece.clear();
            self.detokenizer.push(id, &mut piece);
            self.tokens += 1;
            delta.tokens_used += 1;
            let may_stop = self.tokens > self.min_tokens;
            let stop = self
                .matcher
                .push(&piece, may_stop, &mut delta.text)
                .map(|found| found.index);
            self.take_stop(stop, &mut delta);
        }
        self.text.push_str(&delta.text);
        delta
    }

    /// Takes the last tokens of an answer whose last one is the stop token that ended it.
    pub fn push_stopped(&mut self, token_ids: &[u32]) -> TextDelta {
        let shown = match token_ids.split_last() {
            Some((_, before)) if !self.include_stop => before,
            _ => token_ids,
        };
        let mut delta = self.push(shown);
        if delta.stop.is_none() && !self.ended {
            delta.tokens_used = token_ids.len();
        }
        delta
    }

    /// The answer is over: gives out what was held back. A stop string can still be found here.
    pub fn finish(&mut self) -> TextDelta {
        let mut delta = TextDelta::default();
        if self.ended {
            return delta;
        }
        let mut piece = String::new();
        self.detokenizer.finish(&mut piece);
        let may_stop = self.tokens > self.min_tokens;
        let mut stop = self
            .matcher
            .push(&piece, may_stop, &mut delta.text)
            .map(|found| found.index);
        if stop.is_none() {
            stop = self.matcher.finish(&mut delta.text).map(|found| found.index);
        }
        self.take_stop(stop, &mut delta);
        self.ended = true;
        self.text.push_str(&delta.text);
        delta
    }

    /// The whole text given out so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The stop string with this index.
    pub fn stop_string(&self, index: usize) -> Option<&str> {
        self.stop.get(index).map(String::as_str)
    }

    fn take_stop(&mut self, stop: Option<usize>, delta: &mut TextDelta) {
        let Some(index) = stop else { return };
        self.ended = true;
        delta.stop = Some(index);
        if self.include_stop {
            delta.text.push_str(&self.stop[index]);
        }
    }
}
