"""Writes golden/vllm-0.32.0.json: messages encoded by vLLM's own encoder from its own structs.

Run it with the Python of an environment that has vLLM: PYTHON tests/contract/make_vllm_golden.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import vllm
from vllm.lora.request import LoRARequest
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams
from vllm.v1.engine import (
    EngineCoreEvent,
    EngineCoreEventType,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    UtilityOutput,
    UtilityResult,
)
from vllm.v1.metrics.stats import PrefillStats, PrefixCacheStats, SchedulerStats
from vllm.v1.outputs import LogprobsLists, LogprobsTensors
from vllm.v1.serial_utils import MsgpackEncoder


def _request(request_id: str, **fields: object) -> EngineCoreRequest:
    defaults = dict.fromkeys(
        (
            "mm_features",
            "sampling_params",
            "pooling_params",
            "lora_request",
            "cache_salt",
            "data_parallel_rank",
        )
    )
    return EngineCoreRequest(
        request_id=request_id, arrival_time=1234.5, **(defaults | {"prompt_token_ids": [1, 2, 3]} | fields)
    )


def _cases() -> dict[str, object]:
    sampling = SamplingParams(
        temperature=0.7,
        top_k=40,
        max_tokens=9,
        logprobs=2,
        stop=["x"],
        stop_token_ids=[5],
        seed=11,
        logit_bias={4: 2.0},
        output_kind=RequestOutputKind.DELTA,
        structured_outputs=StructuredOutputsParams(regex="a+"),
        extra_args={"kv_transfer_params": {"a": 1}},
    )
    rows = 80
    prompt_logprobs = LogprobsTensors(
        torch.arange(3 * rows, dtype=torch.int32).reshape(rows, 3),
        torch.full((rows, 3), -1.5),
        torch.ones(rows, dtype=torch.int32),
    )
    logprobs = LogprobsLists(
        np.array([[7, 7, 9]], dtype=np.int32),
        np.array([[-0.5, -0.5, -2.0]], dtype=np.float32),
        np.array([1], dtype=np.int64),
    )
    first = EngineCoreOutput(
        "req-1",
        [7],
        new_logprobs=logprobs,
        new_prompt_logprobs_tensors=prompt_logprobs,
        events=[EngineCoreEvent.new_event(EngineCoreEventType.QUEUED, 2.5)],
        prefill_stats=PrefillStats(num_prompt_tokens=81, num_cached_tokens=16),
    )
    last = EngineCoreOutput("req-2", [8, 9], finish_reason=FinishReason.LENGTH, stop_reason=None)
    stats = SchedulerStats(
        num_running_reqs=2, kv_cache_usage=0.5, prefix_cache_stats=PrefixCacheStats(queries=81, hits=16)
    )
    return {
        "request": _request("req-1", sampling_params=sampling, cache_salt="s", client_index=1),
        "request_lora": _request("req-2", sampling_params=sampling, lora_request=LoRARequest("l", 1, "/l")),
        "request_pooling": _request("req-3", pooling_params=PoolingParams(task="embed")),
        "request_embeds": _request(
            "req-4", sampling_params=sampling, prompt_token_ids=None, prompt_embeds=torch.full((20, 8), 0.5)
        ),
        "outputs": EngineCoreOutputs(outputs=[first, last], scheduler_stats=stats, timestamp=3.5),
        "outputs_pooling": EngineCoreOutputs(
            outputs=[EngineCoreOutput("req-3", [], pooling_output=torch.full((4,), 0.5))], timestamp=4.5
        ),
        "outputs_utility": EngineCoreOutputs(
            utility_output=UtilityOutput(call_id=7, result=UtilityResult(["generate"])), timestamp=5.5
        ),
    }


if __name__ == "__main__":
    encoder = MsgpackEncoder()
    golden = {
        name: [bytes(frame).hex() for frame in encoder.encode(value)] for name, value in _cases().items()
    }
    path = Path(__file__).parent / "golden" / f"vllm-{vllm.__version__}.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")
