//! GGML's blocks of 32 elements: a scale, for the `_1` kinds a minimum, and small integers.
//!
//! Nibbles: element `i` is the low half of byte `i`, element `i + 16` its high half. Each product and
//! each sum is rounded on its own, as in the reference: no fused multiply-add.

use super::plain::scale;

const ELEMENTS: usize = 32;

/// f16 scale, 16 bytes of nibbles: `scale × (nibble − 8)`.
pub(super) fn q4_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<18>(bytes, out) {
        let d = scale([block[0], block[1]]);
        for i in 0..16 {
            let nibbles = block[2 + i];
            out[i] = d * f32::from((nibbles & 0x0f).cast_signed() - 8);
            out[i + 16] = d * f32::from((nibbles >> 4).cast_signed() - 8);
        }
    }
}

/// f16 scale, f16 minimum, nibbles: `scale × nibble + minimum`.
pub(super) fn q4_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<20>(bytes, out) {
        let d = scale([block[0], block[1]]);
        let m = scale([block[2], block[3]]);
        for i in 0..16 {
            let nibbles = block[4 + i];
            out[i] = d * f32::from(nibbles & 0x0f) + m;
            out[i + 16] = d * f32::from(nibbles >> 4) + m;
        }
    }
}

/// f16 scale, 32 fifth bits, nibbles: `scale × (value − 16)`.
pub(super) fn q5_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<22>(bytes, out) {
        let d = scale([block[0], block[1]]);
        let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        for i in 0..16 {
            let (low_value, high_value) = five_bits(block[6 + i], high, i);
            out[i] = d * f32::from(low_value.cast_signed() - 16);
            out[i + 16] = d * f32::from(high_value.cast_signed() - 16);
        }
    }
}

/// f16 scale, f16 minimum, 32 fifth bits, nibbles: `scale × value + minimum`.
pub(super) fn q5_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<24>(bytes, out) {
        let d = scale([block[0], block[1]]);
        let m = scale([block[2], block[3]]);
        let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        for i in 0..16 {
            let (low_value, high_value) = five_bits(block[8 + i], high, i);
            out[i] = d * f32::from(low_value) + m;
            out[i + 16] = d * f32::from(high_value) + m;
        }
    }
}

/// f16 scale, 32 signed bytes.
pub(super) fn q8_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<34>(bytes, out) {
        let d = scale([block[0], block[1]]);
        for i in 0..ELEMENTS {
            out[i] = d * f32::from(block[2 + i].cast_signed());
        }
    }
}

/// Elements `i` and `i + 16` from a byte of nibbles and the block's fifth bits.
fn five_bits(nibbles: u8, high: u32, i: usize) -> (u8, u8) {
    let bit = |index: usize| ((high >> index) as u8 & 1) << 4;
    ((nibbles & 0x0f) | bit(i), (nibbles >> 4) | bit(i + 16))
}

fn pairs<'a, const BYTES: usize>(
    bytes: &'a [u8],
    out: &'a mut [f32],
) -> impl Iterator<Item = (&'a [u8; BYTES], &'a mut [f32; ELEMENTS])> {
    bytes
        .as_chunks::<BYTES>()
        .0
        .iter()
        .zip(out.as_chunks_mut::<ELEMENTS>().0)
}
