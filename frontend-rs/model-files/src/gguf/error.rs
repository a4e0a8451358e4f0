//! What can be wrong inside a GGUF file.

/// A malformed GGUF file; offsets are bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it starts with {found:02x?}, not \"GGUF\"")]
    Magic {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// A version that this reader does not know, or a big-endian file.
    #[error("GGUF version {found} is not supported (2 and 3 are){}", if *big_endian { "; the file is big-endian" } else { "" })]
    Version {
        /// The version field.
        found: u32,
        /// Whether the field makes sense with its bytes swapped.
        big_endian: bool,
    },
    /// The file ends inside something.
    #[error("truncated: {what} at byte {at} needs {need_bytes} bytes, {left_bytes} are left")]
    Truncated {
        /// What was being read.
        what: String,
        /// Where it starts.
        at: usize,
        /// Its length.
        need_bytes: u64,
        /// What the file still has.
        left_bytes: usize,
    },
    /// A count or length that the file cannot hold or that no honest file has.
    #[error("{what} at byte {at} is {value}, the limit is {limit}")]
    Limit {
        /// The field.
        what: String,
        /// Where it is.
        at: usize,
        /// Its value.
        value: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// A string that is not UTF-8.
    #[error("{what} at byte {at} is not valid UTF-8")]
    Utf8 {
        /// Which string.
        what: String,
        /// Where it is.
        at: usize,
    },
    /// An unknown type number.
    #[error("{what} at byte {at} has unknown type {value}")]
    UnknownType {
        /// What has the type.
        what: String,
        /// Where the type number is.
        at: usize,
        /// The number.
        value: u32,
    },
    /// The same name twice.
    #[error("{what} {name:?} appears twice")]
    Duplicate {
        /// `metadata key` or `tensor`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A required metadata key is absent.
    #[error("metadata key {key} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A metadata value has the wrong type or an impossible value.
    #[error("metadata key {key}: {problem}")]
    BadValue {
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// A tensor record contradicts itself or the file.
    #[error("tensor {name:?}: {problem}")]
    BadTensor {
        /// The tensor.
        name: String,
        /// What is wrong.
        problem: String,
    },
}
