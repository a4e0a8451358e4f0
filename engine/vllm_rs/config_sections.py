"""Configuration sections: generated from frontend-rs/flags/flags.toml by generate.py; do not edit.

`vllm_rs.config.EngineConfig` holds one of each and decodes them strictly.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec


class RefusedKeyword(NamedTuple):
    """A keyword of vLLM that we know and lack."""

    instead: str
    accepts: tuple[str, ...]
    """Values that ask for what happens anyway."""


class ModelConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `model`."""

    model: str = "smollm2"
    """What to serve: an embedded name (smollm2), a local folder or .gguf file, or a hub repository id."""
    model_path: str | None = None
    """The local folder or .gguf file that `model` was resolved to."""
    served_model_name: list[str] = []
    """Names clients may use for the model; the first is the one reported. Default: the model as given."""
    tokenizer: str | None = None
    """Local folder or .gguf file to take the tokenizer from, when it is not the model's own."""
    revision: str | None = None
    """Branch, tag or commit of the hub repository."""
    download_dir: str | None = None
    """Folder for downloaded models. Default: VLLM_RS_CACHE, or vllm-rs in the user's cache folder."""
    load_format: Literal["auto", "safetensors", "gguf"] = "auto"
    """Format of the weights; auto looks at the files. Pickled formats (.bin, .pt) are refused."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Arithmetic of weights and activations. auto: bfloat16 on CPU. float32 is the reference the tests use.
    float16 is refused on CPU."""
    max_model_len: Annotated[int, msgspec.Meta(ge=1, le=16777216)] | None = None
    """Longest prompt plus output of one request. Default: what the model's config says, lowered to what
    memory holds when auto [tokens]."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=9223372036854775807)] | None = None
    """Base seed for requests that carry none. Default: drawn at start."""
    max_logprobs: Annotated[int, msgspec.Meta(ge=-1, le=1048576)] = 20
    """Most log-probabilities per token a request may ask for; -1 = as many as the vocabulary has."""
    trust_remote_code: bool = False
    """Parsed for compatibility and always refused: code from a model repository is never run; the
    architectures listed in the README work without it."""
    chat_template: str | None = None
    """Chat template: a file, or the Jinja text itself. Default: the model's own."""
    generation_config: str = "auto"
    """Where default sampling values come from: auto (the model's generation_config.json), vllm (none), or a
    folder."""


class CacheConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `cache`."""

    block_size: Literal[8, 16, 32, 64, 128, 256, 512, 1024] = 16
    """Tokens per KV cache block [tokens]."""
    enable_prefix_caching: bool = True
    """Keep finished blocks and reuse them for requests with the same prefix."""
    kv_cache_memory_bytes: Annotated[int, msgspec.Meta(ge=1, le=1125899906842624)] | None = None
    """Memory for the KV cache; wins over --gpu-memory-utilization. Default on CPU: the least of 4 GiB, half
    of the free memory, and max-num-seqs x max-model-len [bytes]."""
    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] | None = None
    """Fraction of the device's memory (on CPU: of the memory this process may use) for weights, activations
    and KV cache together."""
    kv_cache_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Storage type of keys and values. auto: that of --dtype."""


class SchedulerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `scheduler`."""

    max_num_seqs: Annotated[int, msgspec.Meta(ge=1, le=8192)] = 64
    """Requests that may run in one step [requests]."""
    max_num_batched_tokens: Annotated[int, msgspec.Meta(ge=1, le=1048576)] = 512
    """Token budget of one step, decode tokens and prefill chunks together [tokens]."""
    enable_chunked_prefill: bool = True
    """Split prompts over steps when they exceed the budget. Off: a prompt runs whole or waits."""
    long_prefill_token_threshold: Annotated[int, msgspec.Meta(ge=0, le=1048576)] = 0
    """Largest prefill chunk of one request in one step; 0 = no limit beyond the budget [tokens]."""
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    """Order of waiting requests: first come first served, or by the request's `priority` (smaller first)."""
    decode_latency_target_ms: Annotated[float, msgspec.Meta(gt=0.0, le=600000.0)] | None = None
    """While requests are decoding, cut prefill so that a step takes about this long; 16 tokens of prefill
    still run in every step. Default: only --max-num-batched-tokens cuts it [milliseconds]."""
    max_num_queued_reqs: Annotated[int, msgspec.Meta(ge=1, le=1048576)] = 4096
    """Requests that may wait for their first token; beyond it the answer is 429 [requests]."""
    max_num_queued_tokens: Annotated[int, msgspec.Meta(ge=1, le=1099511627776)] | None = None
    """Prompt tokens of the requests that wait for their first token; beyond it the answer is 429. Default: no
    limit [tokens]."""


class ExecutionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `execution`."""

    device: Literal["cpu", "torch"] = "cpu"
    """Back end: cpu (our kernels), or torch (the readable reference; needs torch installed)."""
    cpu_threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    """Threads of the kernel pool. Default: the physical cores this process may use, or fewer where a control
    group's CPU quota is smaller."""
    cpu_isa: Literal["auto", "amx", "avx512_bf16", "avx512", "avx2", "scalar"] = "auto"
    """Kernel set. auto: the best this CPU offers; `vllm-rs doctor` lists them."""
    enforce_eager: bool = False
    """Replay the recorded program one call at a time instead of in one native call (for debugging)."""


class ObservabilityConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `observability`."""

    log_level: Literal["error", "warning", "info", "debug", "trace"] = "info"
    """Least severe messages to print, in the server and in the engine."""
    log_format: Literal["text", "json"] = "text"
    """One line of text, or one JSON object, per message."""
    disable_log_stats: bool = False
    """Do not print throughput and queue lengths every ten seconds while requests run."""
    disable_log_requests: bool = True
    """Do not log requests. Prompts are never logged, with either setting."""


class LinkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section `link`."""

    shutdown_timeout: Annotated[float, msgspec.Meta(ge=0.0, le=86400.0)] = 30.0
    """How long running requests may take to finish after SIGTERM or Ctrl-C [seconds]."""
    headless: bool = False
    """Run the engine only, for a frontend that something else started at --data-parallel-address."""
    data_parallel_size: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    """Engines behind the frontend; one for now."""
    data_parallel_size_local: Annotated[int, msgspec.Meta(ge=0, le=1)] = 1
    """Engines started on this machine; 0 = serve an engine that something else starts."""
    data_parallel_address: str = "127.0.0.1"
    """Where frontend and engine meet when one of them was started elsewhere."""
    data_parallel_rpc_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 29550
    """Port of the handshake at --data-parallel-address."""
    handshake_address: str | None = None
    """ZMQ address of the frontend's handshake socket."""
    engine_index: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """Index of this engine behind its frontend; its ZMQ identity."""


SECTION_OF_FIELD: dict[str, str] = {
    "model": "model",
    "model_path": "model",
    "served_model_name": "model",
    "tokenizer": "model",
    "revision": "model",
    "download_dir": "model",
    "load_format": "model",
    "dtype": "model",
    "max_model_len": "model",
    "seed": "model",
    "max_logprobs": "model",
    "trust_remote_code": "model",
    "chat_template": "model",
    "generation_config": "model",
    "block_size": "cache",
    "enable_prefix_caching": "cache",
    "kv_cache_memory_bytes": "cache",
    "gpu_memory_utilization": "cache",
    "kv_cache_dtype": "cache",
    "max_num_seqs": "scheduler",
    "max_num_batched_tokens": "scheduler",
    "enable_chunked_prefill": "scheduler",
    "long_prefill_token_threshold": "scheduler",
    "scheduling_policy": "scheduler",
    "decode_latency_target_ms": "scheduler",
    "max_num_queued_reqs": "scheduler",
    "max_num_queued_tokens": "scheduler",
    "device": "execution",
    "cpu_threads": "execution",
    "cpu_isa": "execution",
    "enforce_eager": "execution",
    "log_level": "observability",
    "log_format": "observability",
    "disable_log_stats": "observability",
    "disable_log_requests": "observability",
    "shutdown_timeout": "link",
    "headless": "link",
    "data_parallel_size": "link",
    "data_parallel_size_local": "link",
    "data_parallel_address": "link",
    "data_parallel_rpc_port": "link",
    "handshake_address": "link",
    "engine_index": "link",
}
"""Which section holds a field; field names are unique over sections."""

ALLOWED_VALUES: dict[str, str] = {
    "load_format": "one of auto, safetensors, gguf",
    "dtype": "one of auto, float32, bfloat16, float16",
    "max_model_len": "1 to 16777216",
    "seed": "0 to 9223372036854775807",
    "max_logprobs": "-1 to 1048576",
    "block_size": "one of 8, 16, 32, 64, 128, 256, 512, 1024",
    "kv_cache_memory_bytes": "1 to 1125899906842624",
    "gpu_memory_utilization": "above 0, at most 1",
    "kv_cache_dtype": "one of auto, float32, bfloat16",
    "max_num_seqs": "1 to 8192",
    "max_num_batched_tokens": "1 to 1048576",
    "long_prefill_token_threshold": "0 to 1048576",
    "scheduling_policy": "one of fcfs, priority",
    "decode_latency_target_ms": "above 0, at most 600000",
    "max_num_queued_reqs": "1 to 1048576",
    "max_num_queued_tokens": "1 to 1099511627776",
    "device": "one of cpu, torch",
    "cpu_threads": "1 to 1024",
    "cpu_isa": "one of auto, amx, avx512_bf16, avx512, avx2, scalar",
    "log_level": "one of error, warning, info, debug, trace",
    "log_format": "one of text, json",
    "shutdown_timeout": "0 to 86400",
    "data_parallel_size": "1 to 1",
    "data_parallel_size_local": "0 to 1",
    "data_parallel_rpc_port": "1 to 65535",
    "engine_index": "0 to 65535",
}
"""What a field may be, in words."""

