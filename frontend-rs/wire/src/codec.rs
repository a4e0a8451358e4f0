//! How Rust types map onto msgpack: the trait, and the plain types.

use std::collections::{BTreeMap, BTreeSet};

use rmpv::Value;

use crate::error::{WireError, WireErrorKind};
use crate::reader::Reader;
use crate::writer::Writer;

/// A type with one encoding on this wire.
pub trait Wire: Sized {
    fn encode(&self, writer: &mut Writer);
    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError>;
}

/// Most elements that are allocated for before they have been seen.
const MAX_PREALLOCATED: usize = 4096;

macro_rules! wire_int {
    ($($ty:ident via $write:ident as $wide:ty),* $(,)?) => {$(
        impl Wire for $ty {
            fn encode(&self, writer: &mut Writer) {
                #[allow(clippy::cast_lossless, reason = "one macro for all widths")]
                writer.$write(*self as $wide);
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
                let start = reader.offset();
                let given = reader.int()?;
                $ty::try_from(given).map_err(|_| {
                    WireError::new(start, WireErrorKind::Range { expected: stringify!($ty), given })
                })
            }
        }
    )*};
}

wire_int!(u8 via uint as u64, u32 via uint as u64, u64 via uint as u64, usize via uint as u64);
wire_int!(i32 via int as i64, i64 via int as i64);

/// Any integer that msgpack can hold, of either sign.
impl Wire for i128 {
    fn encode(&self, writer: &mut Writer) {
        match u64::try_from(*self) {
            Ok(value) => writer.uint(value),
            Err(_) => writer.int(i64::try_from(*self).unwrap_or(i64::MIN)),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.int()
    }
}

impl Wire for bool {
    fn encode(&self, writer: &mut Writer) {
        writer.bool(*self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.bool()
    }
}

impl Wire for f64 {
    fn encode(&self, writer: &mut Writer) {
        writer.float(*self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.float()
    }
}

impl Wire for String {
    fn encode(&self, writer: &mut Writer) {
        writer.str(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.str().map(str::to_owned)
    }
}

impl Wire for Value {
    fn encode(&self, writer: &mut Writer) {
        writer.value(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        reader.value()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Some(value) => value.encode(writer),
            None => writer.nil(),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if reader.nil() {
            Ok(None)
        } else {
            T::decode(reader).map(Some)
        }
    }
}

impl<T: Wire> Wire for Box<T> {
    fn encode(&self, writer: &mut Writer) {
        (**self).encode(writer);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        T::decode(reader).map(Box::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, writer: &mut Writer) {
        writer.array_len(self.len());
        for item in self {
            item.encode(writer);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let len = reader.array_len()?;
        let mut items = Vec::with_capacity(len.min(MAX_PREALLOCATED));
        for index in 0..len {
            items.push(T::decode(reader).map_err(|error| error.in_field(&index.to_string()))?);
        }
        Ok(items)
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn encode(&self, writer: &mut Writer) {
        writer.array_len(self.len());
        for item in self {
            item.encode(writer);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Vec::decode(reader)?.into_iter().collect())
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn encode(&self, writer: &mut Writer) {
        writer.map_len(self.len());
        for (key, value) in self {
            key.encode(writer);
            value.encode(writer);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let len = reader.map_len()?;
        let mut map = BTreeMap::new();
        for _ in 0..len {
            let key = K::decode(reader).map_err(|error| error.in_field("key"))?;
            map.insert(key, V::decode(reader)?);
        }
        Ok(map)
    }
}
