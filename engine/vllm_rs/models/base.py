"""What a model class must provide. A test registers a toy that follows it, in one file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.ops import AttentionShape, Ops, Tensor, Weight
from vllm_rs.models.params import Param, WeightLoader


@dataclass(frozen=True)
class Capabilities:
    """What a class can do; asked before a feature is switched on for it."""

    generate: bool = True
    pipeline_parallel: bool = False
    tensor_parallel: bool = False
    lora: bool = False
    sliding_window: bool = False


@dataclass(frozen=True)
class HiddenState:
    """Between layers: the residual stream and what the last block has not yet added to it."""

    residual: Tensor
    delta: Tensor | None = None


class CausalLM(ABC):
    """A decoder that maps token ids to logits, split into embed / layers(a, b) / head so that stages can hold
    a part.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    vocab_size: int
    num_layers: int
    attention_shape: AttentionShape
    """Of its widest attention layer; decides the attention path."""
    longest_context: int
    """Tokens the model is made for; `--max-model-len` may not exceed it."""

    @abstractmethod
    def __init__(self, config: Mapping[str, Any], max_model_len: int | None = None) -> None:
        """From a Hugging Face config; raises ModelError naming every bad value."""

    @abstractmethod
    def params(self) -> list[Param]:
        """Every weight: where it sits in the checkpoint, its shape, how it is fused and sharded."""

    @abstractmethod
    def kv_cache_specs(self, dtype: Literal["float32", "bfloat16"]) -> list[KVCacheSpec]:
        """One per layer."""

    @abstractmethod
    def embed(self, ops: Ops) -> HiddenState:
        """Token ids to the first residual stream."""

    @abstractmethod
    def layers(self, ops: Ops, state: HiddenState, first: int, last: int) -> HiddenState:
        """Decoder layers first..last-1."""

    @abstractmethod
    def head(self, ops: Ops, state: HiddenState) -> None:
        """Final norm and logits of the step's logit rows."""

    def forward(self, ops: Ops) -> None:
        """The whole model."""
        self.head(ops, self.layers(ops, self.embed(ops), 0, self.num_layers))

    def load_weights(self, loader: WeightLoader) -> None:
        """Fill `weights` from a checkpoint; override to add tables computed at load."""
        self.weights: dict[str, Weight] = loader.load(self.params(), ignored=self.ignored_tensors())

    def ignored_tensors(self) -> tuple[str, ...]:
        """Regular expressions of checkpoint tensors that carry nothing this class reads."""
        return ()
