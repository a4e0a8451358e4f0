//! Types without blocks. Bytes may lie at any alignment.

use half::f16;

pub(super) fn f64s(bytes: &[u8], out: &mut [f32]) {
    let (words, _) = bytes.as_chunks::<8>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = f64::from_le_bytes(*word) as f32;
    }
}

pub(super) fn f32s(bytes: &[u8], out: &mut [f32]) {
    let (words, _) = bytes.as_chunks::<4>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = f32::from_le_bytes(*word);
    }
}

pub(super) fn f16s(bytes: &[u8], out: &mut [f32]) {
    let (words, _) = bytes.as_chunks::<2>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = f16::from_le_bytes(*word).to_f32();
    }
}

pub(super) fn bf16s(bytes: &[u8], out: &mut [f32]) {
    let (words, _) = bytes.as_chunks::<2>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(*word)) << 16);
    }
}

pub(super) fn copy_u16(bytes: &[u8], out: &mut [u16]) {
    let (words, _) = bytes.as_chunks::<2>();
    for (out, word) in out.iter_mut().zip(words) {
        *out = u16::from_le_bytes(*word);
    }
}

/// Nearest even; a NaN stays a NaN.
pub(super) fn round_to_bf16(values: &[f32], out: &mut [u16]) {
    for (out, value) in out.iter_mut().zip(values) {
        let bits = value.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
        // Rounding could carry a NaN's payload away: keep its top half and make it quiet.
        *out = if value.is_nan() {
            (bits >> 16) as u16 | 0x40
        } else {
            rounded
        };
    }
}

/// A block's half-precision scale.
pub(super) fn scale(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}
