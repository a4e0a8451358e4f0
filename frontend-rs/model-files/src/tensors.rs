//! The table of a model's tensors.

use std::collections::HashMap;
use std::ops::Range;

use crate::dtype::DType;

/// Where a tensor is and what it is.
#[derive(Debug, Clone)]
pub(crate) struct StoredTensor {
    pub(crate) dtype: DType,
    /// Row-major.
    pub(crate) shape: Vec<usize>,
    /// Index of its mapped file.
    pub(crate) file: usize,
    /// Bytes from the start of that file.
    pub(crate) range: Range<usize>,
    /// Heads whose rows are interleaved in the file (GGUF of the llama architecture).
    pub(crate) interleaved_heads: Option<usize>,
}

/// Tensors by name, their order kept.
#[derive(Debug, Default)]
pub(crate) struct TensorTable {
    names: Vec<String>,
    by_name: HashMap<String, StoredTensor>,
}

impl TensorTable {
    /// Adds a tensor; the caller has made sure that the name is new.
    pub(crate) fn insert(&mut self, name: String, tensor: StoredTensor) {
        if self.by_name.insert(name.clone(), tensor).is_none() {
            self.names.push(name);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&StoredTensor> {
        self.by_name.get(name)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.by_name
            .values()
            .map(|tensor| tensor.range.len() as u64)
            .sum()
    }

    /// The name most like `wanted`, if one is much like it.
    pub(crate) fn nearest(&self, wanted: &str) -> Option<String> {
        let scored = self.names.iter().map(|name| (common_ends(name, wanted), name));
        let (score, name) = scored.max_by_key(|(score, _)| *score)?;
        (2 * score >= wanted.len().max(name.len())).then(|| name.clone())
    }
}

/// Length of the common prefix and suffix: tensor names differ in a layer number or a word inside.
fn common_ends(left: &str, right: &str) -> usize {
    let shorter = left.len().min(right.len());
    let prefix = left
        .bytes()
        .zip(right.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let suffix = left
        .bytes()
        .rev()
        .zip(right.bytes().rev())
        .take_while(|(a, b)| a == b)
        .count();
    (prefix + suffix).min(shorter)
}
