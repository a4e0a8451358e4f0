"""Backends of the operations in `vllm_rs.models.ops`: `torch_ops` (reference) and `cpu_ops` (recorded
program).
"""

from vllm_rs.models.ops import Ops, Packer

__all__ = ["Ops", "Packer"]
