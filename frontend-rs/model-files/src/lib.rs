//! Readers of model files: GGUF, safetensors, `config.json`; where the tokenizer data sits.
//!
//! Nothing here touches the network, and nothing trusts a count, an offset or a length it reads: a
//! truncated, lying or absurd file ends in a [`ModelFileError`] that names what is wrong and where.

mod dequant;
mod dtype;
mod error;
mod folder;
mod gguf;
mod mapped;
mod model_files;
mod safetensors_files;
mod tensors;
mod tokenizer_source;

pub use dtype::DType;
pub use error::ModelFileError;
pub use gguf::GgufError;
pub use model_files::{Format, ModelFiles, TensorRef};
pub use tokenizer_source::{GgufTokenizer, TokenizerSource};
