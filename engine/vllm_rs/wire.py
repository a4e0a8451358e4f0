"""The EngineCore protocol as msgspec structs; field order and names are the wire contract.

Structs marked `array_like` are positional: they may grow at the end only. The others are maps: unknown
keys are ignored. Bytes are made and read in `wire_codec`.
"""

import enum
from typing import Any, NamedTuple

import msgspec
import numpy as np

ENGINE_CORE_DEAD = b"ENGINE_CORE_DEAD"
"""The single frame an engine sends on every output socket when it dies of a fatal error."""


class RequestType(bytes, enum.Enum):
    """First frame of a message from client to engine."""

    ADD = b"\x00"
    ABORT = b"\x01"
    START_DP_WAVE = b"\x02"
    UTILITY = b"\x03"


class FinishReason(enum.IntEnum):
    """Why a request ended. REPETITION is repeated-pattern detection, not the penalty."""

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4


class EventType(enum.IntEnum):
    """Life-cycle events of a request."""

    QUEUED = 1
    SCHEDULED = 2
    PREEMPTED = 3


class Tensor:
    """A torch-style tensor on the wire: `dtype` is a torch name; `array` holds the data (bfloat16 as uint16
    bits).
    """

    __slots__ = ("array", "dtype")

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self.array = array
        self.dtype = dtype


NdArray = np.ndarray[Any, Any]


class RepetitionDetection(msgspec.Struct, omit_defaults=True):
    """Ends a request whose tail repeats a pattern of min..max_pattern_size tokens min_count times."""

    max_pattern_size: int = 0
    min_pattern_size: int = 0
    min_count: int = 0


class StructuredOutputsParams(msgspec.Struct):
    """Exactly one of the first six constraints is set."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    disable_any_whitespace: bool = False
    disable_additional_properties: bool = False
    whitespace_pattern: str | None = None
    structural_tag: str | None = None
    _backend: str | None = None
    _backend_was_auto: bool = False


class SamplingParams(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How to sample one request (map; keys equal to their default are dropped)."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    watermarking: bool | None = None
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    prompt_logprob_token_ids: NdArray | None = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    output_kind: int = 0
    stream_interval: int | None = None
    skip_clone: bool = False
    output_text_buffer_length: int = 0
    _eos_token_id: int | None = None
    _all_stop_token_ids: set[int] = msgspec.field(default_factory=set)
    _watermarking_skipped: bool = False
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None
    _bad_words_token_ids: list[list[int]] | None = None
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    repetition_detection: RepetitionDetection | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: list[int] | None = None


class PoolingParams(msgspec.Struct, array_like=True):
    """How to pool one request; `task` is embed, classify, token_embed, token_classify or plugin."""

    use_activation: bool | None = None
    dimensions: int | None = None
    step_tag_id: int | None = None
    returned_token_ids: list[int] | None = None
    task: str | None = None
    requires_token_ids: bool = False
    skip_reading_prefix_cache: bool | None = None
    late_interaction_params: list[Any] | None = None
    extra_kwargs: dict[str, Any] | None = None
    output_kind: int = 2


class LoRARequest(msgspec.Struct, array_like=True):
    """The adapter a request runs with."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""
    base_model_name: str | None = None
    load_inplace: bool = False
    is_3d_lora_weight: bool = False


class PlaceholderRange(msgspec.Struct):
    """Where a media item sits in the prompt, in tokens."""

    offset: int
    length: int
    is_embed: Tensor | None = None


class MultiModalFeature(msgspec.Struct):
    """One media item of a request."""

    data: dict[str, Any] | None
    modality: str
    identifier: str
    mm_position: PlaceholderRange
    mm_hash: str | None = None


