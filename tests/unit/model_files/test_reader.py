"""The reader as Python sees it: views of mapped memory, conversions into numpy buffers, clear errors."""

import gc
import json
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from vllm_rs import _rust
from vllm_rs._rust import ModelFileError, ModelFiles

VALUES = np.array([[1.0, -2.5, 0.1], [3.0e38, 1e-40, 7.0]], dtype=np.float32)


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Bits of bfloat16 nearest to float32 `values`, ties to even; uint16, same shape."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with one float32 tensor `a` [2, 3] and one bfloat16 tensor `b` [6]."""
    narrow = bf16_bits(VALUES).tobytes()
    header = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [6], "data_offsets": [24, 36]},
    }
    text = json.dumps(header).encode()
    content = struct.pack("<Q", len(text)) + text + VALUES.tobytes() + narrow
    (tmp_path / "model.safetensors").write_bytes(content)
    config = {"architectures": ["X"], "deep": {"list": [1, 2.5, None, True, "é"], "big": 2**63}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_configuration_arrives_as_plain_python(folder: Path) -> None:
    model = ModelFiles.open(str(folder))
    assert model.config == json.loads((folder / "config.json").read_text())
    assert model.generation_config == {}
    assert (model.format, model.total_bytes, model.path) == ("safetensors", 36, str(folder))
    model.config["architectures"].clear()
    assert model.config["architectures"] == ["X"], "each dict is the caller's own"


def test_views_are_read_only_and_outlive_the_model(folder: Path) -> None:
    tensor = ModelFiles.open(str(folder)).tensor("a")
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == ("F32", (2, 3), 24)
    assert tensor.interleaved_heads is None
    view = memoryview(tensor)
    del tensor
    gc.collect()
    assert view.readonly
    array = np.frombuffer(view, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(array, VALUES)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1.0


@pytest.mark.parametrize("name", ["a", "b"])
def test_conversions_fill_the_callers_buffer(folder: Path, name: str) -> None:
    model = ModelFiles.open(str(folder))
    wide = np.empty(6, dtype=np.float32)
    narrow = np.empty((2, 3), dtype=np.uint16)
    model.read_f32(name, wide)
    model.read_bf16(name, narrow)
    np.testing.assert_array_equal(narrow.reshape(-1), bf16_bits(VALUES).reshape(-1))
    if name == "a":
        np.testing.assert_array_equal(wide, VALUES.reshape(-1))
    else:
        np.testing.assert_array_equal(bf16_bits(wide), narrow.reshape(-1))


def test_unfit_buffers_are_refused_and_untouched(folder: Path) -> None:
    model = ModelFiles.open(str(folder))
    with pytest.raises(ModelFileError, match="tensor a has 6 elements, the output buffer has 5"):
        model.read_f32("a", np.empty(5, dtype=np.float32))
    with pytest.raises(BufferError):
        model.read_f32("a", np.empty(6, dtype=np.float64))
    with pytest.raises(BufferError, match="C-contiguous"):
        model.read_f32("a", np.empty((6, 2), dtype=np.float32)[:, 0])
    frozen = np.zeros(6, dtype=np.float32)
    frozen.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        model.read_f32("a", frozen)
    assert not frozen.any()


def test_threads_may_read_at_once(folder: Path) -> None:
    model = ModelFiles.open(str(folder))
    outputs = [np.empty((2, 3), dtype=np.float32) for _ in range(8)]
    threads = [threading.Thread(target=model.read_f32, args=("a", out)) for out in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outputs:
        np.testing.assert_array_equal(out, VALUES)


def test_errors_are_value_errors_with_one_clear_line(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file or folder"):
        ModelFiles.open(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"did you mean b\?|tensor bb is not in"):
        ModelFiles.open(str(folder)).tensor("bb")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="a pickle file") as caught:
        ModelFiles.open(str(folder))
    assert "\n" not in str(caught.value)


def test_names_that_lead_nowhere_are_runtime_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(_rust.ModelResolveError, match=r"did you mean smollm2\?"):
        _rust.resolve_model("smolm2", str(tmp_path))
    with pytest.raises(RuntimeError, match="HF_HUB_OFFLINE is set"):
        _rust.resolve_model("org/model", str(tmp_path))
    assert _rust.resolve_model(str(tmp_path)) == str(tmp_path)
