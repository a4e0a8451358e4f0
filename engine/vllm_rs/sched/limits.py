"""What bounds a step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SchedulerLimits:
    """Resolved limits of the scheduler, in tokens or requests."""

    max_num_seqs: int
    """Requests in the batch."""
    max_num_batched_tokens: int
    """Tokens run in one step, over all requests."""
    max_model_len: int
    """Prompt and output of one request."""
    enable_chunked_prefill: bool = True
    """Off: a prompt runs whole or waits; only work larger than the whole budget is still cut, as it could
    never run.
    """
    long_prefill_token_threshold: int = 0
    """Largest chunk of one request in a step; 0 means the budget is the only limit."""
    policy: str = "fcfs"
    check_integrity: bool = False
    """Audit the book-keeping after every step (tests) instead of only when idle."""

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens must be at least max_num_seqs ({self.max_num_seqs}),"
                f" got {self.max_num_batched_tokens}"
            )
