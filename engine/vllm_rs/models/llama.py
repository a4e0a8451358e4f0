"""The Llama family: pre-norm decoder, grouped-query attention with rotary positions, gated SiLU MLP."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from vllm_rs.models.base import Capabilities, CausalLM, HiddenState
from vllm_rs.models.config import LlamaConfig
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.ops import AttentionShape, Ops, Tensor, Weight
from vllm_rs.models.params import LinearParam, Param, VectorParam, WeightLoader
from vllm_rs.models.registry import register_model
from vllm_rs.models.rope import cos_sin_table, longest_context

_GGUF_ROPE_FACTORS = "rope_freqs.weight"


@register_model("LlamaForCausalLM", "LLaMAForCausalLM")
class LlamaForCausalLM(CausalLM):
    """Llama 1 to 3, SmolLM and other models of the same shape."""

    capabilities: ClassVar[Capabilities] = Capabilities(pipeline_parallel=True, tensor_parallel=True)
    default_sliding_window: ClassVar[int] = 0

    def __init__(self, config: Mapping[str, Any], max_model_len: int | None = None) -> None:
        self.config = c = LlamaConfig.parse(config, default_sliding_window=self.default_sliding_window)
        self.vocab_size = c.vocab_size
        self.num_layers = c.num_layers
        self.longest_context = longest_context(c.rope)
        self.max_model_len = max_model_len or self.longest_context
        window = c.sliding_window if c.sliding_window < self.max_model_len else 0
        self.attention_shape = AttentionShape(
            c.num_heads, c.num_kv_heads, c.head_dim, c.head_dim**-0.5, window
        )
        self.cos_sin: Weight = None

    def params(self) -> list[Param]:
        """Projections that read the same input are fused: q|k|v and gate|up."""
        c = self.config
        embed = LinearParam(
            "embed_tokens", (("model.embed_tokens", c.vocab_size),), c.hidden_size, shard_dim=0
        )
        found: list[Param] = [embed, VectorParam("norm", "model.norm.weight", c.hidden_size)]
        for layer in range(c.num_layers):
            found += self._layer_params(layer)
        if not c.tie_word_embeddings:
            found.append(LinearParam("lm_head", (("lm_head", c.vocab_size),), c.hidden_size, shard_dim=0))
        return found

    def _layer_params(self, layer: int) -> list[Param]:
        c, ours, theirs = self.config, f"layers.{layer}.", f"model.layers.{layer}."
        attention, mlp = theirs + "self_attn.", theirs + "mlp."
        q_width, kv_width = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
        qkv = (
            (attention + "q_proj", q_width),
            (attention + "k_proj", kv_width),
            (attention + "v_proj", kv_width),
        )
        gate_up = ((mlp + "gate_proj", c.intermediate_size), (mlp + "up_proj", c.intermediate_size))
        o, down = ((attention + "o_proj", c.hidden_size),), ((mlp + "down_proj", c.hidden_size),)
        return [
            VectorParam(ours + "input_norm", theirs + "input_layernorm.weight", c.hidden_size),
            LinearParam(ours + "qkv", qkv, c.hidden_size, c.attention_bias, shard_dim=0),
            LinearParam(ours + "o", o, q_width, c.attention_bias, shard_dim=1),
            VectorParam(ours + "post_norm", theirs + "post_attention_layernorm.weight", c.hidden_size),
            LinearParam(ours + "gate_up", gate_up, c.hidden_size, c.mlp_bias, shard_dim=0),
            LinearParam(ours + "down", down, c.intermediate_size, c.mlp_bias, shard_dim=1),
        ]

    def ignored_tensors(self) -> tuple[str, ...]:
        """Frequencies are computed here; a tied checkpoint may still carry a copy of the head."""
        tied = (r"lm_head\.weight",) if self.config.tie_word_embeddings else ()
        return (r".*rotary_emb\.inv_freq", r"rope_freqs\.weight", *tied)

    def load_weights(self, loader: WeightLoader) -> None:
        """Checkpoint tensors, then the rotary table up to max_model_len."""
        super().load_weights(loader)
        factors = None
        if loader.has(_GGUF_ROPE_FACTORS):
            factors = loader.read_f32(_GGUF_ROPE_FACTORS, (self.config.rope.rotary_dim // 2,))
        self.cos_sin = loader.packer.pack_vector(cos_sin_table(self.config.rope, self.max_model_len, factors))

    def kv_cache_specs(self, dtype: Literal["float32", "bfloat16"]) -> list[KVCacheSpec]:
        """Every layer keeps all its keys (a sliding window masks, it does not free)."""
        return [KVCacheSpec(self.config.num_kv_heads, self.config.head_dim, dtype)] * self.num_layers

    def embed(self, ops: Ops) -> HiddenState:
        """[tokens, hidden]."""
        return HiddenState(ops.all_reduce(ops.embedding(self.weights["embed_tokens"])))

    def layers(self, ops: Ops, state: HiddenState, first: int, last: int) -> HiddenState:
        """Each layer: norm, attention, norm, MLP; the additions to the residual are fused into the norms."""
        for layer in range(first, last):
            hidden = self._norm(ops, state, f"layers.{layer}.input_norm")
            state = HiddenState(state.residual, self._attend(ops, hidden, layer))
            hidden = self._norm(ops, state, f"layers.{layer}.post_norm")
            state = HiddenState(state.residual, self._mlp(ops, hidden, layer))
        return state

    def head(self, ops: Ops, state: HiddenState) -> None:
        """Only the logit rows are normed and multiplied with the head."""
        delta = None if state.delta is None else ops.gather_rows(state.delta)
        rows = HiddenState(ops.gather_rows(state.residual), delta)
        lm_head = "embed_tokens" if self.config.tie_word_embeddings else "lm_head"
        ops.logits(self._norm(ops, rows, "norm"), self.weights[lm_head])

    def _norm(self, ops: Ops, state: HiddenState, name: str) -> Tensor:
        weight, eps = self.weights[name], self.config.rms_norm_eps
        if state.delta is None:
            return ops.rms_norm(state.residual, weight, eps)
        return ops.add_rms_norm(state.residual, state.delta, weight, eps)

    def _attend(self, ops: Ops, hidden: Tensor, layer: int) -> Tensor:
        qkv = ops.linear(hidden, self.weights[f"layers.{layer}.qkv"])
        ops.rope_kv_write(qkv, self.attention_shape, self.cos_sin, layer)
        mixed = ops.paged_attention(qkv, self.attention_shape, layer)
        return ops.all_reduce(ops.linear(mixed, self.weights[f"layers.{layer}.o"]))

    def _mlp(self, ops: Ops, hidden: Tensor, layer: int) -> Tensor:
        gated = ops.silu_mul(ops.linear(hidden, self.weights[f"layers.{layer}.gate_up"]))
        return ops.all_reduce(ops.linear(gated, self.weights[f"layers.{layer}.down"]))


@register_model("MistralForCausalLM")
class MistralForCausalLM(LlamaForCausalLM):
    """Llama with a sliding window in every layer, 4096 where the file does not say."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        pipeline_parallel=True, tensor_parallel=True, sliding_window=True
    )
    default_sliding_window: ClassVar[int] = 4096
