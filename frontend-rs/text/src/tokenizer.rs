//! The tokenizer: text to token ids and back, from `tokenizer.json` or from GGUF metadata.

mod gguf;
mod hf_json;
mod pieces;
mod pre_tokenizers;
mod spm_merges;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokenizers::Tokenizer as HfTokenizer;
use vllm_rs_model_files::{GgufTokenizer, TokenizerSource};

pub(crate) use self::pieces::{DecodeKind, PieceTable, decode_window};
use crate::detokenizer::Detokenizer;
use crate::error::TokenizerError;

/// A model's tokenizer. Cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hf: HfTokenizer,
    pieces: PieceTable,
    bos_token_id: Option<u32>,
    eos_token_ids: Vec<u32>,
    /// `bos_token`, `eos_token`, ... as chat templates see them.
    special_variables: Map<String, Value>,
    /// Chat templates the model brings, by name; the usual one is `default`.
    chat_templates: Vec<(String, String)>,
}

/// One token as the log-probability fields of the API show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenText {
    /// The token's text; a piece of a character shows as U+FFFD.
    pub token: String,
    /// The bytes it writes.
    pub bytes: Vec<u8>,
}

impl Tokenizer {
    /// Opens the tokenizer of the model at `path`: a folder with `tokenizer.json`, or a `.gguf` file.
    pub fn open(path: &Path) -> Result<Self, TokenizerError> {
        let read = |message: String| TokenizerError::Read {
            path: path.to_owned(),
            message,
        };
        let tokenizer_json = path.join("tokenizer.json");
        if tokenizer_json.is_file() && !path.join("config.json").exists() {
            // A folder with a tokenizer and no model, as `--tokenizer` may name.
            let config = std::fs::read_to_string(path.join("tokenizer_config.json"));
            let config = config.as_deref().map_or(Ok(Value::Null), serde_json::from_str);
            let config = config.map_err(|error| read(format!("tokenizer_config.json: {error}")))?;
            return Self::from_hf_json(&tokenizer_json, &config, None);
        }
        Self::from_source(TokenizerSource::open(path).map_err(|error| read(error.to_string()))?)
    }

    /// Builds the tokenizer from what the model-file reader found.
    pub fn from_source(source: TokenizerSource) -> Result<Self, TokenizerError> {
        match source {
            TokenizerSource::HfJson {
                tokenizer_json,
                config,
                chat_template,
            } => Self::from_hf_json(&tokenizer_json, &config, chat_template),
            TokenizerSource::Gguf(source) => Self::from_gguf(&source),
        }
    }

    fn from_hf_json(
        tokenizer_json: &Path,
        config: &Value,
        chat_template: Option<String>,
    ) -> Result<Self, TokenizerError> {
        let hf = hf_json::build(tokenizer_json, config)?;
        let mut special_variables = Map::new();
        for role in hf_json::ROLES {
            if let Some(text) = config.get(role).and_then(hf_json::token_content) {
                special_variables.insert(role.to_owned(), Value::from(text));
            }
        }
        let id_of = |role: &str| {
            special_variables
                .get(role)
                .and_then(Value::as_str)
                .and_then(|text| hf.token_to_id(text))
        };
        let bos_token_id = id_of("bos_token");
        let eos_token_ids = id_of("eos_token").into_iter().collect();
        let mut chat_templates = crate::chat::templates_in_config(config);
        if let Some(folder) = tokenizer_json.parent() {
            chat_templates.extend(crate::chat::templates_in_folder(folder));
        }
        if let Some(text) = chat_template {
            chat_templates.push(("default".to_owned(), text));
        }
        Ok(Self::assemble(
            hf,
            bos_token_id,
            eos_token_ids,
            special_variables,
            chat_templates,
        ))
    }

    fn from_gguf(source: &GgufTokenizer) -> Result<Self, TokenizerError> {
        let hf = gguf::build(source)?;
        let mut special_variables = Map::new();
        let roles = [
            ("bos_token", source.bos_token_id),
            ("eos_token", source.eos_token_id),
            ("unk_token", source.unk_token_id),
            ("pad_token", source.pad_token_id),
        ];
        for (role, id) in roles {
            if let Some(text) = id.and_then(|id| source.tokens.get(id as usize)) {
                special_variables.insert(role.to_owned(), Value::from(text.as_str()));
            }
        }
        let mut eos_token_ids: Vec<u32> = [source.eos_token_id, source.eot_token_id]
            .into_iter()
            .flatten()
            .collect();
        eos_token_ids.dedup();
        let templates = source
            .chat_template
            .iter()
            .map(|text| ("default".to_owned(), text.clone()));
        Ok(Self::assemble(
            hf,
            source.bos_token_id,
            eos_token_ids,
            special_variables,
            templates.collect(),
        ))
    }

