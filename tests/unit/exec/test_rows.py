"""Rows about blocks and chunks that need a model: sharing, any physical placement, budgets."""

import logging

import numpy as np
import pytest

from vllm_rs.config import EngineConfig
from vllm_rs.core.engine_core import EngineCore
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.models.memory_source import random_source
from vllm_rs.wire import EngineCoreRequest, SamplingParams

pytest.importorskip("vllm_rs._cpu")


def tokens_of(length, seed=1, vocab=131):
    return np.random.default_rng(seed).integers(0, vocab, length).tolist()


def request(name, prompt, max_tokens):
    params = SamplingParams(temperature=0.0, max_tokens=max_tokens)
    return EngineCoreRequest(name, list(prompt), None, params, None, 0.0)


@pytest.fixture
def make_core(llama_config):
    made = []

    def make(**keywords):
        model = {**llama_config, "max_position_embeddings": 2048}
        config = EngineConfig.from_keywords(
            **{"dtype": "float32", "cpu_threads": 1, "kv_cache_memory_bytes": 1 << 23, **keywords}
        )
        made.append(EngineCore(LocalExecutor(config, random_source(model)), config))
        return made[-1]

    yield make
    for core in made:
        core.shutdown()


def run(core):
    tokens = {}
    while core.has_work:
        for message in core.step().values():
            for output in message.outputs:
                tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
    return tokens


@pytest.mark.covers("CALC-03")
@pytest.mark.parametrize(("sharing", "system_blocks"), [(True, 32), (False, 320)])
def test_calc_03_ten_requests_with_a_system_prompt_of_512_tokens(make_core, sharing, system_blocks):
    core = make_core(enable_prefix_caching=sharing, max_num_seqs=10, max_num_batched_tokens=1024)
    system = tokens_of(512)
    for index in range(10):
        core.add_request(request(f"r{index}", [*system, index], 30))
    while sum(one.num_output_tokens > 0 for one in core.scheduler.running) < 10:
        core.step()
    kv = core.scheduler.kv
    tables = [kv.block_ids(f"r{index}")[0][:32] for index in range(10)]
    assert len({block for table in tables for block in table}) == system_blocks
    references = [kv.pool.blocks[block].ref_count for block in tables[0]]
    assert references == [10 if sharing else 1] * 32
    assert kv.pool.num_blocks - kv.num_free_blocks == system_blocks + 10, "and one of its own for each"


@pytest.mark.covers("KV-06")
def test_shuffled_physical_blocks_give_identical_logits(llama_config, exec_driver):
    prompt = tokens_of(150)
    logits = []
    for shuffle in range(3):
        driver = exec_driver.Driver(random_source(llama_config), num_blocks=64, shuffle=shuffle)
        logits.append(driver.logits(prompt, chunk=40))
    assert np.array_equal(logits[0], logits[1])
    assert np.array_equal(logits[0], logits[2])


@pytest.mark.covers("KV-06")
def test_block_tables_are_dumped_at_trace(make_core, caplog):
    core = make_core()
    core.add_request(request("A", tokens_of(40), 1))
    with caplog.at_level(5, logger="vllm_rs.step"):
        core.step()
    dump = [record.getMessage() for record in caplog.records if record.levelno < logging.DEBUG]
    assert dump[0].startswith("step 0 row A: from 0, tokens [")
    assert dump[0].endswith("block table [[0, 1, 2]]")


@pytest.mark.covers("SCHED-04")
def test_budgets_give_equal_tokens_and_activation_memory_falls_with_the_budget(make_core):
    prompts = {f"r{index}": tokens_of(900 + index, seed=index) for index in range(3)}
    results, activations = [], []
    for budget in (1024, 256, 128):
        core = make_core(max_num_batched_tokens=budget, max_num_seqs=8)
        for name, prompt in prompts.items():
            core.add_request(request(name, prompt, 12))
        results.append(run(core))
        activations.append(core.budget.table["activations_bytes"])
        assert core.scheduler.counters.num_steps >= 2700 // budget
    assert results[0] == results[1] == results[2]
    assert all(len(tokens) == 12 for tokens in results[0].values())
    assert activations[0] > 2 * activations[1] > 2 * activations[2]


@pytest.mark.covers("SCHED-07")
def test_without_chunking_a_long_prompt_stalls_decode_and_with_it_no_stream_waits(make_core):
    gaps = {}
    for chunked in (True, False):
        core = make_core(
            enable_chunked_prefill=chunked, max_num_batched_tokens=1024, long_prefill_token_threshold=64
        )
        core.add_request(request("stream", [1, 2, 3], 40))
        core.step()
        core.add_request(request("long", tokens_of(1000), 1))
        tokens_between = []
        while core.has_work:
            before = core.scheduler.counters.num_prefill_tokens
            if any(one.request_id == "stream" for message in core.step().values() for one in message.outputs):
                tokens_between.append(core.scheduler.counters.num_prefill_tokens - before)
        gaps[chunked] = max(tokens_between)
    assert gaps == {True: 64, False: 1000}, "prompt tokens computed between two tokens of the stream"
