"""Make the golden blocks that the GGUF dequantisers are held to.

For each type: a few random blocks and the float32 values that the `gguf` package (the reference of the
format's authors) decodes them to. Written with gguf 0.19 and numpy 2; run it with

    python tests/oracle/make_gguf_golden.py frontend-rs/model-files/tests/fixtures/gguf_golden.bin

Layout, little-endian, one record per type: u32 ggml type, u32 elements, u32 bytes, the bytes, then the
float32 values.
"""

import struct
import sys
from pathlib import Path

import gguf
import numpy as np

BLOCKS = 6
# Byte offsets of the float16 scales inside each block; random bits there would give NaN and infinity.
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
HALVES = [1.0, -0.5, 6.1e-5, 5.96e-8, 0.0, 65504.0]


def blocks_of(name: str, rng: np.random.Generator) -> np.ndarray:
    """Random blocks of type `name`, uint8 `[BLOCKS, block_bytes]`, scales of every magnitude."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, size=(BLOCKS, block_bytes), dtype=np.uint8)
    for offset in SCALES[name]:
        scales = rng.normal(size=BLOCKS).astype(np.float16)
        scales[: BLOCKS // 2] = rng.choice(np.array(HALVES, dtype=np.float16), size=BLOCKS // 2)
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
    return blocks


def plain(name: str, rng: np.random.Generator) -> np.ndarray:
    """Bytes of 256 plain values, the corners of the format among them."""
    corners = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, 6e-8, 65504.0, 3.14159], dtype=np.float32)
    values = np.concatenate([corners, rng.normal(size=248).astype(np.float32)])
    if name == "F16":
        return values.astype(np.float16).view(np.uint8)
    if name == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return values.view(np.uint8)


def main(target: Path) -> None:
    """Write all records to `target`."""
    rng = np.random.default_rng(20_240_607)
    out = bytearray()
    for name in ["F32", "F16", "BF16", *SCALES]:
        kind = gguf.GGMLQuantizationType[name]
        raw = blocks_of(name, rng) if name in SCALES else plain(name, rng)
        decoded = np.ascontiguousarray(gguf.quants.dequantize(raw, kind).reshape(-1), dtype=np.float32)
        out += struct.pack("<III", kind.value, decoded.size, raw.size) + raw.tobytes() + decoded.tobytes()
    target.write_bytes(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
