"""A scheduler over the fake executor, stepped by hand."""

import pytest

from vllm_rs.core.fake_executor import FakeExecutor, next_token
from vllm_rs.kv.manager import KVCacheManager
from vllm_rs.sched.commit import commit_step
from vllm_rs.sched.limits import SchedulerLimits
from vllm_rs.sched.request import Request
from vllm_rs.sched.scheduler import Scheduler
from vllm_rs.wire import EngineCoreRequest, SamplingParams

VOCAB = 1000


class Harness:
    """`depth` steps may be in flight; 1 commits each step before the next is planned."""

    def __init__(
        self,
        *,
        num_blocks=64,
        block_size=16,
        max_num_seqs=8,
        max_num_batched_tokens=64,
        max_model_len=None,
        enable_caching=True,
        depth=1,
        latency=None,
        executor=None,
        **limits,
    ):
        self.executor = executor or FakeExecutor(vocab_size=VOCAB)
        self.executor.allocate_kv_cache(num_blocks, block_size)
        self.limits = SchedulerLimits(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=max_model_len or min(512, num_blocks * block_size),
            check_integrity=True,
            **limits,
        )
        self.kv = KVCacheManager(num_blocks, block_size, enable_caching=enable_caching)
        self.scheduler = Scheduler(self.limits, self.kv, latency=latency)
        self.depth = depth
        self.handles = []
        self.outputs = {}
        """All EngineCoreOutput of each request."""
        self.plans = []

    def add(self, name, prompt, *, seed=0, priority=0, salt=None, **params):
        params = SamplingParams(**{"max_tokens": 8, **params})
        wire = EngineCoreRequest(
            name, list(prompt), None, params, None, 0.0, cache_salt=salt, priority=priority
        )
        request = Request(
            wire, params, wire.prompt_token_ids, seed=seed, max_model_len=self.limits.max_model_len,
            block_size=self.kv.block_size,
        )  # fmt: skip
        self.outputs[name] = []
        self.scheduler.add(request)
        return request

    def step(self):
        """Plan, run and (within `depth`) commit one step; returns {request id: tokens run}."""
        slots = {request.slot: request.request_id for request in self.scheduler.running}
        plan = self.scheduler.schedule()
        assert plan.num_tokens <= self.limits.max_num_batched_tokens
        assert len(plan.rows) <= self.limits.max_num_seqs
        slots |= {request.slot: request.request_id for request in plan.new_requests}
        if plan.rows:
            self.plans.append(plan)
            self.handles.append(self.executor.submit(plan))
        while len(self.handles) >= self.depth or (self.handles and not plan.rows):
            for batch in commit_step(self.scheduler, self.handles.pop(0).result()).values():
                for output in batch:
                    self.outputs[output.request_id].append(output)
        return {slots[row.slot]: len(row.token_ids) for row in plan.rows}

    def run(self, limit=5000):
        """Step until everything is done; returns the per-step shares."""
        log = []
        while self.scheduler.has_work:
            assert len(log) < limit, f"no end in sight: {self.scheduler.requests}"
            log.append(self.step())
        return log

    def tokens(self, name):
        return [token for output in self.outputs[name] for token in output.new_token_ids]

    def expected(self, prompt, count, seed=0):
        """What the fake model says, computed without any scheduler."""
        history = list(prompt)
        for _ in range(count):
            history.append(next_token(history, seed, VOCAB))
        return history[len(prompt) :]


@pytest.fixture(scope="session")
def harness():
    return Harness
