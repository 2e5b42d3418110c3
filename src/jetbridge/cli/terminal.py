"""Writes to the terminal, which no other module does: errors, exit codes and the log."""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

USAGE_ERROR = 2
INTERRUPTED = 130


class UsageError(Exception):
    """Refuse an argument; the message is one sentence with what is allowed."""


def say(line: str) -> None:
    """Print a line of the result on standard output, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a value as one line of JSON on standard output."""
    say(json.dumps(value, ensure_ascii=False))


def print_error(sentence: str) -> None:
    """Print an error as one line on standard error."""
    sys.stderr.write(f"jetbridge: {' '.join(sentence.split())}\n")


def note(line: str) -> None:
    """Print a line about the progress on standard error, at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


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
