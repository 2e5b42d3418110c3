"""Writes the log to standard error, one line a record, without secrets."""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

HIDDEN = "***"
# The forms in which a message may contain the token of a call.
SECRETS = (
    re.compile(r"(?i)(\bbearer\s+)(?!tokens?\b)[^\s'\",;)\]}]+"),
    re.compile(r"(?i)(\bauthorization\W{1,8}b?['\"]?basic\s+)[a-z0-9+/=]+"),
    re.compile(r"(?i)(\bauth_?token\b['\"]?\s*[=:]?\s*b?['\"]?)[^\s'\",;&)\]}]+"),
)


def redact(text: str) -> str:
    """Return a text without the tokens in it."""
    for pattern in SECRETS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


class LineFormatter(logging.Formatter):
    """Format a record as one line: line ends of a traceback become `\\n`.

    It redacts the finished line, so also the arguments and the traceback.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        return redact(line).replace("\r", "\\r").replace("\n", "\\n")


def set_up_logging(*, verbose: bool = False, stream: TextIO | None = None) -> logging.Handler:
    """Send the log to a stream, by default standard error; a second call replaces the first."""
    logger = logging.getLogger("jetbridge")
    for old in logger.handlers[:]:
        if isinstance(old.formatter, LineFormatter):
            logger.removeHandler(old)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False
    return handler
