//! Everything before the tensor data: metadata and tensor records.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::GgufError;
use super::cursor::Cursor;
use super::value::{Array, Value};
use crate::dtype::DType;

/// The first four bytes of every GGUF file.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
const KEY_LIMIT_BYTES: u64 = 65_535;
const TENSOR_NAME_LIMIT_BYTES: u64 = 1_024;
const DIMENSIONS_LIMIT: u32 = 4;
const DEFAULT_ALIGNMENT_BYTES: u64 = 32;
const ALIGNMENT_LIMIT_BYTES: u64 = 1 << 20;
/// Key length, one byte of key, value type, one byte of value.
const METADATA_MIN_BYTES: usize = 8 + 1 + 4 + 1;
/// Name length, one byte of name, dimension count, one dimension, type, offset.
const TENSOR_MIN_BYTES: usize = 8 + 1 + 4 + 8 + 4 + 8;

/// One tensor's record, its byte range checked against the file.
#[derive(Debug, Clone)]
pub(crate) struct GgufTensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Row-major shape: the reverse of the order in the file.
    pub(crate) shape: Vec<usize>,
    /// Bytes from the start of the file.
    pub(crate) range: Range<usize>,
}

/// The parsed header of a GGUF file.
#[derive(Debug)]
pub(crate) struct GgufHeader {
    metadata: HashMap<String, Value>,
    pub(crate) tensors: Vec<GgufTensor>,
}

impl GgufHeader {
    /// Parses `file`, the whole mapped file.
    pub(crate) fn parse(file: &[u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(file);
        read_preamble(&mut cursor)?;
        let tensor_count = cursor.count("tensor count", TENSOR_MIN_BYTES)?;
        let metadata_count = cursor.count("metadata count", METADATA_MIN_BYTES)?;
        let mut header = Self {
            metadata: HashMap::new(),
            tensors: Vec::new(),
        };
        for _ in 0..metadata_count {
            let key = cursor.string("metadata key", KEY_LIMIT_BYTES)?.to_owned();
            let value = Value::read(&mut cursor, &key)?;
            if header.metadata.insert(key.clone(), value).is_some() {
                return Err(GgufError::Duplicate {
                    what: "metadata key",
                    name: key,
                });
            }
        }
        let alignment = header.alignment()?;
        let mut names = HashSet::new();
        for _ in 0..tensor_count {
            let tensor = read_tensor(&mut cursor, alignment)?;
            if !names.insert(tensor.name.clone()) {
                return Err(GgufError::Duplicate {
                    what: "tensor",
                    name: tensor.name,
                });
            }
            header.tensors.push(tensor);
        }
        let data_start = cursor.position().next_multiple_of(alignment as usize);
        header.place_tensors(data_start, file.len())?;
        Ok(header)
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let key = "general.alignment";
        let alignment = self.unsigned(key)?.unwrap_or(DEFAULT_ALIGNMENT_BYTES);
        if alignment.is_power_of_two() && (8..=ALIGNMENT_LIMIT_BYTES).contains(&alignment) {
            return Ok(alignment);
        }
        let problem = format!("{alignment} is not a power of two from 8 to {ALIGNMENT_LIMIT_BYTES}");
        Err(GgufError::BadValue {
            key: key.to_owned(),
            problem,
        })
    }

    /// Turns offsets in the data section into ranges of the file, none beyond it, none overlapping.
    fn place_tensors(&mut self, data_start: usize, file_bytes: usize) -> Result<(), GgufError> {
        for tensor in &mut self.tensors {
            let moved = tensor
                .range
                .start
                .checked_add(data_start)
                .zip(tensor.range.end.checked_add(data_start));
            match moved {
                Some((start, end)) if end <= file_bytes => tensor.range = start..end,
                _ => {
                    let length = tensor.range.len();
                    let offset = tensor.range.start;
                    let problem = format!(
                        "its {length} bytes at offset {offset} of the data section (which starts at byte \
                         {data_start}) end beyond the file's {file_bytes} bytes"
                    );
                    return Err(GgufError::BadTensor {
                        name: tensor.name.clone(),
                        problem,
                    });
                }
            }
        }
        let mut order: Vec<&GgufTensor> = self.tensors.iter().collect();
        order.sort_by_key(|tensor| tensor.range.start);
        for pair in order.windows(2) {
            if pair[0].range.end > pair[1].range.start {
                let problem = format!("its data overlaps that of tensor {:?}", pair[0].name);
                return Err(GgufError::BadTensor {
                    name: pair[1].name.clone(),
                    problem,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn string(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(key, "a string", other)),
        }
    }

    pub(crate) fn unsigned(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(&Value::Unsigned(value)) => Ok(Some(value)),
            Some(&Value::Signed(value)) if value >= 0 => Ok(Some(value.cast_unsigned())),
            Some(other) => Err(wrong(key, "a whole number of at least 0", other)),
        }
    }

    /// A finite float.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>, GgufError> {
        let value = match self.metadata.get(key) {
            None => return Ok(None),
            Some(&Value::Float32(value)) => f64::from(value),
            Some(&Value::Float64(value)) => value,
            Some(other) => return Err(wrong(key, "a float", other)),
        };
        if value.is_finite() {
            return Ok(Some(value));
        }
        Err(GgufError::BadValue {
            key: key.to_owned(),
            problem: format!("{value} is not a finite number"),
        })
    }

    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(&Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(key, "a boolean", other)),
        }
    }

