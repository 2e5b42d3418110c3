"""Defines results of statements: rows, or a report of rows, bytes, seconds and engine."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Report:
    """Hold what a statement did. `seconds` are by phase: plan, spool, load."""

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
        """Return the fields that have a value; counts only for a statement that ran a query."""
        values = {name: value for name, value in vars(self).items() if value not in ("", {})}
        if not self.engine:
            values = {name: value for name, value in values.items() if value != 0}
        seconds = self._round_seconds()
        return {**values, **({"seconds": seconds} if seconds else {})}

    def as_row(self) -> dict[str, Any]:
        """Return one row of `REPORT`."""
        return {**vars(self), "seconds": json.dumps(self._round_seconds())}

    def _round_seconds(self) -> dict[str, float]:
        return {phase: round(duration, 4) for phase, duration in self.seconds.items()}


def _column_type(field_type: object) -> pa.DataType:
    return pa.int64() if field_type is int else pa.string()


# The schema of reports as rows: every column is always present, and seconds are JSON.
REPORT = pa.schema([(item.name, _column_type(item.type)) for item in fields(Report)])


@dataclass
class StatementResult:
    """Hold the rows or the report of one statement, or both.

    Read the rows before the next statement of the session runs.
    """

    report: Report | None = None
    schema: pa.Schema | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))

    def table(self) -> pa.Table:
        """Return all rows; a report without rows is one row."""
        if self.schema is not None:
            return pa.Table.from_batches(self.batches, self.schema)
        rows = [] if self.report is None else [self.report.as_row()]
        return pa.Table.from_pylist(rows, REPORT)


@dataclass(frozen=True)
class ProgressEvent:
    """Tell how far a statement is, in rows or in Spark tasks. `total` None: unknown."""

    phase: str
    done: int = 0
    total: int | None = None
    unit: str = "rows"


ProgressListener = Callable[[ProgressEvent], None]


def ignore_progress(_: ProgressEvent) -> None:
    """Do nothing with progress."""


class PhaseTimer:
    """Measure the seconds of each phase of a statement, and report progress to a listener."""

    def __init__(self, listener: ProgressListener = ignore_progress) -> None:
        self.seconds: dict[str, float] = {}
        self._listener, self._phase = listener, ""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to this phase."""
        began, self._phase = time.monotonic(), name
        self._listener(ProgressEvent(name))
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    def rows(self, rows: int, total: int | None = None) -> None:
        """Report the rows of the current phase so far."""
        self._listener(ProgressEvent(self._phase, rows, total))

    def tasks(self, done: int, total: int) -> None:
        """Report the Spark tasks of the current phase so far."""
        self._listener(ProgressEvent(self._phase, done, total, "tasks"))
