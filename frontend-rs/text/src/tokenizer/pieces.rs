//! What each token id writes: a flat table, so that decoding a token is a slice of bytes.

use serde_json::Value;
use tokenizers::Decoder;
use tokenizers::Tokenizer as HfTokenizer;

/// How a tokenizer's pieces become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeKind {
    /// Byte-level BPE: every piece is bytes; the text is their concatenation, read as UTF-8.
    ByteLevel,
    /// `SentencePiece` with byte tokens: pieces are text, and each run of byte tokens is read as
    /// UTF-8 as a whole. At most `strip_left` leading spaces are dropped from the text.
    ByteFallback {
        /// Spaces to drop at the very start.
        strip_left: usize,
    },
    /// Anything else: the decoder is asked again for a short window of tokens.
    Windowed,
}

const PRESENT: u8 = 1;
const SPECIAL: u8 = 2;
const BYTE: u8 = 4;
const ADDED: u8 = 8;

/// The pieces of all token ids. Ids without a token write nothing.
#[derive(Debug)]
pub(crate) struct PieceTable {
    kind: DecodeKind,
    /// Pieces of all ids, one after the other.
    data: Vec<u8>,
    /// `ends[id]` is where the piece of `id` ends in `data`.
    ends: Vec<u32>,
    flags: Vec<u8>,
}

impl PieceTable {
    /// Reads the vocabulary of `tokenizer` once.
    pub(crate) fn new(tokenizer: &HfTokenizer) -> Self {
        let kind = decode_kind(tokenizer);
        let added = tokenizer.get_added_tokens_decoder();
        let largest = tokenizer
            .get_vocab(true)
            .into_values()
            .max()
            .map_or(0, |id| id as usize + 1);
        let count = largest.max(tokenizer.get_vocab_size(true));
        let mut table = Self {
            kind,
            data: Vec::new(),
            ends: Vec::with_capacity(count),
            flags: Vec::with_capacity(count),
        };
        let byte_of_char = byte_level_alphabet();
        let special = tokenizer.get_added_vocabulary();
        for id in 0..count as u32 {
            let mut flags = 0;
            // By id, because a text may be listed under two ids.
            if let Some(token) = &tokenizer.id_to_token(id) {
                flags |= PRESENT;
                // The special set is one of texts, not of ids; so it is asked for the text.
                flags |= if special.is_special_token(token) {
                    SPECIAL
                } else {
                    0
                };
                flags |= if added.contains_key(&id) { ADDED } else { 0 };
                flags |= table.append(token, &byte_of_char);
            }
            table.flags.push(flags);
            table.ends.push(table.data.len() as u32);
        }
        table
    }

    /// Appends the piece of one token; returns its flags.
    fn append(&mut self, token: &str, byte_of_char: &[Option<u8>]) -> u8 {
        match self.kind {
            DecodeKind::ByteLevel => {
                let start = self.data.len();
                for c in token.chars() {
                    let Some(byte) = byte_of_char.get(c as usize).copied().flatten() else {
                        // Not written in the byte alphabet: an added token, kept as its own text.
                        self.data.truncate(start);
                        self.data.extend_from_slice(token.as_bytes());
                        return 0;
                    };
                    self.data.push(byte);
                }
                0
            }
            DecodeKind::ByteFallback { .. } => {
                if let Some(byte) = byte_token(token) {
                    self.data.push(byte);
                    return BYTE;
                }
                self.data.extend_from_slice(token.replace('▁', " ").as_bytes());
                0
            }
            DecodeKind::Windowed => {
                self.data.extend_from_slice(token.as_bytes());
                0
            }
        }
    }

    pub(crate) fn kind(&self) -> DecodeKind {
        self.kind
    }

    /// One past the largest token id.
    pub(crate) fn len(&self) -> usize {
        self.flags.len()
    }

    /// The bytes `id` writes, without regard to its neighbours; empty for an unknown id.
    pub(crate) fn piece(&self, id: u32) -> &[u8] {
        let Some(&end) = self.ends.get(id as usize) else {
            return &[];
        };
        let start = match id {
            0 => 0,
            _ => self.ends[id as usize - 1],
        };
        &self.data[start as usize..end as usize]
    }

    fn has(&self, id: u32, flag: u8) -> bool {
        self.flags.get(id as usize).is_some_and(|flags| flags & flag != 0)
    }

    pub(crate) fn is_present(&self, id: u32) -> bool {
        self.has(id, PRESENT)
    }

    pub(crate) fn is_special(&self, id: u32) -> bool {
        self.has(id, SPECIAL)
    }

    /// Whether the token is one raw byte of a byte-fallback vocabulary.
    pub(crate) fn is_byte(&self, id: u32) -> bool {
        self.has(id, BYTE)
    }

    pub(crate) fn is_added(&self, id: u32) -> bool {
        self.has(id, ADDED)
    }
}

/// The byte of a token spelled `<0x41>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// `alphabet[char]` is the byte that byte-level BPE writes as that character. Printable Latin-1
/// characters stand for themselves; the other bytes take the characters from U+0100 on, in order.
pub(crate) fn byte_level_alphabet() -> Vec<Option<u8>> {
    let mut alphabet = vec![None; 0x100];
    for byte in 0..=255_u8 {
        if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            alphabet[byte as usize] = Some(byte);
        }
    }
    for byte in 0..=255_u8 {
        if alphabet[byte as usize].is_none() {
            alphabet.push(Some(byte));
        }
    }
    alphabet
}

/// Recognises the two decoders that need no window, by their published shape.
fn decode_kind(tokenizer: &HfTokenizer) -> DecodeKind {
    let Some(decoder) = tokenizer.get_decoder() else {
        return DecodeKind::Windowed;
    };
    let Ok(shape) = serde_json::to_value(decoder) else {
        return DecodeKind::Windowed;
    };
    if shape["type"] == "ByteLevel" {
        return DecodeKind::ByteLevel;
    }
    let Some(steps) = shape["decoders"].as_array() else {
        return DecodeKind::Windowed;
    };
    let named = |step: &Value, name: &str| step["type"] == name;
    let [replace, fallback, fuse, rest @ ..] = steps.as_slice() else {
        return DecodeKind::Windowed;
    };
    let marks_become_spaces =
        named(replace, "Replace") && replace["pattern"]["String"] == "▁" && replace["content"] == " ";
    if !marks_become_spaces || !named(fallback, "ByteFallback") || !named(fuse, "Fuse") {
        return DecodeKind::Windowed;
    }
    match rest {
        [] => DecodeKind::ByteFallback { strip_left: 0 },
        [strip] if named(strip, "Strip") && strip["content"] == " " && strip["stop"] == 0 => {
            match strip["start"].as_u64().and_then(|n| usize::try_from(n).ok()) {
                Some(strip_left) => DecodeKind::ByteFallback { strip_left },
                None => DecodeKind::Windowed,
            }
        }
        _ => DecodeKind::Windowed,
    }
}

/// One window of tokens through the tokenizer's own decoder.
pub(crate) fn decode_window(tokenizer: &HfTokenizer, tokens: Vec<String>) -> Option<String> {
    match tokenizer.get_decoder() {
        Some(decoder) => decoder.decode(tokens).ok(),
        None => Some(tokens.join(" ")),
    }
}
