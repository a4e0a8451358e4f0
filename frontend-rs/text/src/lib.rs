//! Text in and text out: the tokenizer, the chat template, and what turns streamed token ids back
//! into text (incremental detokenisation, stop strings).
//!
//! Nothing here does I/O beyond reading a tokenizer's files once. Every type is `Send + Sync`;
//! [`Tokenizer`] and [`ChatTemplate`] are handles that clone for the price of a reference count.

mod chat;
mod detokenizer;
mod error;
mod output;
mod stop;
mod tokenizer;

pub use chat::{ChatRequest, ChatTemplate, ContentFormat, TemplateLimits, resolve_template_argument};
pub use detokenizer::Detokenizer;
pub use error::{ChatTemplateError, TokenizerError};
pub use output::{OutputOptions, OutputProcessor, TextDelta};
pub use stop::{StopMatch, StopMatcher};
pub use tokenizer::{TokenText, Tokenizer};
