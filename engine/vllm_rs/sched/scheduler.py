"""Who runs in the next step, and on how many tokens."""

import time
from collections import deque
from collections.abc import Iterable

from vllm_rs.errors import InvariantError
from vllm_rs.kv.manager import KVCacheManager, PrefixHit
from vllm_rs.sched.latency import LatencyBudget, Unlimited
from vllm_rs.sched.limits import SchedulerLimits
from vllm_rs.sched.plan import ScheduledRow, StepPlan
from vllm_rs.sched.queue import WaitingQueue, make_queue
from vllm_rs.sched.request import Request, RequestStatus
from vllm_rs.sched.rows import make_row, new_request
from vllm_rs.sched.stats import SchedulerCounters
from vllm_rs.wire import EngineCoreEvent, EventType, FinishReason, PrefillStats


class Scheduler:
    """Composes waiting queue, KV manager and limits; knows no model. Steps are planned by `schedule` and
    ended by `commit.commit_step`. One further step may be planned before the last is committed: its inputs
    then refer to rows.
    """

    def __init__(
        self, limits: SchedulerLimits, kv: KVCacheManager, *, latency: LatencyBudget | None = None
    ) -> None:
        num_tokens = kv.pool.num_blocks * kv.block_size
        if num_tokens < limits.max_model_len:
            raise ValueError(f"max_model_len must be at most the {num_tokens} tokens of the KV cache")
        self.limits = limits
        self.kv = kv
        self.latency = latency or Unlimited()
        self.waiting: WaitingQueue = make_queue(limits.policy)
        self.running: list[Request] = []
        self.requests: dict[str, Request] = {}
        self.in_flight: deque[tuple[StepPlan, list[Request]]] = deque()
        """Planned steps not yet committed, with the request of each row."""
        self.counters = SchedulerCounters()
        self._threshold = limits.long_prefill_token_threshold if limits.enable_chunked_prefill else 0
        self._by_priority = limits.policy == "priority"
        self.free_slots = list(range(limits.max_num_seqs - 1, -1, -1))
        self._freed_slots: list[int] = []
        self._num_arrivals = 0
        self._shares: dict[Request, int] = {}
        self._cut: list[Request] = []
        """Prompts that got less than the budget allowed, for the sake of those behind them."""
        self._budget = 0
        self._prefill_budget = 0

    # Arrival and departure

    def add(self, request: Request) -> None:
        """Queue a new request. Its id must not be in use."""
        if request.request_id in self.requests:
            raise InvariantError(f"request id {request.request_id} is in use")
        request.arrival_order = self._num_arrivals
        self._num_arrivals += 1
        self.counters.num_started += 1
        self.requests[request.request_id] = request
        request.events.append(EngineCoreEvent(EventType.QUEUED, time.monotonic()))
        self.waiting.add(request)

    def abort(self, request_ids: Iterable[str]) -> list[Request]:
        """End the named requests at once; unknown and finished ids are ignored. Returns those that were
        alive.
        """
        aborted = []
        for request_id in request_ids:
            request = self.requests.get(request_id)
            if request is not None:
                self.finish(request, FinishReason.ABORT)
                aborted.append(request)
        return aborted

    def finish(self, request: Request, reason: FinishReason) -> None:
        """Take a request out of its collection and free what it holds; its slot is named in the next plan."""
        if request.status is RequestStatus.RUNNING:
            self.running.remove(request)
            if reason is FinishReason.ERROR:
                self.kv.discard(request.request_id)
            else:
                self._offer_full_blocks(request)
                self.kv.free(request.request_id)
        else:
            self.waiting.remove(request)
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        self._leave_slot(request)
        del self.requests[request.request_id]
        self.counters.finished(reason)

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running, or a step or freed slot still has to reach the
        executor.
        """
        return bool(self.requests or self.in_flight)

    def reset_prefix_cache(self) -> bool:
        """Forget cached prefixes; refused (False) while requests hold blocks."""
        done = self.kv.reset_prefix_cache()
        if done:
            self.counters.prefix_cache.reset = True
        return done

    # Planning a step

    def schedule(self) -> StepPlan:
        """Plan the next step.

        The one law: there is no prefill phase and no decode phase. Each request has `num_tokens` (prompt,
        output, drafts) and `num_computed_tokens`, and every step lets the second chase the first within a
        budget of tokens. Chunked prefill, prefix hits, recompute after preemption, and drafts are all the
        same chase, begun at a different distance.

        Order: running requests first (those one step from their target before those with a prompt to
        finish, so that streams are not delayed), then waiting ones while tokens, places and blocks last. A
        running request that cannot grow preempts the latest arrival (or the least important one); a
        waiting request preempts only under the priority policy, and only less important ones.
        """
        self._shares = {}
        self._cut = []
        self._budget = self.limits.max_num_batched_tokens
        if self._by_priority:
            self._make_room_for_important()
        num_preemptions = self.counters.num_preemptions
        self._continue_running()
        for request in self._shares:
            # Only now: until here a planned request could be preempted, its blocks never written.
            self._offer_full_blocks(request)
        if self.counters.num_preemptions == num_preemptions:
            self._admit_waiting()
        self._hand_out_rest()
        return self._build_plan()

    def _continue_running(self) -> None:
        prefilling = []
        num_decode_rows = 0
        for request in tuple(self.running):
            distance = request.num_tokens - request.num_computed_tokens
            if request.status is not RequestStatus.RUNNING or distance <= 0:
                continue
            if distance > 1 + len(request.draft_token_ids):
                prefilling.append(request)
            elif len(request.token_ids) + request.num_pending_tokens < request.max_total_tokens:
                num_decode_rows += self._grow(request, min(distance, self._budget))
        limit = self.latency.prefill_limit_tokens(num_decode_rows)
        self._prefill_budget = self._budget if limit is None else min(limit, self._budget)
        self._continue_prefills(prefilling)

    def _continue_prefills(self, prefilling: list[Request]) -> None:
        next_blocks: set[bytes] = set()
        for index, request in enumerate(prefilling):
            if request.status is not RequestStatus.RUNNING:
                continue
            next_block = self._adopt_prefix(request)
            if next_block in next_blocks:
                continue  # another request computes this very block in this step: take it over in the next
            others_wait = index + 1 < len(prefilling) or (len(self.waiting) > 0 and len(self.free_slots) > 0)
            num_tokens = self._chunk_tokens(request, request.num_computed_tokens, others_wait=others_wait)
            self._grow_prefill(request, num_tokens)
            if next_block is not None and request in self._shares:
                next_blocks.add(next_block)

    def _grow(self, request: Request, num_tokens: int) -> bool:
        """Give a running request its tokens, preempting for blocks. False if it was preempted itself."""
        if num_tokens <= 0:
            return False
        while not self.kv.grow(request.request_id, request.num_computed_tokens + num_tokens):
            victim = self._victim()
            self._preempt(victim)
            if victim is request:
                return False
        self._give(request, num_tokens)
        return True

    def _grow_prefill(self, request: Request, num_tokens: int) -> None:
        """Give a prompt its chunk, cut to the blocks there are; without any, the latest arrival has to give
        way.
        """
        if num_tokens <= 0:
            return
        room = self.kv.num_room_tokens(request.request_id) - request.num_computed_tokens
        if room > 0:
            self._grow(request, min(num_tokens, room))
        elif self._victim() is not request:
            self._grow(request, min(num_tokens, self.kv.block_size))
        # else: it is the latest arrival; it keeps its progress and waits for those before it to finish

    def _chunk_tokens(self, request: Request, num_computed_tokens: int, *, others_wait: bool) -> int:
        """How many tokens of a prompt may run: distance, chunk limit, budgets, and room for those behind
        it.
        """
        distance = request.num_tokens - num_computed_tokens
        budget = min(self._budget, self._prefill_budget)
        num_tokens = min(distance, self._threshold) if self._threshold else distance
        if num_tokens <= budget:
            return num_tokens
        if not self.limits.enable_chunked_prefill and distance <= self.limits.max_num_batched_tokens:
            return 0
        if others_wait and distance > self.limits.max_num_batched_tokens:
            # A prompt that takes several steps leaves half of this one to shorter ones behind it.
            self._cut.append(request)
            return self._align(num_computed_tokens, max(min(budget, self.kv.block_size), budget // 2))
        return budget

    def _align(self, num_computed_tokens: int, num_tokens: int) -> int:
        """End a chunk where a block ends, if that leaves anything of it: only full blocks can be shared."""
        over = (num_computed_tokens + num_tokens) % self.kv.block_size
        return num_tokens - over if over < num_tokens else num_tokens

    def _admit_waiting(self) -> None:
        while self._budget > 0 and self._prefill_budget > 0 and self.free_slots:
            request = self.waiting.peek()
            if request is None or request.num_results_to_discard > 0:
                return
            hit = self._find_prefix(request)
            num_tokens = self._chunk_tokens(request, hit.num_tokens, others_wait=len(self.waiting) > 1)
            if num_tokens <= 0 or not self._fits(request, hit):
                return
            if not self.kv.start(request.request_id, hit, hit.num_tokens + num_tokens):
                return
            self.waiting.pop()
            self._start(request, hit.num_tokens)
            self._give(request, num_tokens)
            self._offer_full_blocks(request)

    def _fits(self, request: Request, hit: PrefixHit) -> bool:
        """Whether all tokens the request has now fit beside those running: half a prompt would only be
        preempted.
        """
        return not self.running or self.kv.can_start(hit, request.num_tokens)

    def _find_prefix(self, request: Request) -> PrefixHit:
        if request.skip_prefix_lookup:
            return self.kv.find_prefix([], request.num_tokens)
        hashes = request.block_hashes.extend(request.token_ids, len(request.token_ids))
        return self.kv.find_prefix(hashes, request.num_tokens)

    def _start(self, request: Request, num_hit_tokens: int) -> None:
        preempted = request.status is RequestStatus.PREEMPTED
        self.counters.prefix_lookup(request.num_tokens, num_hit_tokens, preempted=preempted)
        if preempted:
            self.counters.num_recomputed_tokens += max(0, request.num_dropped_tokens - num_hit_tokens)
        else:
            request.num_cached_tokens = num_hit_tokens
            request.prefill_stats = PrefillStats(
                num_prompt_tokens=request.num_prompt_tokens,
                num_computed_tokens=request.num_prompt_tokens - num_hit_tokens,
                num_cached_tokens=num_hit_tokens,
                num_local_cached_tokens=num_hit_tokens,
            )
        request.num_computed_tokens = num_hit_tokens
        request.num_hashed_blocks = num_hit_tokens // self.kv.block_size
        request.status = RequestStatus.RUNNING
        request.slot = self.free_slots.pop()
        request.events.append(EngineCoreEvent(EventType.SCHEDULED, time.monotonic()))
        self.running.append(request)

    def _hand_out_rest(self) -> None:
        """Budget that nobody behind needed goes back to the prompts that were cut, in their order."""
        for request in self._cut:
            num_tokens = self._shares.get(request)
            if num_tokens is None or min(self._budget, self._prefill_budget) <= 0:
                continue
            done = request.num_computed_tokens + num_tokens
            room = self.kv.num_room_tokens(request.request_id) - done
            extra = min(self._chunk_tokens(request, done, others_wait=False), room)
            if done + extra < request.num_tokens:
                extra = self._align(done, extra)
            if self._threshold:
                extra = min(extra, self._threshold - num_tokens)
            if extra > 0 and self.kv.grow(request.request_id, done + extra):
                self._give(request, extra)
                self._offer_full_blocks(request)

    def _give(self, request: Request, num_tokens: int) -> None:
        self._shares[request] = self._shares.get(request, 0) + num_tokens
        self._budget -= num_tokens
        self._prefill_budget -= num_tokens

    def _adopt_prefix(self, request: Request) -> bytes | None:
        """A prompt between two chunks takes over blocks that another request has computed in the meantime.

        Returns the hash of the block it has to compute next, if others could share that one.
        """
        if request.skip_prefix_lookup or request.num_computed_tokens % self.kv.block_size:
            return None
        hashes = request.block_hashes.extend(request.token_ids, len(request.token_ids) - 1)
        num_tokens = self.kv.adopt(
            request.request_id, hashes, request.num_computed_tokens, len(request.token_ids)
        )
        if num_tokens:
            request.num_computed_tokens += num_tokens
            request.num_hashed_blocks = request.num_computed_tokens // self.kv.block_size
            self.counters.prefix_cache.hits += num_tokens
            if request.prefill_stats is not None:
                request.prefill_stats.num_computed_tokens -= num_tokens
                request.prefill_stats.num_cached_tokens += num_tokens
                request.prefill_stats.num_local_cached_tokens += num_tokens
        next_index = request.num_computed_tokens // self.kv.block_size
        return hashes[next_index] if self.kv.enable_caching and next_index < len(hashes) else None

    def _offer_full_blocks(self, request: Request) -> None:
        """Let others find the blocks that are full once the planned steps have run."""
        num_tokens = min(request.num_computed_tokens + self._shares.get(request, 0), len(request.token_ids))
        if num_tokens // self.kv.block_size > request.num_hashed_blocks and self.kv.enable_caching:
            hashes = request.block_hashes.extend(request.token_ids, num_tokens)
            request.num_hashed_blocks = len(hashes)
            self.kv.cache_full_blocks(request.request_id, hashes)

    def observe(self, plan: StepPlan, elapsed_s: float) -> None:
        """Tell the latency budget what a step cost."""
        num_prefill = sum(len(row.token_ids) for row in plan.rows if row.is_prefill)
        self.latency.observe(plan.num_tokens - num_prefill, num_prefill, elapsed_s)

    # Preemption

    def _victim(self) -> Request:
        """Under FCFS the latest arrival, under priority the least important."""
        if self._by_priority:
            return max(self.running, key=lambda request: request.importance)
        return max(self.running, key=lambda request: request.arrival_order)

    def _make_room_for_important(self) -> None:
        """Before anything is planned: a waiting request may displace less important running ones, if it needs
        to.
        """
        request = self.waiting.peek()
        if request is None or request.num_results_to_discard > 0:
            return
        less_important = [other.request_id for other in self.running if other.priority > request.priority]
        if not self.kv.could_start(request.num_tokens, less_important):
            return
        while self.running:
            victim = self._victim()
            if victim.priority <= request.priority:
                return
            if self.free_slots and self.kv.can_start(self._find_prefix(request), request.num_tokens):
                return
            self._preempt(victim)

    def _preempt(self, victim: Request) -> None:
        """Drop the victim's blocks; it will compute prompt and output again when it returns."""
        share = self._shares.pop(victim, 0)
        self._budget += share
        if share > 1 + len(victim.draft_token_ids):
            self._prefill_budget += share
        self.running.remove(victim)
        self.kv.free(victim.request_id)
        self.counters.num_preemptions += 1
        victim.num_dropped_tokens = victim.num_computed_tokens
        victim.num_preemptions += 1
        victim.status = RequestStatus.PREEMPTED
        victim.num_computed_tokens = 0
        victim.num_hashed_blocks = 0
        victim.num_results_to_discard = sum(victim in rows for _, rows in self.in_flight)
        victim.num_pending_tokens = 0
        victim.draft_token_ids = []
        if not victim.prompt_logprobs_done:
            victim.prompt_logprobs = []
        self._leave_slot(victim)
        victim.events.append(EngineCoreEvent(EventType.PREEMPTED, time.monotonic()))
        self.waiting.put_back(victim)

    def _leave_slot(self, request: Request) -> None:
        if request.slot is None:
            return
        if request.is_known_to_executor:
            self._freed_slots.append(request.slot)
        self.free_slots.append(request.slot)
        request.slot = None
        request.is_known_to_executor = False

    # The plan

    def _build_plan(self) -> StepPlan:
        if not self._shares:
            return StepPlan(self.counters.num_steps)
        new_requests = []
        rows = []
        for index, (request, num_tokens) in enumerate(self._shares.items()):
            if not request.is_known_to_executor:
                new_requests.append(new_request(request, self.kv))
                request.is_known_to_executor = True
            rows.append(make_row(request, num_tokens, index, self.kv))
            self._count(request, rows[-1])
        plan = StepPlan(self.counters.num_steps, self._freed_slots, new_requests, rows)
        self._freed_slots = []
        self.counters.num_steps += 1
        self.in_flight.append((plan, list(self._shares)))
        self._shares = {}
        return plan

    def _count(self, request: Request, row: ScheduledRow) -> None:
        if row.num_computed_tokens < request.num_prompt_tokens:
            self.counters.num_prefill_tokens += len(row.token_ids)
        else:
            self.counters.num_decode_tokens += len(row.token_ids)
