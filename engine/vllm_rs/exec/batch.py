"""The scheduler's plan in array form: persistent slots, updated by each plan's changes, flattened into one
step.
"""

from collections.abc import Sequence

import numpy as np

from vllm_rs.errors import InvariantError
from vllm_rs.exec.step import I32, StepArrays
from vllm_rs.sched.plan import NewRequest, PreviousToken, ScheduledRow, StepPlan


class InputBatch:
    """Block tables by slot, and the preallocated arrays a step is written into.

    The arrays of a step are views that the next call of `flatten` overwrites.
    """

    def __init__(self, num_slots: int, max_blocks: int, max_tokens: int, num_groups: int = 1) -> None:
        self.block_tables: list[I32] = [
            np.zeros((num_slots, max_blocks), np.int32) for _ in range(num_groups)
        ]
        """Per KV group [slots, max blocks]."""
        self.num_blocks = np.zeros((num_groups, num_slots), np.int32)
        """Valid entries of each slot's table."""
        self.occupied = np.zeros(num_slots, np.bool_)
        self._token_ids = np.empty(max_tokens, np.int32)
        self._positions = np.empty(max_tokens, np.int32)
        self._query_start = np.zeros(num_slots + 1, np.int32)
        self._arange = np.arange(max_tokens, dtype=np.int32)

    def apply(self, plan: StepPlan) -> None:
        """Slots that leave, requests that enter, blocks that are appended."""
        for slot in plan.freed_slots:
            self.occupied[slot] = False
            self.num_blocks[:, slot] = 0
        for request in plan.new_requests:
            self._enter(request)
        for row in plan.rows:
            if row.new_block_ids:
                self._append_blocks(row.slot, row.new_block_ids)

    def _enter(self, request: NewRequest) -> None:
        if self.occupied[request.slot]:
            raise InvariantError(f"slot {request.slot} given to {request.request_id} is still occupied")
        self.occupied[request.slot] = True
        self.num_blocks[:, request.slot] = 0
        self._append_blocks(request.slot, request.block_ids)

    def _append_blocks(self, slot: int, block_ids: Sequence[Sequence[int]]) -> None:
        for group, ids in enumerate(block_ids):
            first = self.num_blocks[group, slot]
            self.block_tables[group][slot, first : first + len(ids)] = ids
            self.num_blocks[group, slot] = first + len(ids)

    def flatten(self, rows: Sequence[ScheduledRow], previous_tokens: Sequence[int]) -> StepArrays:
        """The step's arrays. `previous_tokens[r]` is what row r of the step before sampled last."""
        lengths = [len(row.token_ids) for row in rows]
        computed = np.array([row.num_computed_tokens for row in rows], np.int32)
        slots = np.array([row.slot for row in rows], np.int32)
        num_sequences = len(rows)
        query_start = self._query_start[: num_sequences + 1]
        np.cumsum(lengths, out=query_start[1:])
        num_tokens = int(query_start[-1])
        token_ids, positions = self._token_ids[:num_tokens], self._positions[:num_tokens]
        if num_tokens == num_sequences:  # plain decode: one token each
            token_ids[:] = [_value(row.token_ids[0], previous_tokens) for row in rows]
            positions[:] = computed
        else:
            token_ids[:] = [_value(token, previous_tokens) for row in rows for token in row.token_ids]
            np.add(self._arange[:num_tokens], np.repeat(computed - query_start[:-1], lengths), out=positions)
        logit_rows, logit_sequences = _logit_rows(rows, query_start)
        widths = self.num_blocks[:, slots].max(axis=1, initial=1)
        tables = tuple(table[slots, :width] for table, width in zip(self.block_tables, widths, strict=True))
        return StepArrays(token_ids, positions, query_start, tables, logit_rows, logit_sequences)


def _value(token: int | PreviousToken, previous_tokens: Sequence[int]) -> int:
    return token if isinstance(token, int) else previous_tokens[token.row]


def _logit_rows(rows: Sequence[ScheduledRow], query_start: I32) -> tuple[I32, I32]:
    """(token rows to sample from, their sequences): the trailing `num_sampled_rows` of each plan row."""
    counts = np.array([row.num_sampled_rows for row in rows], np.int32)
    sequences = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    ends = np.cumsum(counts, dtype=np.int32)
    within = np.arange(len(sequences), dtype=np.int32) - (ends - counts)[sequences]
    return (query_start[1:] - counts)[sequences] + within, sequences
