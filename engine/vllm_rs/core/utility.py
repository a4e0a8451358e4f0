"""Utility calls: named operations on the engine, run between two steps. Each gives a result or a named
failure.
"""

import inspect
from collections.abc import Callable
from typing import Any

from vllm_rs.core.engine_core import EngineCore, StepOutputs
from vllm_rs.errors import UtilityError
from vllm_rs.wire import UtilityOutput, UtilityRequest

PAUSE_MODES = ("abort", "keep")

_NOT_BUILT: dict[str, str] = {
    "add_lora": "adapters are not supported by this engine",
    "remove_lora": "adapters are not supported by this engine",
    "pin_lora": "adapters are not supported by this engine",
    "profile": "the profiler is not built into this engine",
    "sleep": "sleep mode is not supported by this engine; stop and start it instead",
    "wake_up": "sleep mode is not supported by this engine",
    "release_kv_cache_memory": "sleep mode is not supported by this engine",
    "save_sharded_state": "this engine does not write weights",
    "compute_weight_checksums": "this engine does not take new weights while it runs",
    "collective_rpc": "code is never called by name across processes",
    "reinitialize_distributed": "elastic expert parallelism is not supported by this engine",
    "commit_prepared_elastic_ep": "elastic expert parallelism is not supported by this engine",
    "handle_fault_tolerance": "fault tolerance is handled by the process that owns this engine",
}
"""Names of the protocol that this engine answers with a reason."""


class UtilityCalls:
    """The registry. A call may end requests; their last outputs are in `pending_outputs`."""

    def __init__(self, core: EngineCore) -> None:
        self._core = core
        self.pending_outputs: list[StepOutputs] = []
        self._methods: dict[str, Callable[..., Any]] = {
            "get_supported_tasks": self.get_supported_tasks,
            "reset_prefix_cache": self.reset_prefix_cache,
            "reset_mm_cache": self.reset_mm_cache,
            "reset_encoder_cache": self.reset_mm_cache,
            "is_sleeping": self.is_sleeping,
            "list_loras": self.list_loras,
            "pause_scheduler": self.pause_scheduler,
            "resume_scheduler": self.resume_scheduler,
            "is_scheduler_paused": self.is_scheduler_paused,
            "execute_dummy_batch": self.execute_dummy_batch,
            "set_weight_version": self.set_weight_version,
            "get_weight_version": self.get_weight_version,
        }

    def call(self, request: UtilityRequest) -> UtilityOutput:
        """Run one call; never raises on account of the caller."""
        try:
            value = self._call(request.method, request.args)
        except UtilityError as error:
            return UtilityOutput(request.call_id, f"Call to {request.method} method failed: {error}")
        return UtilityOutput(request.call_id, None, (None, value))

    def _call(self, name: str, args: list[Any]) -> Any:
        if name in _NOT_BUILT:
            raise UtilityError(_NOT_BUILT[name])
        method = self._methods.get(name)
        if method is None:
            raise UtilityError(f"no such method; there are {', '.join(sorted(self._methods))}")
        try:
            bound = inspect.signature(method).bind(*args)
        except TypeError as error:
            raise UtilityError(str(error)) from None
        return method(*bound.args)

    def get_supported_tasks(self) -> list[str]:
        """What the model can be asked for."""
        return ["generate"]

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Forget cached prefixes; False while requests hold blocks."""
        return self._core.scheduler.reset_prefix_cache()

    def reset_mm_cache(self) -> None:
        """There is no media cache, so it is empty already."""

    def is_sleeping(self) -> bool:
        """This engine does not sleep."""
        return False

    def list_loras(self) -> list[int]:
        """Adapters loaded: none."""
        return []

    def pause_scheduler(self, mode: str = "abort", clear_cache: bool = True) -> None:
        """Run no more steps. Mode "abort" ends the requests there are, "keep" leaves them where they are."""
        if mode not in PAUSE_MODES:
            raise UtilityError(f"mode must be one of {', '.join(PAUSE_MODES)}, got {mode!r}")
        self._core.is_paused = True
        if mode == "abort":
            self.pending_outputs.append(self._core.abort_all())
            if clear_cache:
                self._core.scheduler.reset_prefix_cache()

    def resume_scheduler(self) -> None:
        """Run steps again."""
        self._core.is_paused = False

    def is_scheduler_paused(self) -> bool:
        """Whether `pause_scheduler` is in force."""
        return self._core.is_paused

    def execute_dummy_batch(self) -> None:
        """Only expert-parallel engines must step together; this one has nothing to do."""

    def set_weight_version(self, version: str) -> None:
        """Name stamped on every message from now on."""
        if not isinstance(version, str):
            raise UtilityError(f"version must be a string, got {type(version).__name__}")
        self._core.weight_version = version

    def get_weight_version(self) -> str:
        """The name stamped on messages."""
        return self._core.weight_version