SPELLINGS: dict[str, dict[str, str]] = {
    "dtype": {"float": "float32", "half": "float16"},
    "kv_cache_dtype": {"float": "float32"},
    "log_level": {"warn": "warning", "critical": "error"},
}
"""Other spellings of a choice."""

INTERNAL_FIELDS: frozenset[str] = frozenset(["engine_index", "handshake_address", "model_path"])
"""Filled in by `serve`, never by a user."""

REFUSED_KEYWORDS: dict[str, RefusedKeyword] = {
    "tensor_parallel_size": RefusedKeyword("one device runs the whole model for now; leave it out", ("1",)),
    "pipeline_parallel_size": RefusedKeyword("one device runs the whole model for now; leave it out", ("1",)),
    "decode_context_parallel_size": RefusedKeyword("leave it out", ("1",)),
    "data_parallel_start_rank": RefusedKeyword(
        "only one engine per frontend exists for now; leave it out", ("0",)
    ),
    "data_parallel_hybrid_lb": RefusedKeyword("only one engine per frontend exists for now", ()),
    "data_parallel_external_lb": RefusedKeyword("only one engine per frontend exists for now", ()),
    "data_parallel_multi_port_external_lb": RefusedKeyword("only one engine per frontend exists for now", ()),
    "data_parallel_backend": RefusedKeyword("leave it out", ("mp",)),
    "enable_expert_parallel": RefusedKeyword("no mixture-of-experts model is supported yet", ()),
    "distributed_executor_backend": RefusedKeyword(
        "leave it out: the executor runs in the engine process", ("uni", "mp")
    ),
    "nnodes": RefusedKeyword("leave it out", ("1",)),
    "node_rank": RefusedKeyword("leave it out", ("0",)),
    "api_server_count": RefusedKeyword("leave it out: one process serves on all its threads", ("0", "1")),
    "quantization": RefusedKeyword(
        "give a .gguf file as the model: its quantised weights are read as they are", ("none", "gguf")
    ),
    "compilation_config": RefusedKeyword(
        "leave it out: the step is recorded at load; --enforce-eager turns the replay off", ()
    ),
    "swap_space": RefusedKeyword(
        "leave it out: preempted requests are recomputed; --kv-cache-memory-bytes sizes the cache", ("0", "4")
    ),
    "cpu_offload_gb": RefusedKeyword("leave it out", ("0",)),
    "num_gpu_blocks_override": RefusedKeyword("--kv-cache-memory-bytes", ()),
    "prefix_caching_hash_algo": RefusedKeyword(
        "leave it out: blocks are hashed with SHA-256", ("sha256", "sha256_cbor")
    ),
    "max_num_partial_prefills": RefusedKeyword("--long-prefill-token-threshold", ("1",)),
    "max_long_partial_prefills": RefusedKeyword("--long-prefill-token-threshold", ("1",)),
    "async_scheduling": RefusedKeyword("leave it out", ()),
    "stream_interval": RefusedKeyword("leave it out: every token is streamed when it is made", ("1",)),
    "tokenizer_mode": RefusedKeyword("leave it out: there is one tokenizer implementation", ("auto", "hf")),
    "skip_tokenizer_init": RefusedKeyword("send token ids as `prompt`; the tokenizer costs little", ()),
    "config_format": RefusedKeyword("leave it out", ("auto", "hf")),
    "hf_overrides": RefusedKeyword("edit config.json in a local copy of the model", ()),
    "hf_config_path": RefusedKeyword("a local folder that holds config.json beside the weights", ()),
    "hf_token": RefusedKeyword("the environment variable HF_TOKEN", ()),
    "code_revision": RefusedKeyword("leave it out: code from a model repository is never run", ()),
    "tokenizer_revision": RefusedKeyword("--revision, or --tokenizer with a local folder", ()),
    "task": RefusedKeyword("leave it out: only text generation is supported yet", ("auto", "generate")),
    "runner": RefusedKeyword("leave it out: only text generation is supported yet", ("auto", "generate")),
    "convert": RefusedKeyword("leave it out", ("auto", "none")),
    "speculative_config": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "speculative_model": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "num_speculative_tokens": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "spec_method": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "spec_model": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "spec_tokens": RefusedKeyword("leave it out: speculative decoding is not built yet", ()),
    "kv_transfer_config": RefusedKeyword("leave it out: KV transfer is not built yet", ()),
    "kv_events_config": RefusedKeyword("leave it out: KV events are not built yet", ()),
    "enable_lora": RefusedKeyword("a model with the adapter merged in", ()),
    "lora_modules": RefusedKeyword("a model with the adapter merged in", ()),
    "max_loras": RefusedKeyword("a model with the adapter merged in", ()),
    "max_lora_rank": RefusedKeyword("a model with the adapter merged in", ()),
    "structured_outputs_config": RefusedKeyword("leave it out: structured outputs are not built yet", ()),
    "guided_decoding_backend": RefusedKeyword("leave it out: structured outputs are not built yet", ()),
    "reasoning_parser": RefusedKeyword("leave it out: reasoning text stays in `content` for now", ()),
    "enable_auto_tool_choice": RefusedKeyword("leave it out: tool calls are not parsed yet", ()),
    "tool_call_parser": RefusedKeyword("leave it out: tool calls are not parsed yet", ()),
    "default_chat_template_kwargs": RefusedKeyword("`chat_template_kwargs` in the request", ()),
    "chat_template_content_format": RefusedKeyword("leave it out", ("auto",)),
    "response_role": RefusedKeyword("leave it out", ("assistant",)),
    "limit_mm_per_prompt": RefusedKeyword("leave it out: only text models are supported yet", ()),
    "allowed_media_domains": RefusedKeyword("leave it out: only text models are supported yet", ()),
    "allowed_local_media_path": RefusedKeyword("leave it out: only text models are supported yet", ()),
    "override_generation_config": RefusedKeyword(
        "--generation-config with a folder that holds your generation_config.json", ()
    ),
    "enable_sleep_mode": RefusedKeyword(
        "leave it out: stop and start the server, it takes a second or two", ()
    ),
    "enable_cumem_allocator": RefusedKeyword("leave it out", ()),
    "mamba_cache_mode": RefusedKeyword("leave it out: no state-space model is supported yet", ()),
    "ssl_keyfile": RefusedKeyword("a reverse proxy that ends TLS", ()),
    "ssl_certfile": RefusedKeyword("a reverse proxy that ends TLS", ()),
    "ssl_ca_certs": RefusedKeyword("a reverse proxy that ends TLS", ()),
    "ssl_cert_reqs": RefusedKeyword("a reverse proxy that ends TLS", ()),
    "root_path": RefusedKeyword("a reverse proxy that strips the prefix", ()),
    "middleware": RefusedKeyword("a reverse proxy: Python code is not loaded into the server", ()),
    "allow_credentials": RefusedKeyword("bearer tokens: cookies are never used", ()),
    "allowed_methods": RefusedKeyword("leave it out: the methods the routes take are allowed", ()),
    "allowed_headers": RefusedKeyword("leave it out: the headers the routes take are allowed", ()),
    "enable_request_id_headers": RefusedKeyword("leave it out: X-Request-Id is always answered", ()),
    "max_log_len": RefusedKeyword("leave it out: prompts are never logged", ()),
    "uvicorn_log_level": RefusedKeyword("--log-level", ()),
    "disable_uvicorn_access_log": RefusedKeyword("--log-level warning", ()),
    "disable_frontend_multiprocessing": RefusedKeyword(
        "leave it out: the frontend is one native process", ()
    ),
    "disable_fastapi_docs": RefusedKeyword("leave it out", ()),
    "enable_tokenizer_info_endpoint": RefusedKeyword("the model's own tokenizer_config.json", ()),
    "enable_server_load_tracking": RefusedKeyword("the gauges of /metrics", ()),
    "rate_limit_interval": RefusedKeyword("--max-num-queued-reqs or --max-num-queued-tokens", ()),
    "rate_limit_token": RefusedKeyword("--max-num-queued-reqs or --max-num-queued-tokens", ()),
    "grpc": RefusedKeyword("the HTTP routes", ()),
    "config": RefusedKeyword("the environment twins of the flags, listed in docs/flags.md", ()),
    "otlp_traces_endpoint": RefusedKeyword("leave it out: traces are not exported yet", ()),
    "collect_detailed_traces": RefusedKeyword("leave it out: traces are not exported yet", ()),
    "attention_backend": RefusedKeyword("--device and --cpu-isa", ()),
    "max_seq_len_to_capture": RefusedKeyword("leave it out", ()),
    "disable_custom_all_reduce": RefusedKeyword("leave it out", ()),
}
"""Keywords of vLLM that we know and lack."""
