"""Writes to the terminal; nothing else in the package does."""

import json
import sys
from typing import Any


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
