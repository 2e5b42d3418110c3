"""What a statement did: rows, bytes and seconds, who ran it and why."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Report:
    """`seconds` are by phase: plan, spool, load."""

    statement: str
    target: str = ""
    rows_produced: int = 0
    rows_written: int = 0
    bytes: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    engine: str = ""
    reason: str = ""
    ddl: str = ""
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Without what is empty; where no rows were meant, without their number."""
        found = {name: value for name, value in vars(self).items() if value not in ("", {})}
        if not self.engine:
            found = {name: value for name, value in found.items() if value != 0}
        seconds = {phase: round(took, 4) for phase, took in self.seconds.items()}
        return {**found, **({"seconds": seconds} if seconds else {})}

    def as_row(self) -> dict[str, Any]:
        """One row of `REPORT`."""
        seconds = json.dumps({phase: round(took, 4) for phase, took in self.seconds.items()})
        return {**vars(self), "seconds": seconds}


def _column(kind: object) -> pa.DataType:
    return pa.int64() if kind is int else pa.string()


# As rows: all columns are always there, the seconds as JSON.
REPORT = pa.schema([(each.name, _column(each.type)) for each in fields(Report)])


@dataclass(frozen=True)
class ProgressEvent:
    """How far a statement has come, in rows or in Spark's tasks; `total` None: nobody knows."""

    phase: str
    done: int = 0
    total: int | None = None
    unit: str = "rows"


ProgressListener = Callable[[ProgressEvent], None]


def ignore_progress(_: ProgressEvent) -> None:
    """Watches nothing."""


class PhaseTimer:
    """Counts seconds by phase, and tells whoever watches."""

    def __init__(self, watch: ProgressListener = ignore_progress) -> None:
        self.seconds: dict[str, float] = {}
        self._watch, self._phase = watch, ""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began, self._phase = time.monotonic(), name
        self._watch(ProgressEvent(name))
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    def rows(self, rows: int, total: int | None = None) -> None:
        self._watch(ProgressEvent(self._phase, rows, total))

    def tasks(self, done: int, total: int) -> None:
        self._watch(ProgressEvent(self._phase, done, total, "tasks"))
