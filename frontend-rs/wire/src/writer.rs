//! A msgpack writer that puts large buffers into auxiliary frames.

use bytes::Bytes;
use rmpv::Value;

use crate::ZERO_COPY_THRESHOLD_BYTES;
use crate::reader::EXT_RAW_VIEW;

/// Main frame under construction, and the auxiliary frames met on the way.
#[derive(Debug, Default)]
pub struct Writer {
    main: Vec<u8>,
    aux: Vec<Bytes>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames of the message: the main one first.
    pub fn into_frames(self) -> Vec<Bytes> {
        let mut frames = Vec::with_capacity(1 + self.aux.len());
        frames.push(Bytes::from(self.main));
        frames.extend(self.aux);
        frames
    }

    pub fn nil(&mut self) {
        self.main.push(0xc0);
    }

    pub fn bool(&mut self, value: bool) {
        self.main.push(if value { 0xc3 } else { 0xc2 });
    }

    /// The shortest encoding, as msgspec chooses it.
    pub fn uint(&mut self, value: u64) {
        if value < 0x80 {
            self.main.push(value as u8);
        } else if let Ok(value) = u8::try_from(value) {
            self.main.extend([0xcc, value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.main.push(0xcd);
            self.main.extend(value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.main.push(0xce);
            self.main.extend(value.to_be_bytes());
        } else {
            self.main.push(0xcf);
            self.main.extend(value.to_be_bytes());
        }
    }

    pub fn int(&mut self, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            self.uint(value);
        } else if value >= -32 {
            self.main.push(value as u8);
        } else if let Ok(value) = i8::try_from(value) {
            self.main.push(0xd0);
            self.main.extend(value.to_be_bytes());
        } else if let Ok(value) = i16::try_from(value) {
            self.main.push(0xd1);
            self.main.extend(value.to_be_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.main.push(0xd2);
            self.main.extend(value.to_be_bytes());
        } else {
            self.main.push(0xd3);
            self.main.extend(value.to_be_bytes());
        }
    }

    pub fn float(&mut self, value: f64) {
        self.main.push(0xcb);
        self.main.extend(value.to_be_bytes());
    }

    pub fn str(&mut self, value: &str) {
        match value.len() {
            len @ 0..32 => self.main.push(0xa0 | len as u8),
            len => self.sized(len, Some(0xd9), 0xda, 0xdb),
        }
        self.main.extend(value.as_bytes());
    }

    pub fn bin(&mut self, value: &[u8]) {
        self.sized(value.len(), Some(0xc4), 0xc5, 0xc6);
        self.main.extend(value);
    }

    pub fn array_len(&mut self, len: usize) {
        match len {
            0..16 => self.main.push(0x90 | len as u8),
            _ => self.sized(len, None, 0xdc, 0xdd),
        }
    }

    pub fn map_len(&mut self, len: usize) {
        match len {
            0..16 => self.main.push(0x80 | len as u8),
            _ => self.sized(len, None, 0xde, 0xdf),
        }
    }

    /// The head of a struct that may leave out some of its `fields` keys. msgspec reserves room for all
    /// of them before it knows how many it writes, so the marker's width follows the larger number.
    pub(crate) fn struct_map_len(&mut self, len: usize, fields: usize) {
        if fields < 16 {
            self.map_len(len);
        } else {
            self.sized(len, None, 0xde, 0xdf);
        }
    }

    /// A length with the shortest marker that holds it. Lengths are those of values in memory; a
    /// message is refused by its reader long before 4 GiB, so the cast cannot lose bits in practice.
    fn sized(&mut self, len: usize, marker8: Option<u8>, marker16: u8, marker32: u8) {
        match (marker8, u8::try_from(len), u16::try_from(len)) {
            (Some(marker), Ok(len), _) => self.main.extend([marker, len]),
            (_, _, Ok(len)) => {
                self.main.push(marker16);
                self.main.extend(len.to_be_bytes());
            }
            _ => {
                self.main.push(marker32);
                self.main.extend((len as u32).to_be_bytes());
            }
        }
    }

    fn ext(&mut self, code: i8, data: &[u8]) {
        match data.len() {
            1 => self.main.push(0xd4),
            2 => self.main.push(0xd5),
            4 => self.main.push(0xd6),
            8 => self.main.push(0xd7),
            16 => self.main.push(0xd8),
            len => self.sized(len, Some(0xc7), 0xc8, 0xc9),
        }
        self.main.extend(code.to_be_bytes());
        self.main.extend(data);
    }

    /// A buffer: inline below the threshold, else as the next auxiliary frame.
    pub(crate) fn buffer(&mut self, data: &Bytes, force_inline: bool) {
        if force_inline || data.len() < ZERO_COPY_THRESHOLD_BYTES {
            self.ext(EXT_RAW_VIEW, data);
        } else {
            self.aux.push(data.clone());
            self.uint(self.aux.len() as u64);
        }
    }

    /// One opaque value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Nil => self.nil(),
            Value::Boolean(value) => self.bool(*value),
            Value::Integer(value) => match (value.as_u64(), value.as_i64()) {
                (Some(value), _) => self.uint(value),
                (None, Some(value)) => self.int(value),
                (None, None) => self.nil(),
            },
            Value::F32(value) => self.float(f64::from(*value)),
            Value::F64(value) => self.float(*value),
            Value::String(value) => match value.as_str() {
                Some(text) => self.str(text),
                None => self.bin(value.as_bytes()),
            },
            Value::Binary(value) => self.bin(value),
            Value::Ext(code, data) => self.ext(*code, data),
            Value::Array(items) => {
                self.array_len(items.len());
                for item in items {
                    self.value(item);
                }
            }
            Value::Map(pairs) => {
                self.map_len(pairs.len());
                for (key, item) in pairs {
                    self.value(key);
                    self.value(item);
                }
            }
        }
    }
}
