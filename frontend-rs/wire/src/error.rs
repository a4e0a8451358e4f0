//! What can be wrong with a message, and where.

use std::fmt;

/// A message, or a part of one, that does not follow the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// Dotted path of the field, outermost first; empty at the top of a message.
    pub field: String,
    /// Byte offset in the main frame where reading stopped.
    pub offset_bytes: usize,
    pub kind: WireErrorKind,
}

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireErrorKind {
    #[error("the message ends early")]
    Truncated,
    #[error("expected {expected}, found {found}")]
    Type {
        expected: &'static str,
        found: &'static str,
    },
    #[error("{given} is out of range for {expected}")]
    Range { expected: &'static str, given: i128 },
    #[error("a string is not UTF-8")]
    Utf8,
    #[error("the array has {given} elements, at least {min} are needed")]
    TooShort { min: usize, given: usize },
    #[error("the array has {given} elements, at most {max} are allowed")]
    TooLong { max: usize, given: usize },
    #[error("nesting is deeper than {limit}")]
    TooDeep { limit: usize },
    #[error("{given} elements in one message, at most {limit} are allowed")]
    TooManyElements { limit: usize, given: usize },
    #[error("a frame has {given} bytes, at most {limit} are allowed")]
    FrameTooLarge { limit: usize, given: usize },
    #[error("the message has {given} frames, at most {limit} are allowed")]
    TooManyFrames { limit: usize, given: usize },
    #[error("the message has no frames")]
    NoFrames,
    #[error("extension type {code} (pickle) is refused")]
    Pickle { code: i8 },
    #[error("unknown extension type {code}")]
    UnknownExt { code: i8 },
    #[error("unknown {what} {given}")]
    UnknownValue { what: &'static str, given: String },
    #[error("{0}")]
    Array(String),
    #[error("{count} bytes follow the end of the message")]
    TrailingBytes { count: usize },
}

impl WireError {
    pub(crate) fn new(offset_bytes: usize, kind: WireErrorKind) -> Self {
        Self {
            field: String::new(),
            offset_bytes,
            kind,
        }
    }

    /// The same error, one struct further out.
    #[must_use]
    pub fn in_field(mut self, name: &str) -> Self {
        if self.field.is_empty() {
            name.clone_into(&mut self.field);
        } else {
            self.field.insert(0, '.');
            self.field.insert_str(0, name);
        }
        self
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(f, "{} (byte {})", self.kind, self.offset_bytes)
        } else {
            write!(f, "{}: {} (byte {})", self.field, self.kind, self.offset_bytes)
        }
    }
}

impl std::error::Error for WireError {}
