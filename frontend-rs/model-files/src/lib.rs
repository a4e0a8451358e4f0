//! Readers of model files: GGUF, safetensors, `config.json`; where the tokenizer data sits.
//!
//! Nothing here touches the network, and nothing trusts a count, an offset or a length it reads.

mod tokenizer_source;

pub use tokenizer_source::{GgufTokenizer, TokenizerSource};