class EngineCoreRequest(msgspec.Struct, array_like=True):
    """ADD: one request for one sequence (22 slots)."""

    request_id: str
    prompt_token_ids: list[int] | None
    mm_features: list[MultiModalFeature] | None
    sampling_params: SamplingParams | None
    pooling_params: PoolingParams | None
    arrival_time: float
    lora_request: LoRARequest | None = None
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    prompt_embeds: Tensor | None = None
    prompt_is_token_ids: list[bool] | None = None
    client_index: int = 0
    current_wave: int = 0
    priority: int = 0
    trace_headers: dict[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    abort_immediately: bool = False
    session_id: str | None = None
    kv_hints: dict[str, Any] | None = None


class UtilityRequest(msgspec.Struct, array_like=True):
    """UTILITY: a named call with positional arguments."""

    client_index: int
    call_id: int
    method: str
    args: list[Any]


class LogprobsLists(NamedTuple):
    """Logprobs of sampled tokens: int32 [positions, k+1], float32 [positions, k+1], int64 [positions]."""

    token_ids: NdArray
    logprobs: NdArray
    ranks: NdArray
    cu_num_generated_tokens: list[int] | None = None


class LogprobsTensors(NamedTuple):
    """Logprobs of the prompt as torch tensors of the same shapes; row i scores prompt token i + 1."""

    token_ids: Tensor
    logprobs: Tensor
    ranks: Tensor
    cu_num_generated_tokens: list[int] | None = None
    reserved: None = None


class SamplingMaskLists(NamedTuple):
    """Which tokens sampling could have chosen."""

    token_ids: NdArray
    offsets: NdArray | None = None
    reserved: None = None


class EngineCoreEvent(msgspec.Struct):
    """A life-cycle event; `timestamp` is the engine's monotonic clock in seconds."""

    type: EventType
    timestamp: float


class PrefillStats(msgspec.Struct):
    """How much of the prompt was computed and how much came from a cache, in tokens."""

    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0
    num_cache_creation_tokens: int = 0


class SpecDecodeMetrics(msgspec.Struct):
    """How speculation went for one request (in its last message)."""

    num_spec_tokens: int = 0
    histogram: list[int] = []
    num_draft_tokens: int = 0
    per_step_accepted: list[int] | None = None
    per_step_drafted: list[int] | None = None


class EngineCoreOutput(msgspec.Struct, array_like=True):
    """What one step gave one request (18 slots). A finish_reason makes it the request's last message."""

    request_id: str
    new_token_ids: list[int]
    new_logprobs: LogprobsLists | None = None
    new_prompt_logprobs_tensors: LogprobsTensors | None = None
    pooling_output: Tensor | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    events: list[EngineCoreEvent] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None
    trace_headers: dict[str, str] | None = None
    prefill_stats: PrefillStats | None = None
    routed_experts: NdArray | None = None
    num_nans_in_logits: int = 0
    mm_cache_miss_hashes: list[str] | None = None
    new_sampling_mask: SamplingMaskLists | None = None
    spec_decode_metrics: SpecDecodeMetrics | None = None
    prompt_token_id_logprobs: Tensor | None = None


class PrefixCacheStats(msgspec.Struct):
    """Prefix cache look-ups since the last message, in requests and tokens."""

    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    hits_by_source: dict[str, int] = {}


class IterationDetails(msgspec.Struct):
    """What one step ran."""

    iteration_index: int
    num_ctx_requests: int
    num_ctx_tokens: int
    num_generation_requests: int
    num_generation_tokens: int
    elapsed_ms: float | None = None
    num_encoder_inputs: int = 0
    num_encoder_output_tokens: int = 0
    is_dummy: bool = False


class KVCacheEvictionEvent(msgspec.Struct):
    """One evicted cached block: how long it lived and lay idle, in seconds."""

    lifetime_seconds: float
    idle_seconds: float
    reuse_gaps_seconds: list[float] = []


class SpecDecodingStats(msgspec.Struct):
    """Speculation since the last message."""

    num_spec_tokens: int
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = []
    num_draft_tokens_per_pos: list[int] = []


class SchedulerStats(msgspec.Struct):
    """State of the scheduler: gauges (num_*_reqs, usage) as they are, counters since the last message."""

    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    num_kv_fetch_reqs_by_stage: dict[str, int] = {}
    step_counter: int = 0
    current_wave: int = 0
    kv_cache_usage: float = 0.0
    iteration_details: IterationDetails | None = None
    prefix_cache_stats: PrefixCacheStats = msgspec.field(default_factory=PrefixCacheStats)
    connector_prefix_cache_stats: PrefixCacheStats | None = None
    kv_cache_eviction_events: list[KVCacheEvictionEvent] = []
    spec_decoding_stats: SpecDecodingStats | None = None
    kv_connector_stats: dict[str, Any] | None = None
    ec_connector_stats: dict[str, Any] | None = None
    waiting_lora_adapters: dict[str, int] = {}
    running_lora_adapters: dict[str, int] = {}
    cudagraph_stats: dict[str, Any] | None = None
    perf_stats: dict[str, Any] | None = None


class UtilityOutput(msgspec.Struct, array_like=True):
    """Answer to a utility call; `failure_message` set means it failed. `result` is [nil, value]."""

    call_id: int
    failure_message: str | None = None
    result: tuple[None, Any] | None = None


class EngineCoreOutputs(msgspec.Struct, array_like=True):
    """One message from engine to client (9 slots)."""

    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: SchedulerStats | None = None
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: set[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None
    weight_version: str | None = None


class EngineCoreReadyResponse(msgspec.Struct):
    """Registration on a client's input socket (map). `extensions` is ours; foreign clients ignore it."""

    max_model_len: int
    num_gpu_blocks: int
    block_size: int
    dp_stats_address: str | None
    dtype: str
    vllm_version: str
    world_size: int
    data_parallel_size: int
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    data_parallel_rank: int
    max_num_seqs: int
    max_num_batched_tokens: int
    instance_id: str
    supports_lora: bool
    max_loras: int
    mamba_block_size: int | None = None
    kv_cache_size_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_events_config: dict[str, Any] | None = None
    weight_transfer_backend: str | None = None
    enable_sleep_mode: bool = False
    supports_draft_weight_updates: bool = False
    effective_attention_block_size: int | None = None
    extensions: dict[str, Any] = {}


class HandshakeStatus(msgspec.Struct, omit_defaults=True):
    """HELLO and READY from engine to launcher."""

    status: str
    local: bool
    headless: bool
    parallel_config_hash: str | None = None


class HandshakeAddresses(msgspec.Struct):
    """Where the sockets are; one input and output per client process."""

    inputs: list[str]
    outputs: list[str]
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    frontend_stats_publish_address: str | None = None


class HandshakeInit(msgspec.Struct):
    """INIT from launcher to engine. `extensions` is ours: version and build id of the frontend."""

    addresses: HandshakeAddresses
    parallel_config: dict[str, Any] = {}
    extensions: dict[str, Any] = {}
