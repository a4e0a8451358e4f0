//! Where a model's tokenizer comes from: the raw material, not yet a tokenizer.

use std::path::PathBuf;

use serde_json::Value;

/// The tokenizer data of one model, as found on disk.
#[derive(Debug, Clone)]
pub enum TokenizerSource {
    /// A Hugging Face folder with a `tokenizer.json`.
    HfJson {
        /// Path of `tokenizer.json`.
        tokenizer_json: PathBuf,
        /// Content of `tokenizer_config.json`; an empty object when the file is absent.
        config: Value,
        /// `chat_template.jinja` if present, else the string in `tokenizer_config.json`.
        chat_template: Option<String>,
    },
    /// The vocabulary inside a GGUF file.
    Gguf(Box<GgufTokenizer>),
}

/// The `tokenizer.*` metadata of a GGUF file. Lists are parallel to `tokens` and have its length,
/// or are empty when the file has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufTokenizer {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE), `llama` (`SentencePiece`), `bert`, ...
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer, e.g. `smollm`.
    pub pre: Option<String>,
    /// Token texts by id, in the file's own alphabet (byte-level for `gpt2`, `▁` for `llama`).
    pub tokens: Vec<String>,
    /// `SentencePiece` scores by id.
    pub scores: Vec<f32>,
    /// Kind by id: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// BPE merges in order of rank, each `left right`.
    pub merges: Vec<String>,
    /// Beginning-of-sequence token.
    pub bos_token_id: Option<u32>,
    /// End-of-sequence token.
    pub eos_token_id: Option<u32>,
    /// End-of-turn token, where the file names one.
    pub eot_token_id: Option<u32>,
    /// Unknown token.
    pub unk_token_id: Option<u32>,
    /// Padding token.
    pub pad_token_id: Option<u32>,
    /// Whether encoding starts with the beginning-of-sequence token.
    pub add_bos_token: Option<bool>,
    /// Whether encoding ends with the end-of-sequence token.
    pub add_eos_token: Option<bool>,
    /// Whether a space is put before the text (`SentencePiece`).
    pub add_space_prefix: Option<bool>,
    /// The default `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}
