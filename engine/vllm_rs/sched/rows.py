"""Requests and their part in a step, as the executor hears of them."""

from vllm_rs.errors import InvariantError
from vllm_rs.kv.manager import KVCacheManager
from vllm_rs.sched.plan import NewRequest, PreviousToken, ScheduledRow
from vllm_rs.sched.request import Request


def new_request(request: Request, kv: KVCacheManager) -> NewRequest:
    """Everything the executor must know of a request that enters a slot, before its row of this step."""
    block_ids = kv.block_ids(request.request_id)
    request.num_sent_blocks = len(block_ids[0])
    return NewRequest(
        request_id=request.request_id,
        slot=_slot(request),
        prompt_token_ids=request.prompt_token_ids,
        output_token_ids=request.output_token_ids,
        sampling_params=request.params,
        seed=request.seed,
        block_ids=block_ids,
        num_computed_tokens=request.num_computed_tokens,
    )


def make_row(request: Request, num_tokens: int, index: int, kv: KVCacheManager) -> ScheduledRow:
    """Row `index` of the plan; moves the request's counts to where the step will leave them."""
    start = request.num_computed_tokens
    end = start + num_tokens
    request.num_computed_tokens = end
    num_known = len(request.token_ids)
    num_pending = request.num_pending_tokens
    num_drafts = max(0, end - num_known - num_pending)
    token_ids: list[int | PreviousToken] = [*request.token_ids[start:end]]
    if end > num_known:
        if num_pending:
            token_ids.append(PreviousToken(request.last_row))
        token_ids.extend(request.draft_token_ids[:num_drafts])
    num_sampled_rows = 0
    if end >= num_known + num_pending:
        num_sampled_rows = 1 + num_drafts
        request.last_row = index
        request.num_pending_tokens = num_pending + 1
    num_prompt_logprob_rows = 0
    if not request.prompt_logprobs_done:
        num_prompt_logprob_rows = max(0, min(end, request.num_prompt_tokens - 1) - start)
    num_sent_blocks = request.num_sent_blocks
    request.num_sent_blocks = kv.num_blocks_of(request.request_id)
    return ScheduledRow(
        _slot(request),
        start,
        token_ids,
        kv.block_ids(request.request_id, num_sent_blocks)
        if request.num_sent_blocks > num_sent_blocks
        else [],
        num_drafts,
        num_sampled_rows,
        num_prompt_logprob_rows,
    )


def _slot(request: Request) -> int:
    if request.slot is None:
        raise InvariantError(f"{request} is scheduled without a slot")
    return request.slot
