"""The only place that writes to the terminal."""

import json
import sys
from typing import Any


def say(line: str) -> None:
    """A line of the result, on standard output; at once, for whoever waits for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    say(json.dumps(value, ensure_ascii=False))


def print_error(sentence: str) -> None:
    """Why it did not work, as one line on standard error."""
    sys.stderr.write(f"jetbridge: {' '.join(sentence.split())}\n")


def note(line: str) -> None:
    """How far it has come, on standard error."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
