"""Log lines of the engine process: one line of text, or one JSON object, per message, on stderr.

A thread of its own writes them: whoever logs only puts a record into a bounded queue, so a sink that
blocks costs lines, never a step.
"""

import atexit
import logging
import sys
import threading
import time
from queue import Full, Queue

import msgspec

from vllm_rs.core.threads import name_this_thread

logger = logging.getLogger("vllm_rs")

TRACE = 5
logging.addLevelName(TRACE, "TRACE")
MAX_QUEUED_RECORDS = 8192
"""Records a stalled sink may hold back; later ones are dropped and counted."""
FLUSH_LIMIT_S = 1.0
"""Longest wait at exit for a sink that does not take the last lines."""
_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}


def _utc(record: logging.LogRecord) -> str:
    """Time of a record as the server writes it, to the microsecond, so that both logs sort together."""
    seconds, fraction = divmod(record.created, 1)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(fraction * 1e6):06d}Z"


class TextFormatter(logging.Formatter):
    """One line per message, as the server's lines look."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message; the traceback if there is one."""
        line = f"{_utc(record)} {record.levelname:>5} engine {record.name}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object per message."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; the traceback if there is one."""
        fields = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


class BackgroundHandler(logging.Handler):
    """Formats and writes in its own thread."""

    def __init__(self, sink: logging.Handler) -> None:
        super().__init__()
        self._sink = sink
        self._queue: Queue[logging.LogRecord | threading.Event] = Queue(MAX_QUEUED_RECORDS)
        self.num_dropped = 0
        """Records that found the queue full."""
        threading.Thread(target=self._run, name="vllm-rs-log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits."""
        try:
            self._queue.put_nowait(record)
        except Full:
            self.num_dropped += 1

    def flush(self) -> None:
        """Wait for what is queued, but not for a sink that is stuck."""
        done = threading.Event()
        try:
            self._queue.put_nowait(done)
        except Full:
            return
        done.wait(FLUSH_LIMIT_S)

    def _run(self) -> None:
        name_this_thread()
        while True:
            item = self._queue.get()
            if isinstance(item, threading.Event):
                item.set()
            else:
                self._sink.handle(item)


def configure_logging(level: str, log_format: str) -> None:
    """Send the package's log to stderr."""
    sink = logging.StreamHandler(sys.stderr)
    sink.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    handler = BackgroundHandler(sink)
    atexit.register(handler.flush)
    logger.handlers = [handler]
    logger.setLevel(_LEVELS[level])
    logger.propagate = False
