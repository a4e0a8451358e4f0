"""An engine core in the caller's own process: no sockets, no threads; `poll` runs one step."""

from vllm_rs.config import EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.wire import EngineCoreOutput, EngineCoreRequest


class InprocClient:
    """Calls the engine core directly."""

    def __init__(self, config: EngineConfig) -> None:
        self._core = EngineCore(LocalExecutor(config), config)

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output, in tokens."""
        return self._core.max_model_len

    def add_request(self, request: EngineCoreRequest) -> None:
        """Check and queue a request."""
        self._core.add_request(request)

    def abort_requests(self, request_ids: list[str]) -> None:
        """End requests and free their blocks."""
        self._core.abort_requests(request_ids)

    def poll(self, timeout_s: float | None) -> list[EngineCoreOutput]:
        """One step; `timeout_s` does not matter, as there is nobody to wait for."""
        if not self._core.has_work:
            return []
        return [output for message in self._core.step().values() for output in message.outputs]

    def shutdown(self) -> None:
        """Free the model and the KV cache."""
        self._core.shutdown()
