//! GGML's "K" super-blocks of 256 elements: sub-blocks of 16 or 32 with small scales of their own.
//!
//! Each product and each difference is rounded on its own, as in the reference.

use super::plain::scale;

const ELEMENTS: usize = 256;

/// 16 scale/minimum nibbles, 64 bytes of 2-bit values, f16 scale, f16 minimum.
pub(super) fn q2_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<84>(bytes, out) {
        let (scales, values) = (&block[..16], &block[16..80]);
        let d = scale([block[80], block[81]]);
        let dmin = scale([block[82], block[83]]);
        for (sub, out) in out.chunks_exact_mut(16).enumerate() {
            let dl = d * f32::from(scales[sub] & 0x0f);
            let ml = dmin * f32::from(scales[sub] >> 4);
            let (start, shift) = two_bit_place(sub);
            for (i, out) in out.iter_mut().enumerate() {
                *out = dl * f32::from((values[start + i] >> shift) & 3) - ml;
            }
        }
    }
}

/// 32 bytes of third bits (set: no offset), 64 bytes of 2-bit values, 16 6-bit scales, f16 scale.
pub(super) fn q3_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<110>(bytes, out) {
        let (high, values, packed) = (&block[..32], &block[32..96], &block[96..108]);
        let d = scale([block[108], block[109]]);
        for (sub, out) in out.chunks_exact_mut(16).enumerate() {
            let low = if sub < 8 {
                packed[sub] & 0x0f
            } else {
                packed[sub - 8] >> 4
            };
            let top = (packed[8 + sub % 4] >> (2 * (sub / 4))) & 3;
            let dl = d * f32::from((low | (top << 4)).cast_signed() - 32);
            let (start, shift) = two_bit_place(sub);
            for (i, out) in out.iter_mut().enumerate() {
                let value = ((values[start + i] >> shift) & 3).cast_signed();
                let set = (high[16 * (sub % 2) + i] >> (sub / 2)) & 1;
                *out = dl * f32::from(if set == 1 { value } else { value - 4 });
            }
        }
    }
}

/// f16 scale, f16 minimum, 8 6-bit scale/minimum pairs, 128 bytes of nibbles.
pub(super) fn q4_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<144>(bytes, out) {
        let values = &block[16..144];
        for (sub, out) in out.chunks_exact_mut(32).enumerate() {
            let (dl, ml) = scale_and_minimum(block, sub);
            let start = 32 * (sub / 2);
            for (i, out) in out.iter_mut().enumerate() {
                let value = (values[start + i] >> (4 * (sub % 2))) & 0x0f;
                *out = dl * f32::from(value) - ml;
            }
        }
    }
}

/// As `q4_k`, with 32 bytes of fifth bits before the nibbles.
pub(super) fn q5_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<176>(bytes, out) {
        let (high, values) = (&block[16..48], &block[48..176]);
        for (sub, out) in out.chunks_exact_mut(32).enumerate() {
            let (dl, ml) = scale_and_minimum(block, sub);
            let start = 32 * (sub / 2);
            for (i, out) in out.iter_mut().enumerate() {
                let low = (values[start + i] >> (4 * (sub % 2))) & 0x0f;
                let value = low | (((high[i] >> sub) & 1) << 4);
                *out = dl * f32::from(value) - ml;
            }
        }
    }
}

/// 128 bytes of nibbles, 64 bytes of 2-bit tops, 16 signed scales, f16 scale.
pub(super) fn q6_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<210>(bytes, out) {
        let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
        let d = scale([block[208], block[209]]);
        for (sub, out) in out.chunks_exact_mut(16).enumerate() {
            let dl = d * f32::from(scales[sub].cast_signed());
            // Each half of 128 elements is four groups of 32: nibbles low, low, high, high.
            let (half, group, side) = (sub / 8, sub % 8 / 2, sub % 2);
            let low_start = 64 * half + 32 * (group % 2) + 16 * side;
            let high_start = 32 * half + 16 * side;
            for (i, out) in out.iter_mut().enumerate() {
                let nibble = (low[low_start + i] >> (4 * (group / 2))) & 0x0f;
                let top = (high[high_start + i] >> (2 * group)) & 3;
                *out = dl * f32::from((nibble | (top << 4)).cast_signed() - 32);
            }
        }
    }
}

/// f32 scale, 256 signed bytes, sums that only dot products need.
pub(super) fn q8_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in pairs::<292>(bytes, out) {
        let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        for (out, value) in out.iter_mut().zip(&block[4..260]) {
            *out = d * f32::from(value.cast_signed());
        }
    }
}

/// First byte and shift of sub-block `sub` (16 elements) among 2-bit values: each 32 bytes hold 128
/// elements as four planes of 32.
fn two_bit_place(sub: usize) -> (usize, usize) {
    (32 * (sub / 8) + 16 * (sub % 2), 2 * (sub % 8 / 2))
}

/// Scale and minimum of sub-block `sub` (32 elements) of `q4_k` and `q5_k`: bytes 4..16 hold eight
/// 6-bit pairs, the last four split between the third row of bytes and the top bits of the first two.
fn scale_and_minimum(block: &[u8], sub: usize) -> (f32, f32) {
    let d = scale([block[0], block[1]]);
    let dmin = scale([block[2], block[3]]);
    let packed = &block[4..16];
    let (sc, m) = if sub < 4 {
        (packed[sub] & 0x3f, packed[4 + sub] & 0x3f)
    } else {
        let both = packed[4 + sub];
        (
            (both & 0x0f) | ((packed[sub - 4] >> 2) & 0x30),
            (both >> 4) | ((packed[sub] >> 2) & 0x30),
        )
    };
    (d * f32::from(sc), dmin * f32::from(m))
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
