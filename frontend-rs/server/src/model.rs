//! The model as the frontend knows it: names, tokenizer, template, limits. No weights.

use std::path::Path;

use serde_json::{Map, Value};
use vllm_rs_flags::ModelConfig;
use vllm_rs_model_files::ModelFiles;
use vllm_rs_text::{
    ChatRequest, ChatTemplate, ChatTemplateError, TemplateLimits, Tokenizer, TokenizerError,
    resolve_template_argument,
};

use crate::error::ApiError;
use crate::facts::MaxModelLen;
use crate::generate::params::{SamplingDefaults, check_ids};
use crate::limits::{self, CONTEXT_BYTES_PER_TOKEN, Limits, TOKENIZED_BYTES};

/// Why the frontend cannot use a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Files(#[from] vllm_rs_model_files::ModelFileError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] ChatTemplateError),
    #[error("--generation-config {path}: {message}")]
    GenerationConfig { path: String, message: String },
}

/// One served model.
#[derive(Debug)]
pub struct Model {
    /// What clients may call it; the first is the one `/v1/models` and the metrics show. Never empty.
    pub names: Vec<String>,
    /// Where it came from, as the user named it.
    pub root: String,
    pub created_unix_s: u64,
    pub tokenizer: Tokenizer,
    /// `None` where the model has no chat template: then only completions are served.
    pub template: Option<ChatTemplate>,
    /// As configured, until the engine has said.
    pub max_model_len: MaxModelLen,
    /// Width of the output layer: the engine takes no ids beyond it, whatever the tokenizer names.
    pub vocab_size: u32,
    /// Most bytes of text that one token stands for.
    pub longest_token_bytes: usize,
    /// Tokens that end an answer; the first is the primary one.
    pub eos_token_ids: Vec<u32>,
    pub defaults: SamplingDefaults,
}

/// What is rendered into a prompt.
#[derive(Debug)]
pub struct RenderInput {
    pub messages: Vec<Value>,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
    pub kwargs: Map<String, Value>,
}

/// The id or ids under a key of a configuration.
fn ids(config: &Map<String, Value>, key: &str) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match config.get(key) {
        Some(Value::Array(items)) => items.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}

fn generation_config(config: &ModelConfig, files: &ModelFiles) -> Result<Map<String, Value>, ModelError> {
    match config.generation_config.as_str() {
        "auto" => Ok(files.generation_config().clone()),
        "vllm" => Ok(Map::new()),
        folder => {
            let path = Path::new(folder).join("generation_config.json");
            let wrong = |message: String| ModelError::GenerationConfig {
                path: path.display().to_string(),
                message,
            };
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
        }
    }
}

/// The most bytes that any token writes.
pub fn longest_token_bytes(tokenizer: &Tokenizer) -> usize {
    (0..tokenizer.vocab_size() as u32)
        .map(|id| tokenizer.token_text(id).bytes.len())
        .max()
        .unwrap_or(1)
        .max(1)
}

