"""What the offline API needs of an engine core, wherever it runs."""

from typing import Protocol

from vllm_rs.wire import EngineCoreOutput, EngineCoreRequest


class CoreClient(Protocol):
    """An engine core in this process or behind sockets. Not thread-safe: one thread drives it."""

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output, in tokens."""

    def add_request(self, request: EngineCoreRequest) -> None:
        """Hand a request over; its outputs come from `poll`."""

    def abort_requests(self, request_ids: list[str]) -> None:
        """Forget requests. Nothing more is answered for them."""

    def poll(self, timeout_s: float | None) -> list[EngineCoreOutput]:
        """Outputs of the next step: in process, runs that step; else waits for it, at most `timeout_s`
        seconds (None = as long as it takes). Raises EngineDeadError when the engine is gone."""

    def shutdown(self) -> None:
        """Stop the engine and free what it holds; may be called twice."""
