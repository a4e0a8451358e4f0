//! Any tensor type → f32 or bf16, bit-exact with GGML's reference dequantisers, on all cores.

mod blocks256;
mod blocks32;
mod plain;

use rayon::prelude::*;

use crate::dtype::DType;

/// Elements converted at a time on one thread's stack: a multiple of every block size.
const SCRATCH_ELEMENTS: usize = 1024;
/// Elements per parallel task: enough to outweigh its scheduling.
const TASK_ELEMENTS: usize = 64 * 1024;

/// Decodes whole blocks: `bytes` hold exactly `out.len()` elements.
type Decoder = fn(bytes: &[u8], out: &mut [f32]);

/// A tensor's bytes and the order in which its rows are to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a [u8],
    /// Elements of one row; a whole number of blocks.
    pub(crate) row_elements: usize,
    /// Row → row of the file.
    pub(crate) order: RowOrder,
}

/// Where row `r` of the model is in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// Row `r` of the file.
    AsStored,
    /// llama.cpp stores the two halves of each rotary head interleaved, two rows per frequency.
    Interleaved {
        /// Rows of one head; even.
        head_rows: usize,
    },
}

impl RowOrder {
    fn source_row(self, row: usize) -> usize {
        match self {
            Self::AsStored => row,
            Self::Interleaved { head_rows } => {
                let (head, within) = (row / head_rows, row % head_rows);
                let half = head_rows / 2;
                head * head_rows + 2 * (within % half) + within / half
            }
        }
    }
}

/// Whether [`to_f32`] and [`to_bf16`] know the type.
pub(crate) fn is_supported(dtype: DType) -> bool {
    decoder(dtype).is_some()
}

fn decoder(dtype: DType) -> Option<Decoder> {
    Some(match dtype {
        DType::F64 => plain::f64s,
        DType::F32 => plain::f32s,
        DType::F16 => plain::f16s,
        DType::BF16 => plain::bf16s,
        DType::Q4_0 => blocks32::q4_0,
        DType::Q4_1 => blocks32::q4_1,
        DType::Q5_0 => blocks32::q5_0,
        DType::Q5_1 => blocks32::q5_1,
        DType::Q8_0 => blocks32::q8_0,
        DType::Q2_K => blocks256::q2_k,
        DType::Q3_K => blocks256::q3_k,
        DType::Q4_K => blocks256::q4_k,
        DType::Q5_K => blocks256::q5_k,
        DType::Q6_K => blocks256::q6_k,
        DType::Q8_K => blocks256::q8_k,
        _ => return None,
    })
}

/// Converts to f32. The caller has checked that the type is supported and the sizes agree.
pub(crate) fn to_f32(rows: Rows<'_>, out: &mut [f32]) {
    let Some(decode) = decoder(rows.dtype) else { return };
    for_each_row(rows, out, decode);
}

/// Converts to bf16 bits, rounded to nearest even. Bytes that are bf16 already are copied.
pub(crate) fn to_bf16(rows: Rows<'_>, out: &mut [u16]) {
    if rows.dtype == DType::BF16 {
        return for_each_row(rows, out, plain::copy_u16);
    }
    let Some(decode) = decoder(rows.dtype) else { return };
    let dtype = rows.dtype;
    for_each_row(rows, out, |bytes, out| {
        let mut scratch = [0.0f32; SCRATCH_ELEMENTS];
        let scratch_bytes = SCRATCH_ELEMENTS / dtype.block_elements() * dtype.block_bytes();
        for (bytes, out) in bytes.chunks(scratch_bytes).zip(out.chunks_mut(SCRATCH_ELEMENTS)) {
            let scratch = &mut scratch[..out.len()];
            decode(bytes, scratch);
            plain::round_to_bf16(scratch, out);
        }
    });
}

/// Runs `convert` over contiguous pieces of the tensor, a few rows per task.
fn for_each_row<T: Send>(rows: Rows<'_>, out: &mut [T], convert: impl Fn(&[u8], &mut [T]) + Sync) {
    let Rows {
        dtype,
        bytes,
        row_elements,
        order,
    } = rows;
    let row_bytes = row_elements / dtype.block_elements() * dtype.block_bytes();
    if order == RowOrder::AsStored {
        // Rows are adjacent on both sides, so the tensor is one long row of blocks.
        let block = dtype.block_elements();
        let task_elements = TASK_ELEMENTS.next_multiple_of(block);
        let task_bytes = task_elements / block * dtype.block_bytes();
        out.par_chunks_mut(task_elements)
            .zip(bytes.par_chunks(task_bytes))
            .for_each(|(out, bytes)| convert(bytes, out));
        return;
    }
    let task_rows = (TASK_ELEMENTS / row_elements).max(1);
    out.par_chunks_mut(task_rows * row_elements)
        .enumerate()
        .for_each(|(task, out)| {
            for (within, out) in out.chunks_mut(row_elements).enumerate() {
                let start = order.source_row(task * task_rows + within) * row_bytes;
                convert(&bytes[start..start + row_bytes], out);
            }
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_rows_come_back_in_halves() {
        // Two heads of four rows: the file has pairs (0, 2), (1, 3) of each head side by side.
        let order = RowOrder::Interleaved { head_rows: 4 };
        let sources: Vec<usize> = (0..8).map(|row| order.source_row(row)).collect();
        assert_eq!(sources, [0, 2, 1, 3, 4, 6, 5, 7]);
    }

    #[test]
    fn row_order_and_bf16_agree_with_plain_f32() {
        let values: Vec<f32> = (0..8 * 3).map(|value| value as f32 + 0.015).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let order = RowOrder::Interleaved { head_rows: 8 };
        let rows = Rows {
            dtype: DType::F32,
            bytes: &bytes,
            row_elements: 3,
            order,
        };
        let mut wide = vec![0.0; 24];
        let mut narrow = vec![0; 24];
        to_f32(rows, &mut wide);
        to_bf16(rows, &mut narrow);
        assert_eq!(
            wide[3..6],
            values[6..9],
            "row 1 of the model is row 2 of the file"
        );
        let rounded: Vec<u16> = wide
            .iter()
            .map(|&value| half::bf16::from_f32(value).to_bits())
            .collect();
        assert_eq!(narrow, rounded);
    }
}
