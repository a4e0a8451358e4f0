"""One request as the scheduler sees it: tokens, how far they are computed, and what ends it."""

import enum
from collections.abc import Mapping

from vllm_rs.kv.hashing import BlockHashChain, ExtraKeys, root_hash
from vllm_rs.sched.plan import PromptLogprobs
from vllm_rs.wire import EngineCoreEvent, EngineCoreRequest, FinishReason, PrefillStats, SamplingParams


class RequestStatus(enum.Enum):
    """Where a request is: in exactly one of the waiting queue, the running list, or gone."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    """Waiting again, its blocks given up."""
    FINISHED = enum.auto()


class Request:
    """State of one request between arrival and its last output.

        |------ num_prompt_tokens ------|---- output ----|- pending -|- drafts -|
        |---------------- token_ids (known) -------------|
        |--- num_computed_tokens ---|------ to run ------------------------------|

    Pending tokens are sampled by a step that is planned but not committed; drafts are guesses to be verified.
    """

    __slots__ = (
        "arrival_order",
        "arrival_time",
        "block_hashes",
        "client_index",
        "draft_token_ids",
        "eos_token_id",
        "events",
        "finish_reason",
        "is_known_to_executor",
        "last_row",
        "max_total_tokens",
        "min_total_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_dropped_tokens",
        "num_hashed_blocks",
        "num_pending_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_results_to_discard",
        "num_sent_blocks",
        "params",
        "prefill_stats",
        "priority",
        "prompt_logprobs",
        "prompt_logprobs_done",
        "request_id",
        "seed",
        "skip_prefix_lookup",
        "slot",
        "status",
        "stop_reason",
        "stop_token_ids",
        "token_ids",
        "trace_headers",
    )

    def __init__(
        self,
        wire: EngineCoreRequest,
        params: SamplingParams,
        prompt_token_ids: list[int],
        *,
        seed: int,
        max_model_len: int,
        block_size: int,
        extra_keys: Mapping[int, ExtraKeys] | None = None,
    ) -> None:
        self.request_id = wire.request_id
        self.client_index = wire.client_index
        self.priority = wire.priority
        """Smaller is more important."""
        self.arrival_time = wire.arrival_time
        self.arrival_order = 0
        """Set by the scheduler; breaks ties and names the latest arrival."""
        self.trace_headers = wire.trace_headers
        self.params = params
        self.seed = seed
        self.token_ids = list(prompt_token_ids)
        self.num_prompt_tokens = len(prompt_token_ids)
        self.num_computed_tokens = 0
        """Tokens whose KV exists, or will once all planned steps have run."""
        self.num_pending_tokens = 0
        self.draft_token_ids: list[int] = []
        self.last_row = 0
        """Row in the plan that samples the pending token."""
        self.num_results_to_discard = 0
        """Results still to come from steps planned before a preemption; the request may not resume
        earlier.
        """
        self.status = RequestStatus.WAITING
        self.slot: int | None = None
        self.is_known_to_executor = False
        max_tokens = params.max_tokens if params.max_tokens is not None else max_model_len
        self.max_total_tokens = min(self.num_prompt_tokens + max_tokens, max_model_len)
        self.min_total_tokens = self.num_prompt_tokens + params.min_tokens
        self.eos_token_id = None if params.ignore_eos else params._eos_token_id
        self.stop_token_ids = frozenset(params.stop_token_ids or ())
        adapter = wire.lora_request.lora_name if wire.lora_request is not None else None
        root = root_hash(cache_salt=wire.cache_salt, adapter=adapter)
        self.block_hashes = BlockHashChain(block_size, root, dict(extra_keys or {}))
        self.num_hashed_blocks = 0
        """Leading blocks of the current table already offered to the prefix index."""
        self.skip_prefix_lookup = bool(params.skip_reading_prefix_cache) or params.prompt_logprobs is not None
        """Prompt logprobs need every prompt position computed."""
        self.num_sent_blocks = 0
        """Leading blocks of the current table that the executor has heard of."""
        self.num_cached_tokens = 0
        self.num_preemptions = 0
        self.num_dropped_tokens = 0
        """Computed tokens whose KV the last preemption gave up."""
        self.events: list[EngineCoreEvent] = []
        self.prefill_stats: PrefillStats | None = None
        """Of the first prefill; sent with the first output."""
        self.prompt_logprobs: list[PromptLogprobs] = []
        self.prompt_logprobs_done = params.prompt_logprobs is None
        self.finish_reason: FinishReason | None = None
        self.stop_reason: int | str | None = None

    @property
    def num_tokens(self) -> int:
        """Target of the computed count: prompt, output, pending and draft tokens."""
        return len(self.token_ids) + self.num_pending_tokens + len(self.draft_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens emitted so far."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def output_token_ids(self) -> list[int]:
        """Tokens emitted so far."""
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def prompt_token_ids(self) -> list[int]:
        """The prompt."""
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def importance(self) -> tuple[int, int]:
        """Sort key of the priority policy: smaller goes first."""
        return (self.priority, self.arrival_order)

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id}, {self.status.name}, computed {self.num_computed_tokens}"
            f" of {self.num_tokens} tokens)"
        )
