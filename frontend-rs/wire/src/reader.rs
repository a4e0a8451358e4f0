//! A msgpack reader over borrowed bytes that never panics and never trusts a length.

use bytes::Bytes;
use rmpv::Value;

use crate::error::{WireError, WireErrorKind};
use crate::head::Head;
use crate::limits::Limits;

type Result<T> = std::result::Result<T, WireError>;

/// Extension code of a buffer that travels inline.
pub(crate) const EXT_RAW_VIEW: i8 = 3;
/// Extension codes 1 and 2 are pickle and cloudpickle: code in disguise, never accepted.
const EXT_PICKLE: [i8; 2] = [1, 2];

/// Position in the main frame of a message, with its auxiliary frames at hand.
pub struct Reader<'a> {
    main: &'a [u8],
    frames: &'a [Bytes],
    offset: usize,
    limits: Limits,
    elements_used: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the main frame (`frames[0]`); checks the frame limits.
    pub fn new(frames: &'a [Bytes], limits: Limits) -> Result<Self> {
        let Some(main) = frames.first() else {
            return Err(WireError::new(0, WireErrorKind::NoFrames));
        };
        if frames.len() > limits.max_frames {
            let kind = WireErrorKind::TooManyFrames {
                limit: limits.max_frames,
                given: frames.len(),
            };
            return Err(WireError::new(0, kind));
        }
        if let Some(big) = frames.iter().find(|frame| frame.len() > limits.max_frame_bytes) {
            let kind = WireErrorKind::FrameTooLarge {
                limit: limits.max_frame_bytes,
                given: big.len(),
            };
            return Err(WireError::new(0, kind));
        }
        Ok(Self {
            main,
            frames,
            offset: 0,
            limits,
            elements_used: 0,
        })
    }

    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Goes back to a position taken from [`Self::offset`].
    pub(crate) fn rewind(&mut self, offset: usize) {
        debug_assert!(offset <= self.offset);
        self.offset = offset;
    }

    pub(crate) fn error(&self, kind: WireErrorKind) -> WireError {
        WireError::new(self.offset, kind)
    }

    /// Auxiliary frame `index`; the main frame counts as 0 and is never one.
    pub(crate) fn aux_frame(&self, index: u64) -> Option<&'a Bytes> {
        usize::try_from(index)
            .ok()
            .filter(|&i| i > 0)
            .and_then(|i| self.frames.get(i))
    }

    /// Fails unless the main frame is used up.
    pub fn finish(&self) -> Result<()> {
        match self.main.len() - self.offset {
            0 => Ok(()),
            count => Err(self.error(WireErrorKind::TrailingBytes { count })),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self
            .offset
            .checked_add(count)
            .filter(|&end| end <= self.main.len());
        let Some(end) = end else {
            return Err(self.error(WireErrorKind::Truncated));
        };
        let bytes = &self.main[self.offset..end];
        self.offset = end;
        Ok(bytes)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn len8(&mut self) -> Result<usize> {
        Ok(usize::from(self.take_array::<1>()?[0]))
    }

    fn len16(&mut self) -> Result<usize> {
        Ok(usize::from(u16::from_be_bytes(self.take_array()?)))
    }

    fn len32(&mut self) -> Result<usize> {
        Ok(u32::from_be_bytes(self.take_array()?) as usize)
    }

    fn ext(&mut self, len: usize) -> Result<Head> {
        Ok(Head::Ext(i8::from_be_bytes(self.take_array()?), len))
    }

    fn head(&mut self) -> Result<Head> {
        let byte = self.take_array::<1>()?[0];
        Ok(match byte {
            0x00..=0x7f => Head::Unsigned(u64::from(byte)),
            0x80..=0x8f => Head::Map(usize::from(byte & 0x0f)),
            0x90..=0x9f => Head::Array(usize::from(byte & 0x0f)),
            0xa0..=0xbf => Head::Str(usize::from(byte & 0x1f)),
            0xc0 => Head::Nil,
            0xc1 => Head::Reserved,
            0xc2 => Head::Bool(false),
            0xc3 => Head::Bool(true),
            0xc4 => Head::Bin(self.len8()?),
            0xc5 => Head::Bin(self.len16()?),
            0xc6 => Head::Bin(self.len32()?),
            0xc7 => {
                let len = self.len8()?;
                self.ext(len)?
            }
            0xc8 => {
                let len = self.len16()?;
                self.ext(len)?
            }
            0xc9 => {
                let len = self.len32()?;
                self.ext(len)?
            }
            0xca => Head::F32(f32::from_be_bytes(self.take_array()?)),
            0xcb => Head::F64(f64::from_be_bytes(self.take_array()?)),
            0xcc => Head::Unsigned(u64::from(self.take_array::<1>()?[0])),
            0xcd => Head::Unsigned(u64::from(u16::from_be_bytes(self.take_array()?))),
            0xce => Head::Unsigned(u64::from(u32::from_be_bytes(self.take_array()?))),
            0xcf => Head::Unsigned(u64::from_be_bytes(self.take_array()?)),
            0xd0 => Head::Signed(i64::from(i8::from_be_bytes(self.take_array()?))),
            0xd1 => Head::Signed(i64::from(i16::from_be_bytes(self.take_array()?))),
            0xd2 => Head::Signed(i64::from(i32::from_be_bytes(self.take_array()?))),
            0xd3 => Head::Signed(i64::from_be_bytes(self.take_array()?)),
            0xd4 => self.ext(1)?,
            0xd5 => self.ext(2)?,
            0xd6 => self.ext(4)?,
            0xd7 => self.ext(8)?,
            0xd8 => self.ext(16)?,
            0xd9 => Head::Str(self.len8()?),
            0xda => Head::Str(self.len16()?),
            0xdb => Head::Str(self.len32()?),
            0xdc => Head::Array(self.len16()?),
            0xdd => Head::Array(self.len32()?),
            0xde => Head::Map(self.len16()?),
            0xdf => Head::Map(self.len32()?),
            0xe0..=0xff => Head::Signed(i64::from(i8::from_be_bytes([byte]))),
        })
    }

    /// Reads a head; if it is not what was asked for, the position stays on it.
    fn expect<T>(&mut self, expected: &'static str, pick: impl FnOnce(Head) -> Option<T>) -> Result<T> {
        let start = self.offset;
        let head = self.head()?;
        pick(head).ok_or_else(|| {
            self.offset = start;
            self.error(WireErrorKind::Type {
                expected,
                found: head.name(),
            })
        })
    }

    /// Books `count` elements of at least `min_bytes` each before anyone allocates for them.
    fn claim(&mut self, count: usize, min_bytes: usize) -> Result<usize> {
        let left = self.main.len() - self.offset;
        if count.saturating_mul(min_bytes) > left {
            return Err(self.error(WireErrorKind::Truncated));
        }
        self.elements_used = self.elements_used.saturating_add(count);
        if self.elements_used > self.limits.max_elements {
            let kind = WireErrorKind::TooManyElements {
                limit: self.limits.max_elements,
                given: self.elements_used,
            };
            return Err(self.error(kind));
        }
        Ok(count)
    }

    /// Consumes a nil and says so; anything else stays.
    pub fn nil(&mut self) -> bool {
        let is_nil = self.main.get(self.offset) == Some(&0xc0);
        self.offset += usize::from(is_nil);
        is_nil
    }

    pub fn bool(&mut self) -> Result<bool> {
        self.expect("bool", |head| match head {
            Head::Bool(value) => Some(value),
            _ => None,
        })
    }

    /// Any integer of 64 bits, signed or not.
    pub fn int(&mut self) -> Result<i128> {
        self.expect("int", |head| match head {
            Head::Unsigned(value) => Some(i128::from(value)),
            Head::Signed(value) => Some(i128::from(value)),
            _ => None,
        })
    }

    /// A float; integers are accepted in its place, as msgspec does.
    pub fn float(&mut self) -> Result<f64> {
        self.expect("float", |head| match head {
            Head::F64(value) => Some(value),
            Head::F32(value) => Some(f64::from(value)),
            Head::Unsigned(value) => Some(value as f64),
            Head::Signed(value) => Some(value as f64),
            _ => None,
        })
    }

    pub fn str(&mut self) -> Result<&'a str> {
        let len = self.expect("str", |head| match head {
            Head::Str(len) => Some(len),
            _ => None,
        })?;
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map_err(|_| self.error(WireErrorKind::Utf8))
    }

    pub fn array_len(&mut self) -> Result<usize> {
        let len = self.expect("array", |head| match head {
            Head::Array(len) => Some(len),
            _ => None,
        })?;
        self.claim(len, 1)
    }

    pub fn map_len(&mut self) -> Result<usize> {
        let len = self.expect("map", |head| match head {
            Head::Map(len) => Some(len),
            _ => None,
        })?;
        self.claim(len, 2)
    }

    /// Whether the next value is a string (which stays unread).
    pub(crate) fn next_is_str(&self) -> bool {
        matches!(self.main.get(self.offset), Some(0xa0..=0xbf | 0xd9..=0xdb))
    }

    /// Whether the next value is an extension (which stays unread).
    pub(crate) fn next_is_ext(&self) -> bool {
        matches!(self.main.get(self.offset), Some(0xc7..=0xc9 | 0xd4..=0xd8))
    }

    fn check_ext(&self, code: i8) -> Result<()> {
        match code {
            EXT_RAW_VIEW => Ok(()),
            code if EXT_PICKLE.contains(&code) => Err(self.error(WireErrorKind::Pickle { code })),
            code => Err(self.error(WireErrorKind::UnknownExt { code })),
        }
    }

    /// The bytes of an inline buffer, without a copy.
    pub(crate) fn raw_view(&mut self) -> Result<Bytes> {
        let (code, len) = self.expect("ext", |head| match head {
            Head::Ext(code, len) => Some((code, len)),
            _ => None,
        })?;
        self.check_ext(code)?;
        let start = self.offset;
        self.take(len)?;
        // `new` made sure that frame 0 exists; `main` is its whole content.
        Ok(self.frames[0].slice(start..start + len))
    }

    /// Passes over one value of any kind, pickles included: they are bytes until someone loads them.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_at(0)
    }

    fn skip_at(&mut self, depth: usize) -> Result<()> {
        let children = match self.head()? {
            Head::Reserved => {
                let kind = WireErrorKind::Type {
                    expected: "a value",
                    found: Head::Reserved.name(),
                };
                return Err(self.error(kind));
            }
            Head::Str(len) | Head::Bin(len) | Head::Ext(_, len) => return self.take(len).map(drop),
            Head::Array(len) => self.claim(len, 1)?,
            Head::Map(len) => self.claim(len, 2)? * 2,
            _ => return Ok(()),
        };
        self.check_depth(depth)?;
        for _ in 0..children {
            self.skip_at(depth + 1)?;
        }
        Ok(())
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        let limit = self.limits.max_depth;
        if depth >= limit {
            Err(self.error(WireErrorKind::TooDeep { limit }))
        } else {
            Ok(())
        }
    }

    /// One opaque value. Extension types other than inline buffers are refused.
    pub fn value(&mut self) -> Result<Value> {
        self.value_at(0)
    }

    fn value_at(&mut self, depth: usize) -> Result<Value> {
        let start = self.offset;
        Ok(match self.head()? {
            Head::Nil => Value::Nil,
            Head::Bool(value) => Value::Boolean(value),
            Head::Unsigned(value) => Value::from(value),
            Head::Signed(value) => Value::from(value),
            Head::F32(value) => Value::F32(value),
            Head::F64(value) => Value::F64(value),
            Head::Str(_) => {
                self.offset = start;
                Value::from(self.str()?)
            }
            Head::Bin(len) => Value::Binary(self.take(len)?.to_vec()),
            Head::Ext(code, len) => {
                self.check_ext(code)?;
                Value::Ext(code, self.take(len)?.to_vec())
            }
            Head::Array(len) => {
                let len = self.claim(len, 1)?;
                self.check_depth(depth)?;
                Value::Array(
                    (0..len)
                        .map(|_| self.value_at(depth + 1))
                        .collect::<Result<_>>()?,
                )
            }
            Head::Map(len) => {
                let len = self.claim(len, 2)?;
                self.check_depth(depth)?;
                let mut pairs = Vec::new();
                for _ in 0..len {
                    pairs.push((self.value_at(depth + 1)?, self.value_at(depth + 1)?));
                }
                Value::Map(pairs)
            }
            Head::Reserved => {
                let kind = WireErrorKind::Type {
                    expected: "a value",
                    found: Head::Reserved.name(),
                };
                return Err(self.error(kind));
            }
        })
    }
}