    pub(crate) fn array(&self, key: &str) -> Result<Option<&Array>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(wrong(key, "an array", other)),
        }
    }
}

fn wrong(key: &str, wanted: &str, found: &Value) -> GgufError {
    GgufError::BadValue {
        key: key.to_owned(),
        problem: format!("expected {wanted}, found {}", found.kind()),
    }
}

fn read_preamble(cursor: &mut Cursor<'_>) -> Result<(), GgufError> {
    let magic = cursor.take(4, "magic")?;
    if magic != MAGIC {
        return Err(GgufError::Magic {
            found: magic.to_vec(),
        });
    }
    let version = cursor.u32("version")?;
    if matches!(version, 2 | 3) {
        return Ok(());
    }
    Err(GgufError::Version {
        found: version,
        big_endian: matches!(version.swap_bytes(), 1..=3),
    })
}

/// One record; its range is still relative to the data section.
fn read_tensor(cursor: &mut Cursor<'_>, alignment: u64) -> Result<GgufTensor, GgufError> {
    let name = cursor.string("tensor name", TENSOR_NAME_LIMIT_BYTES)?.to_owned();
    let bad = |problem: String| GgufError::BadTensor {
        name: name.clone(),
        problem,
    };
    let what = format!("tensor {name:?}");
    let at = cursor.position();
    let dimensions = cursor.u32(&what)?;
    if dimensions == 0 || dimensions > DIMENSIONS_LIMIT {
        let what = format!("dimension count of {what}");
        let (value, limit) = (u64::from(dimensions), u64::from(DIMENSIONS_LIMIT));
        return Err(GgufError::Limit {
            what,
            at,
            value,
            limit,
        });
    }
    let mut shape = Vec::new();
    let mut elements: usize = 1;
    for _ in 0..dimensions {
        let length = cursor.u64(&what)?;
        let product = usize::try_from(length)
            .ok()
            .and_then(|length| elements.checked_mul(length));
        elements = product
            .filter(|&product| product > 0 && isize::try_from(product).is_ok())
            .ok_or_else(|| {
                bad(format!(
                    "a dimension of {length} makes its size zero or too large"
                ))
            })?;
        shape.push(length as usize);
    }
    shape.reverse();
    let type_at = cursor.position();
    let type_id = cursor.u32(&what)?;
    let dtype = DType::from_ggml(type_id);
    let dtype = dtype.ok_or_else(|| GgufError::UnknownType {
        what: what.clone(),
        at: type_at,
        value: type_id,
    })?;
    let row = shape[shape.len() - 1];
    if row % dtype.block_elements() != 0 {
        let block = dtype.block_elements();
        return Err(bad(format!(
            "rows of {row} elements are no whole number of {dtype} blocks of {block}"
        )));
    }
    let length = dtype
        .bytes_of(elements)
        .ok_or_else(|| bad(format!("{elements} elements are too many")))?;
    let offset = cursor.u64(&what)?;
    if offset % alignment != 0 {
        return Err(bad(format!(
            "offset {offset} is not a multiple of the alignment {alignment}"
        )));
    }
    let start = usize::try_from(offset).ok();
    let end = start.and_then(|start| start.checked_add(length));
    match start.zip(end) {
        Some((start, end)) => Ok(GgufTensor {
            name,
            dtype,
            shape,
            range: start..end,
        }),
        None => Err(bad(format!("offset {offset} is beyond any file"))),
    }
}
