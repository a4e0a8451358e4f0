"""The reference device: torch operations run one by one, numpy sampling. Imported only for device=torch."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray

from vllm_rs.errors import InvariantError
from vllm_rs.exec.backend import F32, Dtype, StepLimits
from vllm_rs.exec.ops.torch_ops import DTYPES, Linear, TorchKVCache, TorchOps
from vllm_rs.exec.sampler_ref import ReferenceSampler, ReferenceSampleResult
from vllm_rs.exec.step import I32, StepArrays
from vllm_rs.models.base import CausalLM, HiddenState
from vllm_rs.models.kv_spec import KVCacheSpec


class TorchBackend:
    """`Backend` over `TorchOps`."""

    name = "torch"

    def __init__(self, compute_dtype: Dtype, kv_dtype: Dtype, device: str = "cpu") -> None:
        self.compute_dtype: Dtype = compute_dtype
        self.kv_dtype: Dtype = kv_dtype
        self.weights_bytes = 0
        self.workspace_bytes = 0
        """Left to torch's allocator; the profile run measures it."""
        self._ops = TorchOps(device, compute_dtype)
        self._model: CausalLM | None = None
        self._sampler: ReferenceSampler | None = None
        self._state: HiddenState | None = None

    def pack_linear(self, weight: NDArray[Any], bias: F32 | None) -> Linear:
        """See `Packer`."""
        packed = self._ops.pack_linear(weight, bias)
        self.weights_bytes += packed.weight.nbytes
        return packed

    def pack_vector(self, values: F32) -> torch.Tensor:
        """See `Packer`."""
        packed = self._ops.pack_vector(values)
        self.weights_bytes += packed.nbytes
        return packed

    @property
    def sampler(self) -> ReferenceSampler:
        """Known after `build`."""
        if self._sampler is None:
            raise InvariantError("the model is not built yet")
        return self._sampler

    def build(self, model: CausalLM, limits: StepLimits) -> None:
        """Nothing to record."""
        self._model = model
        self._sampler = ReferenceSampler(limits.max_sequences, model.vocab_size)

    def allocate_kv_cache(self, specs: Sequence[KVCacheSpec], num_blocks: int, block_size: int) -> None:
        """Two tensors per layer."""

        def pool(spec: KVCacheSpec) -> torch.Tensor:
            shape = (num_blocks, block_size, spec.num_kv_heads, spec.head_dim)
            return torch.zeros(shape, dtype=DTYPES[spec.dtype], device=self._ops.device)

        self._ops.cache = TorchKVCache([pool(spec) for spec in specs], [pool(spec) for spec in specs])

    def forward(self, step: StepArrays, *, eager: bool = False) -> None:
        """Always call by call."""
        if self._model is None:
            raise InvariantError("the model is not built yet")
        with torch.inference_mode():
            self._ops.begin(step)
            state = self._model.embed(self._ops)
            self._state = self._model.layers(self._ops, state, 0, self._model.num_layers)
            self._model.head(self._ops, self._state)

    def forward_head(self, step: StepArrays, logit_rows: I32) -> None:
        """The head once more."""
        if self._model is None or self._state is None:
            raise InvariantError("no forward pass before this one")
        with torch.inference_mode():
            self._ops.set_logit_rows(logit_rows)
            self._model.head(self._ops, self._state)

    def logits(self) -> F32:
        """Copied to the host."""
        if self._ops.result is None:
            raise InvariantError("no forward pass yet")
        logits: F32 = self._ops.result.cpu().numpy()
        return logits

    def sample(self, logit_indices: I32, slots: I32, positions: I32) -> ReferenceSampleResult:
        """Reference sampler."""
        return self.sampler.sample_logits(self.logits()[logit_indices], slots, positions)

    def score(self, logit_indices: I32, target_ids: I32, num_logprobs: int) -> tuple[I32, F32, I32]:
        """Reference sampler."""
        return self.sampler.score_logits(self.logits()[logit_indices], target_ids, num_logprobs)

    def shutdown(self) -> None:
        """Drop model and cache."""
        self._model = self._state = self._ops.cache = None
