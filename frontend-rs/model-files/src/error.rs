//! What can be wrong with model files. Every variant names the file and what in it is at fault.

use std::path::PathBuf;

use crate::gguf::GgufError;

/// The result of reading model files.
pub(crate) type Result<T, E = ModelFileError> = std::result::Result<T, E>;

/// An error in model files or in a request made of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// The path does not exist.
    #[error("{}: no such file or folder", path.display())]
    NotFound {
        /// The path asked for.
        path: PathBuf,
    },
    /// The operating system refused to read the file.
    #[error("{}: cannot read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// A single file that is not a GGUF file.
    #[error(
        "{}: not a model: give a folder with config.json and *.safetensors, or a .gguf file",
        path.display()
    )]
    NotAModel {
        /// The path asked for.
        path: PathBuf,
    },
    /// A folder that has neither config.json nor a GGUF file.
    #[error("{}: the folder has no config.json and no .gguf file", path.display())]
    NoConfig {
        /// The folder.
        path: PathBuf,
    },
    /// A folder with several GGUF files and no config.json.
    #[error("{}: several GGUF files ({}): give the path of one of them", path.display(), names.join(", "))]
    SeveralGguf {
        /// The folder.
        path: PathBuf,
        /// The GGUF files in it.
        names: Vec<String>,
    },
    /// A folder without weights in a format we read.
    #[error("{}: no weights: expected model.safetensors, or shards with model.safetensors.index.json", path.display())]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// Weights only in pickle files, which can run code when loaded.
    #[error(
        "{}: the weights are in {name}, a pickle file, which may run code when loaded and is refused; convert \
         it where you trust it: python -c \"from transformers import AutoModelForCausalLM as M; \
         M.from_pretrained('{}').save_pretrained('converted', safe_serialization=True)\"",
        path.display(), path.display()
    )]
    PickleOnly {
        /// The folder.
        path: PathBuf,
        /// The first pickle file found.
        name: String,
    },
    /// A shard named by the index is not there.
    #[error("{}: names shard {shard} (tensor {tensor}), which is missing from the folder", index.display())]
    MissingShard {
        /// The index file.
        index: PathBuf,
        /// The missing file's name.
        shard: String,
        /// A tensor that lives in it.
        tensor: String,
    },
    /// The index says that a shard holds a tensor, and it does not.
    #[error("{}: says that tensor {tensor} is in {shard}, which does not hold it", index.display())]
    NotInShard {
        /// The index file.
        index: PathBuf,
        /// The shard's file name.
        shard: String,
        /// The tensor's name.
        tensor: String,
    },
    /// Shards without their index.
    #[error("{}: {count} *.safetensors files but no model.safetensors.index.json to say what is in them", path.display())]
    NoIndex {
        /// The folder.
        path: PathBuf,
        /// How many files.
        count: usize,
    },
    /// A JSON file that does not parse, or whose content has the wrong shape.
    #[error("{}: {problem}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column where it is syntax.
        problem: String,
    },
    /// A file larger than any honest file of its kind.
    #[error("{}: {size_bytes} bytes, the limit for this kind of file is {limit_bytes}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The most we read.
        limit_bytes: u64,
    },
    /// A malformed GGUF file.
    #[error("{}: {source}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        source: GgufError,
    },
    /// A malformed safetensors file.
    #[error("{}: not a valid safetensors file: {problem}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        problem: String,
    },
    /// No tokenizer that we can read.
    #[error("{}: {problem}", path.display())]
    NoTokenizer {
        /// The folder or file.
        path: PathBuf,
        /// What was looked for, and the way out.
        problem: String,
    },
    /// A tensor was asked for that the model does not have.
    #[error("tensor {name} is not in {}{}", path.display(), hint(near.as_deref()))]
    MissingTensor {
        /// The model.
        path: PathBuf,
        /// The name asked for.
        name: String,
        /// A similar name that exists.
        near: Option<String>,
    },
    /// A tensor has not the shape that the model's configuration asks for.
    #[error("tensor {name} has shape {found:?} in {}, expected {expected:?}", path.display())]
    Shape {
        /// The model.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Shape in the file, row-major.
        found: Vec<usize>,
        /// Shape asked for.
        expected: Vec<usize>,
    },
    /// The caller's buffer does not fit the tensor.
    #[error("tensor {name} has {expected} elements, the output buffer has {given}")]
    OutputSize {
        /// The tensor.
        name: String,
        /// Elements of the tensor.
        expected: usize,
        /// Elements of the buffer.
        given: usize,
    },
    /// A tensor's type has no conversion to floating point here.
    #[error("tensor {name} has type {dtype}, which cannot be converted to {target}")]
    UnsupportedType {
        /// The tensor.
        name: String,
        /// Its type.
        dtype: &'static str,
        /// The type wanted.
        target: &'static str,
    },
}

fn hint(near: Option<&str>) -> String {
    near.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}
