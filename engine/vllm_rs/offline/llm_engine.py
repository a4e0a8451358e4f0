"""LLMEngine: requests in, one step at a time, RequestOutputs out. The synchronous core of the offline API."""

import time
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from vllm_rs import wire
from vllm_rs._rust import Tokenizer, resolve_model
from vllm_rs.config import EngineConfig
from vllm_rs.errors import RequestError
from vllm_rs.offline.core_client import CoreClient
from vllm_rs.offline.inproc_client import InprocClient
from vllm_rs.offline.outputs import RequestOutput
from vllm_rs.offline.process_client import ProcessClient
from vllm_rs.offline.request_state import RequestState
from vllm_rs.offline.sampling_params import SamplingParams
from vllm_rs.wire_validate import SamplingLimits, validate

Prompt: TypeAlias = str | Sequence[int]
"""A text, or its token ids."""

EnginePlace: TypeAlias = Literal["inproc", "process"]


def resolve_config(keywords: dict[str, Any]) -> EngineConfig:
    """The engine's configuration from the keywords of `LLM()`, with the model resolved to a local path."""
    config = EngineConfig.from_keywords(**keywords)
    path = resolve_model(config.model.model, config.model.download_dir, config.model.revision)
    return config.with_model_path(path)


def connect(config: EngineConfig, place: EnginePlace) -> CoreClient:
    """An engine core in this process, or in one of its own."""
    if place == "inproc":
        return InprocClient(config)
    if place == "process":
        return ProcessClient(config)
    raise RequestError("engine", "'inproc' or 'process'", place)


class LLMEngine:
    """Adds requests and steps the engine; every call comes from one thread."""

    def __init__(self, config: EngineConfig, engine: EnginePlace = "inproc") -> None:
        path = config.model.model_path
        if path is None:
            raise RequestError("model_path", "resolved before the engine starts", path)
        self.config = config
        self.tokenizer = Tokenizer.open(config.model.tokenizer or path)
        self._core = connect(config, engine)
        self._limits = SamplingLimits(
            vocab_size=self.tokenizer.vocab_size, max_model_len=self._core.max_model_len
        )
        self._requests: dict[str, RequestState] = {}
        self._owner_of_child: dict[str, str] = {}

    @classmethod
    def from_engine_args(cls, *, engine: EnginePlace = "inproc", **keywords: Any) -> "LLMEngine":
        """Build from vLLM's engine keywords."""
        return cls(resolve_config(keywords), engine)

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output, in tokens."""
        return self._core.max_model_len

    def add_request(
        self, request_id: str, prompt: Prompt, params: SamplingParams, *, priority: int = 0
    ) -> RequestState:
        """Tokenise, check and hand over one request. Raises RequestError naming the field at fault."""
        if request_id in self._requests:
            raise RequestError("request_id", "unique among unfinished requests", request_id)
        text = prompt if isinstance(prompt, str) else None
        token_ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        self._check_prompt(token_ids)
        template = params.to_wire(
            self.tokenizer, max_model_len=self.max_model_len, num_prompt_tokens=len(token_ids)
        )
        template.n = params.n
        validate(template, self._limits)
        state = RequestState(request_id, text, token_ids, params, self.tokenizer)
        self._requests[request_id] = state
        for index, child_id in enumerate(state.choices):
            seed = None if params.seed is None else params.seed + index
            child = msgspec.structs.replace(template, n=1, seed=seed)
            self._owner_of_child[child_id] = request_id
            self._core.add_request(
                wire.EngineCoreRequest(
                    request_id=child_id,
                    prompt_token_ids=token_ids,
                    mm_features=None,
                    sampling_params=child,
                    pooling_params=None,
                    arrival_time=time.time(),
                    priority=priority,
                    external_req_id=request_id,
                )
            )
        return state

    def _check_prompt(self, token_ids: list[int]) -> None:
        if not token_ids:
            raise RequestError("prompt", "at least one token long", token_ids)
        if len(token_ids) >= self.max_model_len:
            raise RequestError(
                "prompt", f"shorter than max_model_len={self.max_model_len} tokens", len(token_ids)
            )
        vocab_size = self.tokenizer.vocab_size
        bad = next((token for token in token_ids if not 0 <= token < vocab_size), None)
        if bad is not None:
            raise RequestError("prompt", f"token ids in [0, {vocab_size})", bad)

    def has_unfinished_requests(self) -> bool:
        """Whether a step would have something to do."""
        return bool(self._requests)

    def abort_request(self, request_id: str) -> None:
        """Forget a request; unknown ids are ignored."""
        state = self._requests.pop(request_id, None)
        if state is not None:
            self._forget(state)
            self._core.abort_requests(list(state.choices))

    def step(self, timeout_s: float | None = None) -> list[RequestOutput]:
        """One iteration of the engine: the outputs of every request that it touched."""
        touched: dict[str, RequestState] = {}
        aborts: list[str] = []
        for output in self._core.poll(timeout_s):
            request_id = self._owner_of_child.get(output.request_id)
            if request_id is None:
                continue  # aborted here while the engine was already answering
            state = self._requests[request_id]
            if state.apply(output):
                aborts.append(output.request_id)
            touched[request_id] = state
        if aborts:
            self._core.abort_requests(aborts)
        shown = []
        for request_id, state in touched.items():
            visible = state.output()
            if not state.unfinished_ids:
                self._forget(self._requests.pop(request_id))
            if visible is not None:
                shown.append(visible)
        return shown

    def _forget(self, state: RequestState) -> None:
        for child_id in state.choices:
            self._owner_of_child.pop(child_id, None)

    def shutdown(self) -> None:
        """Stop the engine."""
        self._core.shutdown()
