"""The CPU device: one thread pool, one recorded program, native sampling. Never imports torch."""

from collections.abc import Sequence

from vllm_rs import _cpu
from vllm_rs.config import ConfigError
from vllm_rs.errors import InvariantError
from vllm_rs.exec.backend import F32, Dtype, SampleResult, StepLimits
from vllm_rs.exec.host_cpus import default_threads
from vllm_rs.exec.ops.cpu_ops import CpuOps, CpuPacker
from vllm_rs.exec.step import I32, StepArrays
from vllm_rs.models.base import CausalLM
from vllm_rs.models.kv_spec import KVCacheSpec


class CpuBackend(CpuPacker):
    """Records the model at `build`; every step is then one native call with the GIL released."""

    name = "cpu"

    def __init__(self, compute_dtype: Dtype, kv_dtype: Dtype, threads: int | None, isa: str = "auto") -> None:
        if isa != "auto":
            if isa not in _cpu.available_isas():
                offered = ", ".join(_cpu.available_isas())
                raise ConfigError(f"--cpu-isa: this CPU offers {offered}, got {isa}")
            _cpu.set_isa(isa)
        self.num_threads = threads or default_threads()
        self._threads = _cpu.ThreadPool(self.num_threads)
        super().__init__(self._threads, compute_dtype)
        self.kv_dtype: Dtype = kv_dtype
        self._program: _cpu.Program | None = None
        self._sampler: _cpu.Sampler | None = None
        self._kv: _cpu.KVCache | None = None
        self._head_op = 0

    @property
    def program(self) -> _cpu.Program:
        """The recorded step."""
        if self._program is None:
            raise InvariantError("the model is not recorded yet")
        return self._program

    @property
    def sampler(self) -> _cpu.Sampler:
        """Native sampling state."""
        if self._sampler is None:
            raise InvariantError("the model is not recorded yet")
        return self._sampler

    @property
    def kv_cache(self) -> _cpu.KVCache | None:
        """None until allocated."""
        return self._kv

    @property
    def weights_bytes(self) -> int:
        """Packed matrices, norms and tables."""
        return self.packed_bytes

    @property
    def workspace_bytes(self) -> int:
        """Planned buffers of the program."""
        return self.program.workspace_bytes

    def build(self, model: CausalLM, limits: StepLimits) -> None:
        """Record the model. The head's inputs are kept, so that it can run again for other rows of a step."""
        self._program, self._head_op = record(model, self._threads, limits, self.compute_dtype)
        self._sampler = _cpu.Sampler(self._threads, limits.max_sequences, model.vocab_size)

    def allocate_kv_cache(self, specs: Sequence[KVCacheSpec], num_blocks: int, block_size: int) -> None:
        """All layers alike, one arena."""
        if len(set(specs)) != 1:
            raise InvariantError("layers with different caches need one arena each")
        spec = specs[0]
        self._kv = _cpu.KVCache(
            len(specs), num_blocks, block_size, spec.num_kv_heads, spec.head_dim, spec.dtype
        )

    def forward(self, step: StepArrays, *, eager: bool = False) -> None:
        """Replay the program."""
        if eager:
            for op in range(self.program.num_ops):
                self._run(step, step.logit_rows, op, op)
        else:
            self._run(step, step.logit_rows, 0, -1)

    def forward_head(self, step: StepArrays, logit_rows: I32) -> None:
        """Replay from the row gather on."""
        self._run(step, logit_rows, self._head_op, -1)

    def _run(self, step: StepArrays, logit_rows: I32, first_op: int, last_op: int) -> None:
        tables = step.block_tables[0]
        self.program.run(
            self._kv, step.token_ids, step.positions, step.query_start, tables, logit_rows, first_op, last_op
        )

    def logits(self) -> F32:
        """View into the program."""
        return self.program.logits_view()

    def sample(self, logit_indices: I32, slots: I32, positions: I32) -> SampleResult:
        """Native."""
        return self.sampler.sample(self.program, logit_indices, slots, positions)

    def score(self, logit_indices: I32, target_ids: I32, num_logprobs: int) -> tuple[I32, F32, I32]:
        """Native."""
        return self.sampler.score(self.program, logit_indices, target_ids, num_logprobs)

    def shutdown(self) -> None:
        """Drop the native objects; their threads end with the pool."""
        self._program = self._sampler = self._kv = None


def record(
    model: CausalLM, pool: _cpu.ThreadPool, limits: StepLimits, compute_dtype: Dtype
) -> tuple[_cpu.Program, int]:
    """(finalized program, index of the head's first call)."""
    program = _cpu.Program(pool, limits.max_tokens, limits.max_logit_rows, limits.max_sequences)
    ops = CpuOps(program, compute_dtype)
    state = model.layers(ops, model.embed(ops), 0, model.num_layers)
    for kept in (state.residual, state.delta):
        if kept is not None:
            program.keep(kept.handle)
    head_op = program.num_ops
    model.head(ops, state)
    program.finalize()
    return program, head_op
