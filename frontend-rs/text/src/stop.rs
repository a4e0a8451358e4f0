//! Stop strings in a stream: which text may be shown, and where the text ends.

/// A stop string that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopMatch {
    /// Index into the list of stop strings.
    pub index: usize,
    /// Byte where the stop string begins, counted from the first text fed.
    pub start_byte: usize,
    /// Byte just past it.
    pub end_byte: usize,
}

/// One stop string with its Knuth-Morris-Pratt automaton, so that each byte of text costs O(1).
#[derive(Debug)]
struct Pattern {
    bytes: Vec<u8>,
    /// `border[i]`: length of the longest proper border of `bytes[..=i]`.
    border: Vec<usize>,
    /// How many bytes of the pattern the text's end matches.
    matched: usize,
}

impl Pattern {
    fn new(text: &str) -> Self {
        let bytes = text.as_bytes().to_vec();
        let mut border = vec![0; bytes.len()];
        let mut length = 0;
        for i in 1..bytes.len() {
            while length > 0 && bytes[i] != bytes[length] {
                length = border[length - 1];
            }
            if bytes[i] == bytes[length] {
                length += 1;
            }
            border[i] = length;
        }
        Self {
            bytes,
            border,
            matched: 0,
        }
    }

    /// Takes one byte; true when the pattern ends with it.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && byte != self.bytes[self.matched] {
            self.matched = self.border[self.matched - 1];
        }
        if byte == self.bytes[self.matched] {
            self.matched += 1;
        }
        if self.matched < self.bytes.len() {
            return false;
        }
        self.matched = self.border[self.matched - 1];
        true
    }
}

/// Finds the first stop string in text that arrives in pieces.
///
/// The match that *begins* first wins; of two that begin together, the one that ends first. Text is
/// held back only while it may still become part of a match, so any chunking of the same text gives
/// the same result as one scan of the whole.
#[derive(Debug)]
pub struct StopMatcher {
    patterns: Vec<Pattern>,
    /// Text not yet released; begins at byte `held_from`.
    held: String,
    held_from: usize,
    fed_bytes: usize,
    best: Option<StopMatch>,
    decided: bool,
}

impl StopMatcher {
    /// A matcher for these stop strings; empty strings never match.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Self {
        Self {
            patterns: stops.iter().map(|s| Pattern::new(s.as_ref())).collect(),
            held: String::new(),
            held_from: 0,
            fed_bytes: 0,
            best: None,
            decided: false,
        }
    }

    /// Takes more text and appends to `released` what can no longer belong to a stop string.
    ///
    /// With `may_stop` false a stop string that ends inside `text` is passed over (the minimum
    /// number of tokens is not reached yet); one that only begins there still counts later.
    /// Returns the match once it is certain; then `released` holds everything before the match, and
    /// later calls do nothing.
    pub fn push(&mut self, text: &str, may_stop: bool, released: &mut String) -> Option<&StopMatch> {
        if self.decided {
            return self.best.as_ref();
        }
        if self.patterns.is_empty() {
            self.fed_bytes += text.len();
            self.held_from = self.fed_bytes;
            released.push_str(text);
            return None;
        }
        self.held.push_str(text);
        for &byte in text.as_bytes() {
            self.fed_bytes += 1;
            self.step(byte, may_stop);
            if self.best.is_some() && self.earliest_partial() >= self.best_start() {
                return self.decide(released);
            }
        }
        let keep_from = self.earliest_partial().min(self.best_start());
        self.release(keep_from, released);
        None
    }

    /// The text is over: releases what was held back, or ends it at the match.
    pub fn finish(&mut self, released: &mut String) -> Option<&StopMatch> {
        if self.decided {
            return self.best.as_ref();
        }
        if self.best.is_some() {
            return self.decide(released);
        }
        self.release(self.fed_bytes, released);
        None
    }

    fn step(&mut self, byte: u8, may_stop: bool) {
        for (index, pattern) in self.patterns.iter_mut().enumerate() {
            if pattern.bytes.is_empty() || !pattern.step(byte) || !may_stop {
                continue;
            }
            let start_byte = self.fed_bytes - pattern.bytes.len();
            if self.best.as_ref().is_none_or(|best| start_byte < best.start_byte) {
                self.best = Some(StopMatch {
                    index,
                    start_byte,
                    end_byte: self.fed_bytes,
                });
            }
        }
    }

    /// Where the first stop string that may still be completed begins.
    fn earliest_partial(&self) -> usize {
        let longest = self.patterns.iter().map(|p| p.matched).max().unwrap_or(0);
        self.fed_bytes - longest
    }

    fn best_start(&self) -> usize {
        self.best.as_ref().map_or(usize::MAX, |best| best.start_byte)
    }

    fn decide(&mut self, released: &mut String) -> Option<&StopMatch> {
        self.decided = true;
        self.release(self.best_start(), released);
        self.held.clear();
        self.best.as_ref()
    }

    /// Gives out the held text before byte `until`, which always is a character boundary: a match
    /// begins with a leading byte, and text arrives in whole characters.
    fn release(&mut self, until: usize, released: &mut String) {
        let count = until
            .min(self.fed_bytes)
            .saturating_sub(self.held_from)
            .min(self.held.len());
        released.push_str(&self.held[..count]);
        self.held.drain(..count);
        self.held_from += count;
    }
}

#[cfg(test)]
#[path = "stop_tests.rs"]
mod tests;
