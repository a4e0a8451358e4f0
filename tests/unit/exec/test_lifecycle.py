"""Start-up stages in order, what is refused out of order, and the executor interface."""

import pytest

from vllm_rs.config import ConfigError, EngineConfig
from vllm_rs.exec.executor import Executor, ExecutorError, LifecycleError
from vllm_rs.exec.local import LocalExecutor
from vllm_rs.models.memory_source import random_source
from vllm_rs.sched.plan import NewRequest, ScheduledRow, StepPlan
from vllm_rs.wire import SamplingParams


def config(backend, **sections):
    keywords = dict(device=backend, dtype="float32", max_num_seqs=4, max_num_batched_tokens=32)
    return EngineConfig.from_keywords(**{**keywords, **sections})


class Reporter:
    def __init__(self):
        self.stages, self.updates = [], []

    def stage(self, stage, elapsed_s):
        assert elapsed_s >= 0
        self.stages.append(stage)

    def progress(self, stage, done, total):
        self.updates.append((stage, done, total))


@pytest.mark.covers("EXEC-16")
def test_five_timed_stages_in_order_and_a_wrong_order_raises(backend, llama_config):
    executor: Executor = LocalExecutor(config(backend), random_source(llama_config))
    with pytest.raises(LifecycleError, match="allocate_kv_cache called where init_device was due"):
        executor.allocate_kv_cache(8, 16)
    reporter = Reporter()
    timings = list(executor.initialize(reporter))
    with pytest.raises(LifecycleError, match="warm_up called where allocate_kv_cache was due"):
        executor.warm_up()
    with pytest.raises(LifecycleError, match="execute before allocate_kv_cache"):
        executor.submit(StepPlan(1)).result()
    timings += [executor.allocate_kv_cache(8, 16), executor.warm_up()]
    assert [timing.stage for timing in timings] == [
        "init_device", "load_model", "profile_run", "allocate_kv_cache", "warm_up"
    ]  # fmt: skip
    assert all(timing.elapsed_s > 0 for timing in timings)
    assert reporter.stages == ["init_device", "load_model", "profile_run"]
    assert reporter.updates[-1][1] == reporter.updates[-1][2]
    with pytest.raises(LifecycleError, match="warm_up called where execute was due"):
        executor.warm_up()
    executor.shutdown()


def test_submit_runs_a_step_and_reports_what_the_solver_needs(backend, llama_config):
    executor = LocalExecutor(config(backend, max_model_len=100), random_source(llama_config))
    executor.initialize()
    assert (executor.max_model_len, executor.vocab_size) == (100, llama_config["vocab_size"])
    specs = executor.kv_cache_spec()
    assert len(specs) == llama_config["num_hidden_layers"]
    assert specs[0].bytes_per_block(16) == 16 * 2 * 2 * 16 * 4
    assert executor.memory_report().weights_bytes > 50_000
    assert executor.determine_available_memory() > 1 << 20
    executor.allocate_kv_cache(8, 16)
    executor.warm_up()
    params = SamplingParams(temperature=0.0, logprobs=2)
    new = NewRequest("a", 0, [1, 2, 3], [], params, 0, [[5]], 0)
    handle = executor.submit(StepPlan(9, [], [new], [ScheduledRow(0, 0, [1, 2, 3], num_sampled_rows=1)]))
    assert handle.ready()
    result = handle.result()
    assert result.step_id == 9
    (row,) = result.rows
    (entry,) = row.logprobs
    assert entry.token_ids[0] == entry.token_ids[1] == row.token_ids[0]
    assert entry.rank == 1
    assert executor.submit(StepPlan(10, freed_slots=[0])).result().rows == []


def test_a_step_that_fails_is_raised_where_its_result_is_asked_for(backend, llama_config):
    executor = LocalExecutor(config(backend), random_source(llama_config))
    executor.initialize(), executor.allocate_kv_cache(8, 16), executor.warm_up()
    new = NewRequest("a", 0, [9999], [], SamplingParams(temperature=0.0), 0, [[5]], 0)
    handle = executor.submit(StepPlan(4, [], [new], [ScheduledRow(0, 0, [9999], num_sampled_rows=1)]))
    with pytest.raises(ExecutorError, match=r"step 4 failed: .*"):
        handle.result()


def test_impossible_settings_name_the_flag(backend, llama_config):
    source = random_source(llama_config)
    with pytest.raises(ConfigError, match="--max-model-len 10000 exceeds the 512 tokens"):
        LocalExecutor(config(backend, max_model_len=10000), source)
