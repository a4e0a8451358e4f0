"""Any mix of arrivals, aborts and steps: invariants hold, tokens are right, everything is freed."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from vllm_rs.sched.audit import check_integrity

PROMPTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


@pytest.mark.covers("SCHED-33", "KV-07", "KV-09")
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_scheduler_machine(harness, policy):
    class SchedulerMachine(RuleBasedStateMachine):
        @initialize(
            num_blocks=st.integers(12, 30), max_num_seqs=st.integers(1, 5), budget=st.integers(5, 60),
            caching=st.booleans(), depth=st.sampled_from([1, 2]),
        )  # fmt: skip
        def start(self, num_blocks, max_num_seqs, budget, caching, depth):
            self.h = harness(
                num_blocks=num_blocks, block_size=8, max_num_seqs=max_num_seqs, max_num_batched_tokens=budget,
                max_model_len=96, enable_caching=caching, depth=depth, policy=policy,
            )  # fmt: skip
            self.added = {}
            self.num_added = 0

        @rule(prompt=PROMPTS, max_tokens=st.integers(1, 30), priority=st.integers(0, 2))
        def add(self, prompt, max_tokens, priority):
            name = f"r{self.num_added}"
            self.num_added += 1
            self.added[name] = (prompt, max_tokens)
            self.h.add(name, prompt, max_tokens=max_tokens, priority=priority)

        @rule(data=st.data())
        def abort(self, data):
            if self.h.scheduler.requests:
                name = data.draw(st.sampled_from(sorted(self.h.scheduler.requests)))
                self.h.scheduler.abort([name])
                del self.added[name]

        @rule(count=st.integers(1, 8))
        def step(self, count):
            for _ in range(count):
                self.h.step()
                check_integrity(self.h.scheduler)

        def teardown(self):
            if not hasattr(self, "h"):
                return
            self.h.run()
            for name, (prompt, max_tokens) in self.added.items():
                assert self.h.tokens(name) == self.h.expected(prompt, max_tokens)
            check_integrity(self.h.scheduler)
            assert self.h.kv.num_free_blocks == self.h.kv.pool.num_blocks

    SchedulerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
    SchedulerMachine.TestCase().runTest()
