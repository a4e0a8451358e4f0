"""LLMEngine: requests in, one step at a time, RequestOutputs out. The synchronous core of the offline API."""

import time
from collections.abc import Mapping, Sequence
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

Prompt: TypeAlias = str | Sequence[int] | Mapping[str, Any]
"""A text, its token ids, or vLLM's mapping: "prompt" or "prompt_token_ids", and an optional "cache_salt"."""

UINT64_MAX = (1 << 64) - 1

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
        text, token_ids, cache_salt = self._read_prompt(prompt)
        self._check_prompt(token_ids)
        template = params.to_wire(
            self.tokenizer, max_model_len=self.max_model_len, num_prompt_tokens=len(token_ids)
        )
        validate(msgspec.structs.replace(template, n=params.n), self._limits)
        state = RequestState(request_id, text, token_ids, params, self.tokenizer)
        handed_over: list[str] = []
        try:
            for index, child_id in enumerate(state.choices):
                seed = None if params.seed is None else (params.seed + index) & UINT64_MAX
                self._core.add_request(
                    wire.EngineCoreRequest(
                        request_id=child_id,
                        prompt_token_ids=token_ids,
                        mm_features=None,
                        sampling_params=msgspec.structs.replace(template, seed=seed),
                        pooling_params=None,
                        arrival_time=time.time(),
                        cache_salt=cache_salt,
                        priority=priority,
                        external_req_id=request_id,
                    )
                )
                handed_over.append(child_id)
        except BaseException:
            self._core.abort_requests(handed_over)
            raise
        self._requests[request_id] = state
        self._owner_of_child.update(dict.fromkeys(state.choices, request_id))
        return state

    def _read_prompt(self, prompt: Prompt) -> tuple[str | None, list[int], str | None]:
        """(text, token ids, cache salt) of any kind of prompt."""
        if isinstance(prompt, Mapping):
            salt = prompt.get("cache_salt")
            inner = prompt.get("prompt_token_ids", prompt.get("prompt"))
            if inner is None or isinstance(inner, Mapping) or not isinstance(salt, str | None):
                raise RequestError("prompt", "a mapping with 'prompt' or 'prompt_token_ids'", sorted(prompt))
            text, token_ids, _ = self._read_prompt(inner)
            return text, token_ids, salt
        if isinstance(prompt, str):
            return prompt, self.tokenizer.encode(prompt), None
        token_ids = [token for token in prompt if type(token) is int] if isinstance(prompt, Sequence) else []
        if not isinstance(prompt, Sequence) or len(token_ids) != len(prompt):
            raise RequestError("prompt", "a text, token ids, or a mapping of them", prompt)
        return None, token_ids, None

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

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End a request and return its last output, with finish reason `abort`; None for unknown ids."""
        state = self._requests.pop(request_id, None)
        if state is None:
            return None
        self._forget(state)
        self._core.abort_requests(state.unfinished_ids)
        return state.abort()

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
