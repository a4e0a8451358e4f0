"""A one-line progress bar on standard error: requests done, tokens per second."""

import sys
import time
from typing import TextIO


class ProgressBar:
    """Draws at most ten times a second, and only on a terminal unless told otherwise."""

    def __init__(self, total: int, *, enabled: bool = True, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._enabled = enabled and self._stream.isatty()
        self._total = total
        self._done = 0
        self._tokens_in = self._tokens_out = 0
        self._started = self._drawn = time.monotonic()

    def finished(self, prompt_tokens: int, output_tokens: int) -> None:
        """One more request is through."""
        self._done += 1
        self._tokens_in += prompt_tokens
        self._tokens_out += output_tokens
        if time.monotonic() - self._drawn > 0.1:
            self._draw()

    def close(self) -> None:
        """Draw the last state and end the line."""
        if self._enabled:
            self._draw()
            self._stream.write("\n")
            self._stream.flush()

    def _draw(self) -> None:
        if not self._enabled:
            return
        self._drawn = time.monotonic()
        elapsed_s = max(1e-9, self._drawn - self._started)
        filled = 30 * self._done // max(1, self._total)
        self._stream.write(
            f"\r[{'#' * filled}{'.' * (30 - filled)}] {self._done}/{self._total} requests  "
            f"in {self._tokens_in / elapsed_s:,.0f} tok/s  out {self._tokens_out / elapsed_s:,.0f} tok/s"
        )
        self._stream.flush()
