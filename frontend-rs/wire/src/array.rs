//! Arrays of numbers: `[dtype, shape, data]`, with the data inline or in an auxiliary frame.

use bytes::Bytes;

use crate::codec::Wire;
use crate::error::{WireError, WireErrorKind};
use crate::reader::Reader;
use crate::writer::Writer;

/// Element type. Bytes are little-endian, C-contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F16,
    BF16,
    F32,
    F64,
}

/// Type, numpy name, torch name, bytes per element. Numpy has no bfloat16.
const DTYPES: [(DType, &str, &str, usize); 13] = [
    (DType::Bool, "|b1", "bool", 1),
    (DType::U8, "|u1", "uint8", 1),
    (DType::I8, "|i1", "int8", 1),
    (DType::I16, "<i2", "int16", 2),
    (DType::U16, "<u2", "uint16", 2),
    (DType::I32, "<i4", "int32", 4),
    (DType::U32, "<u4", "uint32", 4),
    (DType::I64, "<i8", "int64", 8),
    (DType::U64, "<u8", "uint64", 8),
    (DType::F16, "<f2", "float16", 2),
    (DType::BF16, "bfloat16", "bfloat16", 2),
    (DType::F32, "<f4", "float32", 4),
    (DType::F64, "<f8", "float64", 8),
];

impl DType {
    /// Reads either naming: numpy's `<f4` or torch's `float32`.
    pub fn parse(name: &str) -> Option<Self> {
        DTYPES
            .iter()
            .find(|row| row.1 == name || row.2 == name)
            .map(|row| row.0)
    }

    fn row(self) -> &'static (DType, &'static str, &'static str, usize) {
        // The table lists the variants in their order of declaration; a test walks it.
        &DTYPES[self as usize]
    }

    pub fn numpy_name(self) -> &'static str {
        self.row().1
    }

    pub fn torch_name(self) -> &'static str {
        self.row().2
    }

    pub fn size_bytes(self) -> usize {
        self.row().3
    }
}

/// An array of numbers. `TORCH` says how its type is named on the wire when written; both names are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<const TORCH: bool> {
    pub dtype: DType,
    /// Elements per dimension, outermost first.
    pub shape: Vec<usize>,
    pub data: Bytes,
}

/// A numpy array (`<f4` names).
pub type NdArray = Array<false>;
/// A torch tensor (`float32` names).
pub type Tensor = Array<true>;

impl<const TORCH: bool> Array<TORCH> {
    fn of<T>(dtype: DType, shape: Vec<usize>, values: &[T], put: impl Fn(&T, &mut Vec<u8>)) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        let mut data = Vec::with_capacity(std::mem::size_of_val(values));
        for value in values {
            put(value, &mut data);
        }
        Self {
            dtype,
            shape,
            data: data.into(),
        }
    }

    /// Builds from values in row-major order; `shape` must multiply up to their number.
    pub fn from_i32(shape: Vec<usize>, values: &[i32]) -> Self {
        Self::of(DType::I32, shape, values, |value, out| {
            out.extend(value.to_le_bytes());
        })
    }

    pub fn from_i64(shape: Vec<usize>, values: &[i64]) -> Self {
        Self::of(DType::I64, shape, values, |value, out| {
            out.extend(value.to_le_bytes());
        })
    }

    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Self {
        Self::of(DType::F32, shape, values, |value, out| {
            out.extend(value.to_le_bytes());
        })
    }

    /// The elements as integers, if the type is an integer one.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        fn each<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> i64) -> Vec<i64> {
            data.as_chunks::<N>().0.iter().map(|chunk| read(*chunk)).collect()
        }
        let data = &self.data[..];
        Some(match self.dtype {
            DType::Bool | DType::U8 => each(data, |b: [u8; 1]| i64::from(b[0])),
            DType::I8 => each(data, |b| i64::from(i8::from_le_bytes(b))),
            DType::I16 => each(data, |b| i64::from(i16::from_le_bytes(b))),
            DType::U16 => each(data, |b| i64::from(u16::from_le_bytes(b))),
            DType::I32 => each(data, |b| i64::from(i32::from_le_bytes(b))),
            DType::U32 => each(data, |b| i64::from(u32::from_le_bytes(b))),
            DType::I64 => each(data, i64::from_le_bytes),
            DType::U64 => each(data, |b| i64::try_from(u64::from_le_bytes(b)).unwrap_or(i64::MAX)),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => return None,
        })
    }

    /// The elements as floats, if the type is float32, float64 or bfloat16.
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let data = &self.data[..];
        Some(match self.dtype {
            DType::F32 => data
                .as_chunks::<4>()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
            DType::F64 => data
                .as_chunks::<8>()
                .0
                .iter()
                .map(|b| f64::from_le_bytes(*b) as f32)
                .collect(),
            DType::BF16 => data
                .as_chunks::<2>()
                .0
                .iter()
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16))
                .collect(),
            _ => return None,
        })
    }
}

fn refuse<T>(reader: &Reader<'_>, why: String) -> Result<T, WireError> {
    Err(reader.error(WireErrorKind::Array(why)))
}

impl<const TORCH: bool> Wire for Array<TORCH> {
    fn encode(&self, writer: &mut Writer) {
        writer.array_len(3);
        writer.str(if TORCH {
            self.dtype.torch_name()
        } else {
            self.dtype.numpy_name()
        });
        self.shape.encode(writer);
        // A numpy scalar is always inline: msgspec's side does so, and its decoder expects it.
        writer.buffer(&self.data, !TORCH && self.shape.is_empty());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let given = reader.array_len()?;
        if given != 3 {
            return refuse(
                reader,
                format!("an array is [dtype, shape, data], found {given} elements"),
            );
        }
        let name = reader.str()?;
        let Some(dtype) = DType::parse(name) else {
            return refuse(reader, format!("unknown element type '{}'", name.escape_debug()));
        };
        let shape = Vec::<usize>::decode(reader).map_err(|error| error.in_field("shape"))?;
        let data = if reader.next_is_ext() {
            reader.raw_view()?
        } else {
            let index = u64::decode(reader).map_err(|error| error.in_field("data"))?;
            match reader.aux_frame(index) {
                Some(frame) => frame.clone(),
                None => return refuse(reader, format!("no auxiliary frame {index}")),
            }
        };
        let expected_bytes = shape.iter().try_fold(dtype.size_bytes(), |bytes, &dimension| {
            bytes.checked_mul(dimension)
        });
        if expected_bytes != Some(data.len()) {
            let name = dtype.torch_name();
            return refuse(
                reader,
                format!("shape {shape:?} of {name} does not fit {} bytes", data.len()),
            );
        }
        Ok(Self { dtype, shape, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_finds_its_own_row() {
        for (dtype, numpy, torch, size_bytes) in DTYPES {
            assert_eq!(DType::parse(numpy), Some(dtype));
            assert_eq!(DType::parse(torch), Some(dtype));
            assert_eq!((dtype.numpy_name(), dtype.size_bytes()), (numpy, size_bytes));
        }
    }
}