    fn assemble(
        hf: HfTokenizer,
        bos_token_id: Option<u32>,
        eos_token_ids: Vec<u32>,
        special_variables: Map<String, Value>,
        chat_templates: Vec<(String, String)>,
    ) -> Self {
        let pieces = PieceTable::new(&hf);
        let inner = Inner {
            hf,
            pieces,
            bos_token_id,
            eos_token_ids,
            special_variables,
            chat_templates,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Token ids of `text`. Special tokens written out in the text are recognised, as
    /// `transformers` does; `add_special_tokens` puts the model's begin/end tokens around it.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, TokenizerError> {
        let encoding = self.inner.hf.encode_fast(text, add_special_tokens);
        let encoding = encoding.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes several texts, in parallel where that pays.
    pub fn encode_batch(
        &self,
        texts: Vec<String>,
        add_special_tokens: bool,
    ) -> Result<Vec<Vec<u32>>, TokenizerError> {
        let encodings = self.inner.hf.encode_batch_fast(texts, add_special_tokens);
        let encodings = encodings.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        Ok(encodings
            .iter()
            .map(|encoding| encoding.get_ids().to_vec())
            .collect())
    }

    /// The text of `token_ids` as a whole. Ids outside the vocabulary write nothing.
    pub fn decode(&self, token_ids: &[u32], skip_special_tokens: bool) -> Result<String, TokenizerError> {
        if self.pieces().kind() == DecodeKind::Windowed {
            let text = self.inner.hf.decode(token_ids, skip_special_tokens);
            return text.map_err(|error| TokenizerError::Decode(error.to_string()));
        }
        let mut text = String::new();
        let mut detokenizer = Detokenizer::new(self.clone(), &[], skip_special_tokens, true);
        for &id in token_ids {
            detokenizer.push(id, &mut text);
        }
        detokenizer.finish(&mut text);
        Ok(text)
    }

    /// One token by itself, as log-probability fields show it.
    pub fn token_text(&self, token_id: u32) -> TokenText {
        let bytes = self.pieces().piece(token_id).to_vec();
        TokenText {
            token: String::from_utf8_lossy(&bytes).into_owned(),
            bytes,
        }
    }

    /// The vocabulary's own spelling of a token (`Ġhello`, `▁hello`, `<0x0A>`).
    pub fn id_to_token(&self, token_id: u32) -> Option<String> {
        self.inner.hf.id_to_token(token_id)
    }

    /// The id of a token in the vocabulary's own spelling.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.hf.token_to_id(token)
    }

    /// One past the largest token id. A model's output layer may be wider than this.
    pub fn vocab_size(&self) -> usize {
        self.pieces().len()
    }

    /// The begin-of-sequence token.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.inner.bos_token_id
    }

    /// The tokens that end an answer, as far as the tokenizer knows (a model's
    /// `generation_config.json` may name more).
    pub fn eos_token_ids(&self) -> &[u32] {
        &self.inner.eos_token_ids
    }

    /// Whether `token_id` is left out of text when special tokens are skipped.
    pub fn is_special(&self, token_id: u32) -> bool {
        self.pieces().is_special(token_id)
    }

    /// All special token ids, ascending.
    pub fn special_token_ids(&self) -> Vec<u32> {
        (0..self.vocab_size() as u32)
            .filter(|&id| self.pieces().is_special(id))
            .collect()
    }

    /// Whether some token has this id.
    pub fn contains(&self, token_id: u32) -> bool {
        self.pieces().is_present(token_id)
    }

    /// `bos_token`, `eos_token`, ... as chat templates see them.
    pub fn special_variables(&self) -> &Map<String, Value> {
        &self.inner.special_variables
    }

    /// The chat template of this name that came with the model; the usual name is `default`.
    pub fn chat_template(&self, name: &str) -> Option<&str> {
        // The last one given wins: a separate file over an entry in a configuration.
        let found = self
            .inner
            .chat_templates
            .iter()
            .rev()
            .find(|(known, _)| known == name);
        found.map(|(_, source)| source.as_str())
    }

    pub(crate) fn pieces(&self) -> &PieceTable {
        &self.inner.pieces
    }

    pub(crate) fn hf(&self) -> &HfTokenizer {
        &self.inner.hf
    }
}
