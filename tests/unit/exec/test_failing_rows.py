"""A row that cannot be sampled ends its own request, and no other one notices."""

import pytest

from vllm_rs.config import EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.models.memory_source import random_source
from vllm_rs.wire import EngineCoreRequest, FinishReason, SamplingParams


@pytest.fixture
def core(llama_config, backend):
    config = EngineConfig.from_keywords(
        device=backend, dtype="float32", cpu_threads=1, kv_cache_memory_bytes=1 << 23, max_num_seqs=4,
        max_num_batched_tokens=32,
    )  # fmt: skip
    core = EngineCore(LocalExecutor(config, random_source(llama_config)), config, check_integrity=True)
    yield core
    core.shutdown()


def add(core, name, *, prompt=(1, 2, 3), force=None, **params):
    """`force`: parameters set behind the back of validation."""
    params = SamplingParams(max_tokens=4, seed=7, **params)
    request = core.prepare(EngineCoreRequest(name, list(prompt), None, params, None, 0.0))
    for field, value in (force or {}).items():
        setattr(request.params, field, value)
    core.add(request)


def run(core):
    outputs = {}
    while core.has_work:
        for message in core.step().values():
            for output in message.outputs:
                outputs.setdefault(output.request_id, []).append(output)
    tokens = {
        name: [token for output in of for token in output.new_token_ids] for name, of in outputs.items()
    }
    return tokens, {name: of[-1] for name, of in outputs.items()}


@pytest.mark.parametrize(
    "force",
    [{"logit_bias": {2**40: 1.0}}, {"top_k": "many"}, {"min_tokens": 2**40, "stop_token_ids": [2**40]}],
    ids=["overflow", "type", "int32"],
)
@pytest.mark.parametrize("prompt_tokens", [3, 100], ids=["one chunk", "several chunks"])
def test_parameters_the_sampler_refuses_end_only_their_request(core, force, prompt_tokens):
    add(core, "good")
    alone, _ = run(core)
    add(core, "good")
    add(core, "bad", prompt=[5] * prompt_tokens, force=force)
    tokens, last = run(core)
    assert last["bad"].finish_reason is FinishReason.ERROR
    assert tokens["bad"] == []
    assert tokens["good"] == alone["good"]
    add(core, "next in the slot")
    assert run(core)[0]["next in the slot"] == alone["good"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_request_that_forbids_every_token_ends_with_an_error(core, temperature):
    add(core, "good")
    alone, _ = run(core)
    add(core, "good")
    masks = {
        "allowed_token_ids": [5, 6],
        "_bad_words_token_ids": [[5]],
        "stop_token_ids": [6],
        "min_tokens": 2,
    }
    add(core, "bad", temperature=temperature, logprobs=2, **masks)
    tokens, last = run(core)
    assert (last["bad"].finish_reason, last["bad"].new_logprobs) == (FinishReason.ERROR, None)
    assert tokens["bad"] == []
    assert tokens["good"] == alone["good"]
