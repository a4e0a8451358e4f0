"""The executor that runs the model in the engine's own process: a step is run inside `submit`."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.errors import ModelError, VllmRsError
from vllm_rs.exec.backend import Backend, Dtype, StepLimits
from vllm_rs.exec.executor import (
    ExecutorError,
    LifecycleError,
    MemoryReport,
    StageReporter,
    StageTiming,
    StepHandle,
)
from vllm_rs.exec.platform import resolve_dtype, select_attention
from vllm_rs.exec.runner import ModelRunner
from vllm_rs.kv.host_memory import available_memory_bytes
from vllm_rs.models.kv_spec import KVCacheSpec
from vllm_rs.models.loader import ModelSource, build_model
from vllm_rs.sched.plan import StepPlan, StepResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _DoneHandle:
    """A step that has run; a failure is raised where the result is asked for."""

    outcome: StepResult | Exception

    def ready(self) -> bool:
        """Always."""
        return True

    def result(self) -> StepResult:
        """The step's result, or what it raised."""
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class LocalExecutor:
    """`Executor` over one `ModelRunner`. Opens the model's files at once, so that a bad model fails early."""

    def __init__(self, config: EngineConfig, source: ModelSource | None = None) -> None:
        source = source if source is not None else open_model_files(config)
        self._source: ModelSource | None = source
        """Until the weights are packed; then the mapped files are let go."""
        self._model = build_model(source, config.model.max_model_len)
        self.vocab_size = self._model.vocab_size
        self.max_model_len = _resolve_max_model_len(config.model.max_model_len, self._model.longest_context)
        execution, scheduler = config.execution, config.scheduler
        stored = source.config.get("torch_dtype") or source.config.get("dtype")
        dtype = _checked_dtype(resolve_dtype(config.model.dtype, execution.device, stored))
        kv_dtype = (
            dtype if config.cache.kv_cache_dtype == "auto" else _checked_dtype(config.cache.kv_cache_dtype)
        )
        limits = StepLimits(
            max_tokens=scheduler.max_num_batched_tokens,
            max_logit_rows=scheduler.max_num_seqs,
            max_sequences=scheduler.max_num_seqs,
            max_model_len=self.max_model_len,
        )
        make_backend = backend_factory(config, dtype, kv_dtype)
        eager = execution.enforce_eager or execution.device == "torch"
        choice = select_attention(execution.device, self._model.attention_shape, recorded=not eager)
        logger.info("attention: %s: %s", choice.name, choice.reason)
        logger.info(
            "execution: device %s, dtype %s, %s",
            execution.device,
            dtype,
            "call by call (enforce_eager)" if eager else "recorded program, one native call per step",
        )
        self.runner = ModelRunner(make_backend, limits, enforce_eager=eager)

    def initialize(self, reporter: StageReporter | None = None) -> list[StageTiming]:
        """init_device, load_model, profile_run."""
        progress = _progress_of(reporter)
        timings = []
        for stage in (
            self.runner.init_device,
            lambda: self._load_model(progress),
            self.runner.profile_run,
        ):
            timing = stage()
            timings.append(timing)
            if reporter is not None:
                reporter.stage(timing.stage, timing.elapsed_s)
        return timings

    def _load_model(self, progress: Callable[[int, int], None] | None) -> StageTiming:
        source, self._source = self._source, None
        if source is None:
            raise LifecycleError("the model is loaded already")
        return self.runner.load_model(self._model, source, progress)

    def kv_cache_spec(self) -> list[KVCacheSpec]:
        """One per layer."""
        return self.runner.kv_cache_spec()

    def memory_report(self) -> MemoryReport:
        """Weights and workspace."""
        return self.runner.memory_report()

    def determine_available_memory(self) -> int:
        """What the machine, or this control group, still has: weights and touched workspace are taken
        already.
        """
        return available_memory_bytes()

    def allocate_kv_cache(self, num_blocks: int, block_size: int) -> StageTiming:
        """Reserved address space."""
        return self.runner.allocate_kv_cache(num_blocks, block_size)

    def warm_up(self) -> StageTiming:
        """Dummy steps."""
        return self.runner.warm_up()

    def submit(self, plan: StepPlan) -> StepHandle:
        """Runs the step before it returns."""
        try:
            return _DoneHandle(self.runner.execute(plan))
        except VllmRsError as error:
            return _DoneHandle(error)
        except Exception as error:
            failure = ExecutorError(f"step {plan.step_id} failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return _DoneHandle(failure)

    def shutdown(self) -> None:
        """Free threads and memory."""
        self.runner.shutdown()


def open_model_files(config: EngineConfig) -> ModelSource:
    """The resolved model path through the one reader of model files."""
    from vllm_rs import _rust  # here, so that executors over other sources need no native readers

    try:
        files = _rust.ModelFiles.open(config.model.model_path or config.model.model)
    except _rust.ModelFileError as error:
        raise ModelError(
            str(error), hint="--model takes a folder with config.json, or a .gguf file"
        ) from None
    if config.model.load_format not in ("auto", files.format):
        raise ConfigError(f"--load-format {config.model.load_format}: {files.path} holds {files.format}")
    return cast(ModelSource, files)


def backend_factory(config: EngineConfig, dtype: Dtype, kv_dtype: Dtype) -> Callable[[], Backend]:
    """How to make the configured device's backend; torch is imported only when it is the one asked for."""
    execution = config.execution

    def cpu() -> Backend:
        try:
            from vllm_rs.exec.cpu_backend import CpuBackend
        except ImportError as error:
            raise ConfigError(f"--device cpu needs vllm_rs._cpu: {error}; reinstall vllm-rs") from None
        return CpuBackend(dtype, kv_dtype, execution.cpu_threads, execution.cpu_isa)

    def torch_reference() -> Backend:
        try:
            from vllm_rs.exec.torch_backend import TorchBackend
        except ImportError as error:
            raise ConfigError(f"--device torch needs {error.name}: pip install 'vllm-rs[gpu]'") from None
        return TorchBackend(dtype, kv_dtype)

    return torch_reference if execution.device == "torch" else cpu


def _checked_dtype(name: str) -> Dtype:
    if name not in ("float32", "bfloat16"):
        raise ConfigError(f"--dtype: expected float32 or bfloat16, got {name}")
    return cast(Dtype, name)


def _resolve_max_model_len(asked: int | None, longest: int) -> int:
    if asked is not None and asked > longest:
        raise ConfigError(
            f"--max-model-len {asked} exceeds the {longest} tokens the model's config.json allows for"
        )
    return asked or longest


def _progress_of(reporter: StageReporter | None) -> Callable[[int, int], None] | None:
    if reporter is None:
        return None
    return lambda done, total: reporter.progress("load_model", done, total)
