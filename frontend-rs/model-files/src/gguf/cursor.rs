//! A bounds-checked reader over the bytes of a file.

use super::GgufError;

/// Reads little-endian values and never past the end.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes from the start of the file.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn left_bytes(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `count` bytes; `what` names them in the error.
    pub(super) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], GgufError> {
        let left_bytes = self.left_bytes();
        let wanted = usize::try_from(count).ok().filter(|&wanted| wanted <= left_bytes);
        let Some(wanted) = wanted else {
            return Err(GgufError::Truncated {
                what: what.to_owned(),
                at: self.at,
                need_bytes: count,
                left_bytes,
            });
        };
        let taken = &self.bytes[self.at..self.at + wanted];
        self.at += wanted;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<u8, GgufError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16, GgufError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of records of at least `min_bytes` each: refused when the rest of the file could not
    /// hold that many, so that nothing is ever sized by a lie.
    pub(super) fn count(&mut self, what: &str, min_bytes: usize) -> Result<usize, GgufError> {
        let at = self.at;
        let value = self.u64(what)?;
        let limit = (self.left_bytes() / min_bytes) as u64;
        if value > limit {
            return Err(GgufError::Limit {
                what: what.to_owned(),
                at,
                value,
                limit,
            });
        }
        Ok(value as usize)
    }

    /// A length-prefixed UTF-8 string of at most `limit` bytes.
    pub(super) fn string(&mut self, what: &str, limit: u64) -> Result<&'a str, GgufError> {
        let at = self.at;
        let length = self.u64(what)?;
        if length > limit {
            return Err(GgufError::Limit {
                what: format!("length of {what}"),
                at,
                value: length,
                limit,
            });
        }
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::Utf8 {
            what: what.to_owned(),
            at,
        })
    }
}
