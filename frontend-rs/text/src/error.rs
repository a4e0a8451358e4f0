//! What can go wrong, one enum per part.

use std::path::PathBuf;

use thiserror::Error;

/// Why a tokenizer could not be built or could not do its work.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// The model's files could not be read.
    #[error("cannot read the tokenizer of {path}: {message}")]
    Read {
        /// The file or folder that was asked for.
        path: PathBuf,
        /// What the reader said.
        message: String,
    },
    /// `tokenizer.json` is not a tokenizer this build understands.
    #[error("{path} is not a usable tokenizer: {message}")]
    BadTokenizerJson {
        /// The `tokenizer.json`.
        path: PathBuf,
        /// What the parser said.
        message: String,
    },
    /// A GGUF vocabulary of a kind that is not built.
    #[error("tokenizer.ggml.model '{model}' is not supported (supported: {supported})")]
    UnsupportedModel {
        /// The kind the file names.
        model: String,
        /// The kinds that are built, comma separated.
        supported: &'static str,
    },
    /// A GGUF pre-tokenizer name that is not known.
    #[error("tokenizer.ggml.pre '{name}' is not a known pre-tokenizer (known: {known})")]
    UnknownPreTokenizer {
        /// The name the file gives.
        name: String,
        /// The names that are known, comma separated.
        known: String,
    },
    /// The vocabulary in a GGUF file contradicts itself.
    #[error("bad GGUF vocabulary: {0}")]
    BadVocabulary(String),
    /// The text could not be turned into tokens.
    #[error("cannot encode the text: {0}")]
    Encode(String),
    /// The tokens could not be turned into text.
    #[error("cannot decode the tokens: {0}")]
    Decode(String),
}

/// Why a conversation could not be turned into a prompt.
#[derive(Debug, Error)]
pub enum ChatTemplateError {
    /// The model brings no template and none was given.
    #[error("the model has no chat template; give one with --chat-template, or use /v1/completions")]
    NoTemplate,
    /// The template file of `--chat-template` cannot be read.
    #[error("cannot read the chat template {path}: {message}")]
    Read {
        /// The path that was given.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The template is not valid Jinja.
    #[error("chat template, line {line}: {message}")]
    Syntax {
        /// Line in the template, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template refused the conversation by `raise_exception`.
    #[error("the chat template refuses these messages: {message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// Rendering failed.
    #[error("chat template, line {line}: {message}")]
    Render {
        /// Line in the template, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template ran for too long.
    #[error("the chat template ran past its limit of {limit_steps} steps")]
    OutOfFuel {
        /// The limit, in template instructions.
        limit_steps: u64,
    },
    /// The rendered prompt is too long, or what the template made on the way to it.
    #[error("the chat template made more than its limit of {limit_bytes} bytes of text")]
    OutputTooLong {
        /// The limit, in bytes of UTF-8.
        limit_bytes: usize,
    },
    /// The messages are not what a template takes.
    #[error("{field}: {message}")]
    BadRequest {
        /// The field, as a path: `messages[2].content[0].type`.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}
