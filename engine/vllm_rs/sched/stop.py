"""What ends a request, checked after each token it gets."""

from vllm_rs.sched.request import Request
from vllm_rs.wire import FinishReason, RepetitionDetection

REPETITION_STOP_REASON = "repetition_detected"


def check_stop(request: Request) -> FinishReason | None:
    """Whether the last token of `request` ends it; sets `stop_reason` where the wire has one.

    A stop token may not end a request that still owes `min_tokens`. EOS has no stop_reason, a stop id
    names itself.
    """
    token_ids = request.token_ids
    num_tokens = len(token_ids)
    if num_tokens >= request.min_total_tokens:
        token_id = token_ids[-1]
        if token_id == request.eos_token_id:
            return FinishReason.STOP
        if token_id in request.stop_token_ids:
            request.stop_reason = token_id
            return FinishReason.STOP
    if num_tokens >= request.max_total_tokens:
        return FinishReason.LENGTH
    detection = request.params.repetition_detection
    if (
        detection is not None
        and num_tokens >= request.min_total_tokens
        and repeats(token_ids, request.num_prompt_tokens, detection)
    ):
        request.stop_reason = REPETITION_STOP_REASON
        return FinishReason.REPETITION
    return None


def repeats(token_ids: list[int], num_prompt_tokens: int, detection: RepetitionDetection) -> bool:
    """Whether the output ends in `min_count` or more copies of one pattern of an allowed size."""
    if detection.max_pattern_size < 1 or detection.min_count < 2:
        return False
    num_output_tokens = len(token_ids) - num_prompt_tokens
    last = token_ids[-1]
    for size in range(max(1, detection.min_pattern_size), detection.max_pattern_size + 1):
        length = size * detection.min_count
        if length > num_output_tokens:
            return False
        if token_ids[-1 - size] != last:
            continue  # by far the most common case, and cheap; only then is the tail worth a copy
        tail = token_ids[-length:]
        if tail[size:] == tail[:-size]:
            return True
    return False