impl Model {
    /// Reads what the frontend needs of the model at `path`. `max_model_len` is refined once the engine has said.
    pub fn open(config: &ModelConfig, path: &Path, limits: &Limits) -> Result<Self, ModelError> {
        let files = ModelFiles::open(path)?;
        let tokenizer = match &config.tokenizer {
            Some(other) => Tokenizer::open(Path::new(other))?,
            None => Tokenizer::from_source(files.tokenizer_source()?)?,
        };
        let given = config
            .chat_template
            .as_deref()
            .map(resolve_template_argument)
            .transpose()?;
        let template_limits = TemplateLimits {
            output_bytes: limits.template_output_bytes,
            ..TemplateLimits::default()
        };
        let template = match ChatTemplate::for_tokenizer(&tokenizer, given.as_deref(), template_limits) {
            Ok(template) => Some(template),
            Err(ChatTemplateError::NoTemplate) => None,
            Err(error) => return Err(error.into()),
        };
        let generation = generation_config(config, &files)?;
        let mut eos_token_ids = tokenizer.eos_token_ids().to_vec();
        eos_token_ids.extend(ids(files.generation_config(), "eos_token_id"));
        eos_token_ids.extend(ids(files.config(), "eos_token_id"));
        let mut seen = std::collections::HashSet::new();
        eos_token_ids.retain(|id| seen.insert(*id));
        let width = files
            .config()
            .get("vocab_size")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let context = files
            .config()
            .get("max_position_embeddings")
            .and_then(Value::as_u64)
            .unwrap_or(2048);
        let mut names = config.served_model_name.clone();
        if names.is_empty() {
            names.push(config.model.clone());
        }
        Ok(Self {
            names,
            root: config.model.clone(),
            created_unix_s: crate::generate::start::unix_seconds() as u64,
            max_model_len: MaxModelLen::from(
                config
                    .max_model_len
                    .unwrap_or(context)
                    .clamp(2, u64::from(u32::MAX)) as u32,
            ),
            vocab_size: if width == 0 {
                tokenizer.vocab_size() as u32
            } else {
                width.min(u64::from(u32::MAX)) as u32
            },
            longest_token_bytes: longest_token_bytes(&tokenizer),
            tokenizer,
            template,
            eos_token_ids,
            defaults: SamplingDefaults::from_generation_config(&Value::Object(generation)),
        })
    }

    /// Token ids of a text.
    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, ApiError> {
        let context_bytes = u64::from(self.max_model_len.get()) * CONTEXT_BYTES_PER_TOKEN;
        let limit = context_bytes.max(TOKENIZED_BYTES);
        limits::check("prompt", "bytes of text", limit, text.len())?;
        self.tokenizer
            .encode(text, add_special_tokens)
            .map_err(|error| ApiError::invalid("prompt", error.to_string()))
    }

    /// Token ids of a prompt. A text that cannot fit into the context is refused before it is tokenised, unless its
    /// beginning may be cut off.
    pub fn encode_prompt(
        &self,
        text: &str,
        add_special_tokens: bool,
        may_truncate: bool,
    ) -> Result<Vec<u32>, ApiError> {
        let most_bytes = (self.max_model_len.get() as usize).saturating_mul(self.longest_token_bytes);
        if !may_truncate && text.len() > most_bytes {
            return Err(ApiError::ContextLength {
                param: "prompt".to_owned(),
                message: format!(
                    "the prompt has {} bytes, but the model's context is {} tokens (--max-model-len) of at most {} \
                     bytes",
                    text.len(),
                    self.max_model_len.get(),
                    self.longest_token_bytes
                ),
            });
        }
        let ids = self.encode(text, add_special_tokens)?;
        check_ids("prompt", ids.iter().copied(), self.vocab_size)?;
        Ok(ids)
    }

    /// Text of token ids.
    pub fn decode(&self, token_ids: &[u32], skip_special_tokens: bool) -> Result<String, ApiError> {
        self.tokenizer
            .decode(token_ids, skip_special_tokens)
            .map_err(|error| ApiError::invalid("tokens", error.to_string()))
    }

    pub fn token_text(&self, id: u32) -> String {
        self.tokenizer.token_text(id).token
    }

    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        self.tokenizer.token_text(id).bytes
    }

    /// The prompt text of a chat.
    pub fn render(&self, input: RenderInput) -> Result<String, ApiError> {
        let template = self
            .template
            .as_ref()
            .ok_or_else(|| template_error(ChatTemplateError::NoTemplate))?;
        let RenderInput {
            messages,
            add_generation_prompt,
            continue_final_message,
            mut kwargs,
        } = input;
        let documents = kwargs.shift_remove("documents");
        let messages = Value::Array(messages);
        let request = ChatRequest {
            messages: &messages,
            tools: None,
            documents: documents.as_ref(),
            add_generation_prompt,
            continue_final_message,
            kwargs: (!kwargs.is_empty()).then_some(&kwargs),
        };
        template.render(&request).map_err(template_error)
    }
}

fn template_error(error: ChatTemplateError) -> ApiError {
    match error {
        ChatTemplateError::BadRequest { field, message } => ApiError::InvalidValue {
            message: format!("{field} {message}"),
            param: field,
        },
        other => ApiError::invalid("messages", other.to_string()),
    }
}
