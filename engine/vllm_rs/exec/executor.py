"""What the engine core needs of whatever runs the model: the only door between scheduling and kernels.

Life cycle, in this order: `initialize` (init_device, load_model, profile_run), `allocate_kv_cache`,
`warm_up`, then any number of `submit`. A call out of order raises `LifecycleError`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vllm_rs.errors import VllmRsError
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.sched.plan import StepPlan, StepResult


class LifecycleError(VllmRsError):
    """A stage of the executor was asked for out of order: a bug of the caller."""

    kind = "LifecycleError"


class ExecutorError(VllmRsError):
    """A step failed in the executor: fatal for the engine."""

    kind = "ExecutorError"


@dataclass(frozen=True)
class StageTiming:
    """One start-up stage and how long it took."""

    stage: str
    elapsed_s: float


@dataclass(frozen=True)
class MemoryReport:
    """What the model takes before any KV cache, for the memory budget table."""

    weights_bytes: int
    workspace_bytes: int
    """Activation buffers and logits at the largest step."""
    profiled_peak_bytes: int
    """Resident growth seen while a dummy step of the largest size ran."""


class StageReporter(Protocol):
    """Hears of start-up progress; calls come from the thread that starts the executor."""

    def stage(self, stage: str, elapsed_s: float) -> None:
        """A stage ended."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` units of a stage are through."""


class StepHandle(Protocol):
    """A submitted step."""

    def ready(self) -> bool:
        """Whether `result` would return at once."""

    def result(self) -> StepResult:
        """Wait for the step; raises what the step raised."""


class Executor(Protocol):
    """Runs steps. The engine core is built with one and never imports kernels."""

    max_model_len: int
    """Longest sequence in tokens, resolved from the model when the configuration leaves it open."""
    vocab_size: int

    def initialize(self, reporter: StageReporter | None = None) -> Sequence[StageTiming]:
        """init_device, load_model, profile_run; returns their times."""

    def kv_cache_spec(self) -> list[KVCacheSpec]:
        """One per layer; known after `initialize`."""

    def memory_report(self) -> MemoryReport:
        """Weights and workspace; known after `initialize`."""

    def determine_available_memory(self) -> int:
        """Bytes the KV cache could take after weights and workspace; known after `initialize`."""

    def allocate_kv_cache(self, num_blocks: int, block_size: int) -> StageTiming:
        """Reserve the cache: `num_blocks` physical blocks of `block_size` tokens in every layer."""

    def warm_up(self) -> StageTiming:
        """Run dummy steps so that the first request is as fast as the tenth."""

    def submit(self, plan: StepPlan) -> StepHandle:
        """Start a step. Plans run in the order of submission; `PreviousToken` refers to the plan submitted
        before.
        """

    def shutdown(self) -> None:
        """Free threads and memory; may be called twice."""
