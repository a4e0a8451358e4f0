"""The decode-latency budget: how many prefill tokens a step may take while streams are running."""

from typing import Protocol


class LatencyBudget(Protocol):
    """Limits prefill per step so that running streams keep their inter-token time."""

    def prefill_limit_tokens(self, num_decode_rows: int) -> int | None:
        """Prefill tokens this step may run beside so many decode rows; None means no limit of its own."""

    def observe(self, num_decode_tokens: int, num_prefill_tokens: int, elapsed_s: float) -> None:
        """A step of this make-up took so long."""


class Unlimited:
    """The token budget of the step is the only limit."""

    def prefill_limit_tokens(self, num_decode_rows: int) -> int | None:
        """No limit."""
        return None

    def observe(self, num_decode_tokens: int, num_prefill_tokens: int, elapsed_s: float) -> None:
        """Nothing to learn."""


class InterTokenTarget:
    """Keeps steps with running streams below `target_s`, from what decode and prefill were seen to cost."""

    def __init__(self, target_s: float, *, min_chunk_tokens: int = 16, smoothing: float = 0.2) -> None:
        self._target_s = target_s
        self._min_chunk_tokens = min_chunk_tokens
        self._smoothing = smoothing
        self._decode_step_s: float | None = None
        self._prefill_token_s: float | None = None

    def prefill_limit_tokens(self, num_decode_rows: int) -> int | None:
        """What fits into the target beside a decode step; never below the smallest chunk, so that prefill
        advances.
        """
        if num_decode_rows == 0 or self._prefill_token_s is None:
            return None
        spare_s = self._target_s - (self._decode_step_s or 0.0)
        return max(self._min_chunk_tokens, int(spare_s / self._prefill_token_s))

    def observe(self, num_decode_tokens: int, num_prefill_tokens: int, elapsed_s: float) -> None:
        """Pure decode steps teach the cost of decode; the rest of a mixed step is that of its prefill
        tokens.
        """
        if num_prefill_tokens == 0:
            self._decode_step_s = self._blend(self._decode_step_s, elapsed_s)
            return
        decode_s = (self._decode_step_s or 0.0) if num_decode_tokens else 0.0
        per_token_s = max(elapsed_s - decode_s, 1e-9) / num_prefill_tokens
        self._prefill_token_s = self._blend(self._prefill_token_s, per_token_s)

    def _blend(self, old: float | None, new: float) -> float:
        return new if old is None else old + self._smoothing * (new - old)
