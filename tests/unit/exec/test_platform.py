"""The decision table of attention paths, and dtype resolution."""

import pytest

from vllm_rs.config import ConfigError
from vllm_rs.exec.platform import resolve_dtype, select_attention
from vllm_rs.models.ops import AttentionShape


def shape(head_dim=64, window=0):
    return AttentionShape(4, 2, head_dim, head_dim**-0.5, window)


@pytest.mark.covers("ATTN-02")
@pytest.mark.parametrize(
    ("device", "attention", "recorded", "override", "expected"),
    [
        ("cpu", shape(), True, None, "cpu_paged"),
        ("cpu", shape(), False, None, "cpu_paged"),
        ("cpu", shape(80), True, None, "cpu_paged"),
        ("cpu", shape(128, window=4096), True, None, "cpu_paged"),
        ("torch", shape(), False, None, "torch_reference"),
        ("torch", shape(1024), False, None, "torch_reference"),
        ("torch", shape(64, window=16), False, "torch_reference", "torch_reference"),
        ("cpu", shape(), True, "cpu_paged", "cpu_paged"),
        ("cpu", shape(1024), True, None, None),
        ("torch", shape(), True, None, None),
        ("cpu", shape(), True, "torch_reference", None),
        ("cpu", shape(), True, "flash", None),
    ],
)
def test_decision_table(device, attention, recorded, override, expected):
    if expected is None:
        with pytest.raises(
            ConfigError, match=override or f"--device {device}.*head_dim {attention.head_dim}"
        ):
            select_attention(device, attention, recorded=recorded, override=override)
        return
    choice = select_attention(device, attention, recorded=recorded, override=override)
    assert choice.name == expected
    assert device in choice.reason and str(attention.head_dim) in choice.reason


def test_auto_dtype():
    assert resolve_dtype("auto", "cpu", "float32") == "bfloat16"
    assert resolve_dtype("auto", "torch", "bfloat16") == "bfloat16"
    assert resolve_dtype("auto", "torch", None) == "float32"
    assert resolve_dtype("float32", "cpu", "bfloat16") == "float32"
