"""Writes golden/wire.json: the bytes of every case in `cases.py`, as real msgspec makes them.

Run it after a deliberate change of the protocol: python -m tests.contract.make_golden
"""

import json
from pathlib import Path

from vllm_rs.wire_codec import Encoder

from .cases import cases

GOLDEN = Path(__file__).parent / "golden" / "wire.json"


def golden() -> dict[str, list[str]]:
    """Frames in hexadecimal by case: the main frame, then the auxiliary ones."""
    encoder = Encoder()
    return {name: [bytes(frame).hex() for frame in encoder.encode(value)] for name, value in cases().items()}


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden(), indent=1) + "\n")
