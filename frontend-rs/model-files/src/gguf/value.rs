//! Metadata values.

use super::GgufError;
use super::cursor::Cursor;

/// Longest string we accept: chat templates are some kilobytes, token texts far less.
const STRING_LIMIT_BYTES: u64 = 16 << 20;
/// Arrays of arrays are legal and nobody writes them deep.
const NESTING_LIMIT: usize = 4;

/// One metadata value. Numbers keep their kind, not their width.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float32(f32),
    Float64(f64),
    Bool(bool),
    String(String),
    Array(Array),
}

/// An array of one element type. The big ones (token texts, scores, types) stay compact.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Array {
    Unsigned(Vec<u64>),
    Signed(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
    Strings(Vec<String>),
    Arrays(Vec<Array>),
}

/// Type numbers of the format.
mod kind {
    pub(super) const U8: u32 = 0;
    pub(super) const I8: u32 = 1;
    pub(super) const U16: u32 = 2;
    pub(super) const I16: u32 = 3;
    pub(super) const U32: u32 = 4;
    pub(super) const I32: u32 = 5;
    pub(super) const F32: u32 = 6;
    pub(super) const BOOL: u32 = 7;
    pub(super) const STRING: u32 = 8;
    pub(super) const ARRAY: u32 = 9;
    pub(super) const U64: u32 = 10;
    pub(super) const I64: u32 = 11;
    pub(super) const F64: u32 = 12;
}

impl Value {
    /// The value of metadata key `key`, its type number first.
    pub(super) fn read(cursor: &mut Cursor<'_>, key: &str) -> Result<Self, GgufError> {
        let what = format!("metadata value {key}");
        let at = cursor.position();
        let kind = cursor.u32(&what)?;
        Ok(match kind {
            kind::U8 | kind::U16 | kind::U32 | kind::U64 => Self::Unsigned(unsigned(cursor, kind, &what)?),
            kind::I8 | kind::I16 | kind::I32 | kind::I64 => Self::Signed(signed(cursor, kind, &what)?),
            kind::F32 => Self::Float32(f32::from_bits(cursor.u32(&what)?)),
            kind::F64 => Self::Float64(f64::from_bits(cursor.u64(&what)?)),
            kind::BOOL => Self::Bool(boolean(cursor, &what)?),
            kind::STRING => Self::String(cursor.string(&what, STRING_LIMIT_BYTES)?.to_owned()),
            kind::ARRAY => Self::Array(Array::read(cursor, &what, 1)?),
            value => return Err(GgufError::UnknownType { what, at, value }),
        })
    }

    /// What the value is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned number",
            Self::Signed(_) => "a signed number",
            Self::Float32(_) | Self::Float64(_) => "a float",
            Self::Bool(_) => "a boolean",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
        }
    }
}

impl Array {
    /// The one number that all elements are, if they are one.
    pub(crate) fn equal_unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(items) => all_equal(items),
            Self::Signed(items) => all_equal(items).and_then(|value| u64::try_from(value).ok()),
            _ => None,
        }
    }

    fn read(cursor: &mut Cursor<'_>, what: &str, depth: usize) -> Result<Self, GgufError> {
        let at = cursor.position();
        let kind = cursor.u32(what)?;
        let length_of = format!("length of {what}");
        let mut many = |min_bytes| cursor.count(&length_of, min_bytes);
        Ok(match kind {
            kind::U8 | kind::U16 | kind::U32 | kind::U64 => {
                let count = many(width(kind))?;
                Self::Unsigned(collect(count, || unsigned(cursor, kind, what))?)
            }
            kind::I8 | kind::I16 | kind::I32 | kind::I64 => {
                let count = many(width(kind))?;
                Self::Signed(collect(count, || signed(cursor, kind, what))?)
            }
            kind::F32 => {
                let count = many(4)?;
                Self::Floats(collect(count, || {
                    Ok(f64::from(f32::from_bits(cursor.u32(what)?)))
                })?)
            }
            kind::F64 => {
                let count = many(8)?;
                Self::Floats(collect(count, || Ok(f64::from_bits(cursor.u64(what)?)))?)
            }
            kind::BOOL => {
                let count = many(1)?;
                Self::Bools(collect(count, || boolean(cursor, what))?)
            }
            kind::STRING => {
                let count = many(8)?;
                Self::Strings(collect(count, || {
                    Ok(cursor.string(what, STRING_LIMIT_BYTES)?.to_owned())
                })?)
            }
            kind::ARRAY if depth < NESTING_LIMIT => {
                let count = many(12)?;
                Self::Arrays(collect(count, || Self::read(cursor, what, depth + 1))?)
            }
            kind::ARRAY => {
                let what = format!("nesting of {what}");
                return Err(GgufError::Limit {
                    what,
                    at,
                    value: depth as u64 + 1,
                    limit: NESTING_LIMIT as u64,
                });
            }
            value => {
                return Err(GgufError::UnknownType {
                    what: what.to_owned(),
                    at,
                    value,
                });
            }
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Unsigned(items) => items.len(),
            Self::Signed(items) => items.len(),
            Self::Floats(items) => items.len(),
            Self::Bools(items) => items.len(),
            Self::Strings(items) => items.len(),
            Self::Arrays(items) => items.len(),
        }
    }
}

fn all_equal<T: Copy + PartialEq>(items: &[T]) -> Option<T> {
    let first = *items.first()?;
    items.iter().all(|item| *item == first).then_some(first)
}

fn collect<T>(count: usize, mut next: impl FnMut() -> Result<T, GgufError>) -> Result<Vec<T>, GgufError> {
    (0..count).map(|_| next()).collect()
}

fn width(kind: u32) -> usize {
    match kind {
        kind::U8 | kind::I8 => 1,
        kind::U16 | kind::I16 => 2,
        kind::U32 | kind::I32 => 4,
        _ => 8,
    }
}

fn unsigned(cursor: &mut Cursor<'_>, kind: u32, what: &str) -> Result<u64, GgufError> {
    Ok(match kind {
        kind::U8 => u64::from(cursor.u8(what)?),
        kind::U16 => u64::from(cursor.u16(what)?),
        kind::U32 => u64::from(cursor.u32(what)?),
        _ => cursor.u64(what)?,
    })
}

fn signed(cursor: &mut Cursor<'_>, kind: u32, what: &str) -> Result<i64, GgufError> {
    Ok(match kind {
        kind::I8 => i64::from(cursor.u8(what)?.cast_signed()),
        kind::I16 => i64::from(cursor.u16(what)?.cast_signed()),
        kind::I32 => i64::from(cursor.u32(what)?.cast_signed()),
        _ => cursor.u64(what)?.cast_signed(),
    })
}

fn boolean(cursor: &mut Cursor<'_>, what: &str) -> Result<bool, GgufError> {
    let at = cursor.position();
    match cursor.u8(what)? {
        value @ (0 | 1) => Ok(value == 1),
        value => Err(GgufError::Limit {
            what: format!("boolean {what}"),
            at,
            value: u64::from(value),
            limit: 1,
        }),
    }
}
