"""The messages whose bytes both languages must agree on, as Python sees them.

The same values stand in `frontend-rs/wire/tests/golden/cases.rs`; the bytes are in `golden/wire.json`.
"""

from typing import Any

import numpy as np

from vllm_rs.wire import (
    EngineCoreEvent,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreReadyResponse,
    EngineCoreRequest,
    EventType,
    FinishReason,
    HandshakeAddresses,
    HandshakeInit,
    HandshakeStatus,
    LogprobsLists,
    LogprobsTensors,
    PoolingParams,
    PrefillStats,
    PrefixCacheStats,
    SamplingParams,
    SchedulerStats,
    SpecDecodingStats,
    Tensor,
    UtilityOutput,
    UtilityRequest,
)


def _request(request_id: str, **fields: Any) -> EngineCoreRequest:
    defaults: dict[str, Any] = {
        "prompt_token_ids": [1, 200, 70_000],
        "mm_features": None,
        "sampling_params": SamplingParams(temperature=0.0, max_tokens=5),
        "pooling_params": None,
        "arrival_time": 1234.5,
    }
    return EngineCoreRequest(request_id=request_id, **(defaults | fields))


def _sampling() -> SamplingParams:
    return SamplingParams(
        presence_penalty=0.5,
        frequency_penalty=-0.25,
        repetition_penalty=1.5,
        temperature=0.75,
        top_p=0.5,
        top_k=-1,
        min_p=0.125,
        seed=-9_000_000_000,
        stop=["a", "é"],
        stop_token_ids=[7, 128, 40_000],
        ignore_eos=True,
        max_tokens=None,
        min_tokens=300,
        logprobs=-1,
        prompt_logprobs=3,
        prompt_logprob_token_ids=np.array([[1, 2]], dtype=np.int32),
        detokenize=False,
        output_kind=1,
        _eos_token_id=2,
        _all_stop_token_ids={2, 7},
        logit_bias={5: 1.5},
        allowed_token_ids=[1, 2],
        extra_args={"vllm_rs": {"replay": [1, None, True]}},
        _bad_words_token_ids=[[1, 2], [3]],
        skip_reading_prefix_cache=True,
    )


def _outputs(*outputs: EngineCoreOutput, **fields: Any) -> EngineCoreOutputs:
    return EngineCoreOutputs(outputs=list(outputs), timestamp=12.5, **fields)


def _logprobs() -> LogprobsLists:
    return LogprobsLists(
        np.array([[7, 7, 9]], dtype=np.int32),
        np.array([[-0.5, -0.5, -2.0]], dtype=np.float32),
        np.array([1], dtype=np.int64),
    )


def _prompt_logprobs() -> LogprobsTensors:
    rows = 100
    return LogprobsTensors(
        Tensor(np.arange(2 * rows, dtype=np.int32).reshape(rows, 2), "int32"),
        Tensor(np.full((rows, 2), -1.25, dtype=np.float32), "float32"),
        Tensor(np.full(rows, 3, dtype=np.int32), "int32"),
    )


def _finished() -> EngineCoreOutput:
    return EngineCoreOutput(
        request_id="req-1",
        new_token_ids=[43, 2],
        finish_reason=FinishReason.STOP,
        stop_reason=2,
        events=[EngineCoreEvent(EventType.QUEUED, 0.5), EngineCoreEvent(EventType.SCHEDULED, 1.5)],
        trace_headers={"traceparent": "00-ab-cd-01"},
        prefill_stats=PrefillStats(num_prompt_tokens=100, num_computed_tokens=36, num_cached_tokens=64),
    )


def _stats() -> SchedulerStats:
    return SchedulerStats(
        num_running_reqs=3,
        num_waiting_reqs=300,
        step_counter=70_000,
        kv_cache_usage=0.25,
        prefix_cache_stats=PrefixCacheStats(requests=1, queries=100, hits=64, hits_by_source={"device": 64}),
        spec_decoding_stats=SpecDecodingStats(
            num_spec_tokens=2,
            num_drafts=5,
            num_draft_tokens=10,
            num_accepted_tokens=7,
            num_accepted_tokens_per_pos=[4, 3],
        ),
    )


def _registration() -> EngineCoreReadyResponse:
    return EngineCoreReadyResponse(
        max_model_len=8192,
        num_gpu_blocks=512,
        block_size=16,
        dp_stats_address=None,
        dtype="bfloat16",
        vllm_version="0.32.0",
        world_size=1,
        data_parallel_size=1,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        decode_context_parallel_size=1,
        data_parallel_rank=0,
        max_num_seqs=64,
        max_num_batched_tokens=512,
        instance_id="i",
        supports_lora=False,
        max_loras=0,
        kv_cache_size_tokens=8192,
        kv_cache_max_concurrency=1.0,
        extensions={"version": "0.1.0", "build_id": "abc"},
    )


def cases() -> dict[str, object]:
    """Every message by name. What a frontend sends, then what an engine sends."""
    embeds = Tensor(np.full((16, 8), 0.25, dtype=np.float32), "float32")
    return {
        "request": _request("req-1"),
        "request_sampling": _request(
            "req-é",
            sampling_params=_sampling(),
            cache_salt="salt",
            client_index=1,
            priority=-5,
            trace_headers={"traceparent": "00-ab-cd-01"},
            external_req_id="user-1",
        ),
        "request_embeds": _request("req-2", prompt_token_ids=None, prompt_embeds=embeds),
        "request_pooling": _request(
            "req-3", sampling_params=None, pooling_params=PoolingParams(task="embed")
        ),
        "abort": ["req-1", "req-2"],
        "utility_request": UtilityRequest(
            client_index=0, call_id=2**63 + 1, method="reset_prefix_cache", args=[False, None]
        ),
        "init": HandshakeInit(
            addresses=HandshakeAddresses(inputs=["ipc:///tmp/a/i0"], outputs=["ipc:///tmp/a/o0"]),
            extensions={"version": "0.1.0", "build_id": "abc"},
        ),
        "hello": HandshakeStatus(status="HELLO", local=False, headless=True),
        "ready": HandshakeStatus(status="READY", local=True, headless=True, parallel_config_hash="ff"),
        "registration": _registration(),
        "outputs_token": _outputs(EngineCoreOutput("req-1", [42])),
        "outputs_logprobs": _outputs(EngineCoreOutput("req-1", [7], new_logprobs=_logprobs())),
        "outputs_prompt_logprobs": _outputs(
            EngineCoreOutput("req-1", [7], new_prompt_logprobs_tensors=_prompt_logprobs()), engine_index=1
        ),
        "outputs_finished": _outputs(
            _finished(), EngineCoreOutput("req-2", [], finish_reason=FinishReason.ERROR)
        ),
        "outputs_repetition": _outputs(
            EngineCoreOutput(
                "req-1", [1], finish_reason=FinishReason.REPETITION, stop_reason="repetition_detected"
            ),
            finished_requests={"req-1"},
            weight_version="default",
        ),
        "outputs_stats": _outputs(scheduler_stats=_stats()),
        "outputs_utility": _outputs(utility_output=UtilityOutput(call_id=7, result=(None, ["generate"]))),
        "outputs_utility_failed": _outputs(
            utility_output=UtilityOutput(call_id=8, failure_message="Call to fly method failed: no wings")
        ),
    }
