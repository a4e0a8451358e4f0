"""Log lines of the engine process: one line of text, or one JSON object, per message, on stderr."""

import logging
import sys

import msgspec

logger = logging.getLogger("vllm_rs")

TRACE = 5
_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}


class JsonFormatter(logging.Formatter):
    """One JSON object per message."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; the traceback if there is one."""
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def configure_logging(level: str, log_format: str) -> None:
    """Send the package's log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)s engine %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    logger.handlers = [handler]
    logger.setLevel(_LEVELS[level])
    logger.propagate = False
