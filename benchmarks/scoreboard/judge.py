"""Judges one query: its rows as one rendered stage, and as stages in several tasks."""

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import duckdb

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.plan import TableName
from jetbridge.distributed.stages import StagedQuery
from jetbridge.distributed.staging import QueryStager
from tests.distributed.local_run import LocalRun
from tests.distributed.shared_plans import SharedPlans

TASKS = 3
DIGITS = 10
SECONDS = 5.0
# Every join by keys that may be, and every join by broadcast that may be.
BROADCAST_ROWS = (0, 10**12)
Rows = Sequence[tuple[object, ...]]


@dataclass(frozen=True)
class Verdict:
    """`whole` and `cut` are "equal", "refused", "failed", "different" or a milder difference.

    "open" is another answer to a question of whose order SQL says nothing, "digits" one that
    differs in the last digits of floating-point numbers.
    """

    whole: str
    cut: str
    reason: str = ""
    cut_reason: str = ""
    stages: int = 0
    seconds: float = 0.0


class Judge:
    """Judges queries over the tables of one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._stager = QueryStager(SharedPlans(connection))

    def verdict(self, query: str) -> Verdict | None:
        """Return how a query fares, or None if it has no answer of its own."""
        query = query.strip().rstrip(";")
        try:
            with interrupted(self._connection, SECONDS):
                answer = self._connection.execute(query).fetchall()
                whole = self._stager.stage_whole(query)
        except (duckdb.Error, UnicodeDecodeError, RuntimeError, OverflowError, ValueError):
            return None
        result, reason = self._compared(whole, answer)
        if result in ("different", "open") and self._moves(query, answer):
            return None
        cut, cut_reason, stages, seconds = "equal", "", 0, 0.0
        before = None
        for rows in BROADCAST_ROWS:
            start = perf_counter()
            staged = self._stager.stage(query, CutOptions(_unknown if rows == 0 else _one, rows))
            seconds = max(seconds, perf_counter() - start)
            stages = max(stages, len(staged.stages))
            if staged == before:
                break
            before = staged
            cut, cut_reason = self._compared(staged, answer)
            if cut != "equal":
                break
        return Verdict(result, cut, reason, cut_reason, stages, seconds)

    def _moves(self, query: str, answer: Rows) -> bool:
        """Return whether the answer differs from run to run, as that of `SELECT localtime`."""
        return comparison(self._connection.execute(query).fetchall(), answer, is_steady=True)[
            0
        ] != ("equal")

    def _compared(self, staged: StagedQuery, answer: Rows) -> tuple[str, str]:
        if staged.reason:
            return "refused", staged.reason
        try:
            with interrupted(self._connection, SECONDS):
                rows = LocalRun(self._connection, TASKS).rows(staged)
        except duckdb.Error as error:
            return "failed", str(error).split("\n", 1)[0][:200]
        return comparison(rows, answer, is_steady=staged.is_steady)


def comparison(rows: Rows, answer: Rows, *, is_steady: bool) -> tuple[str, str]:
    """Return how rows differ from an answer, as bags."""
    if Counter(map(repr, rows)) == Counter(map(repr, answer)):
        return "equal", ""
    if Counter(map(_rounded, rows)) == Counter(map(_rounded, answer)):
        return "digits", ""
    kind = "different" if is_steady else "open"
    return kind, f"{len(rows)} rows for {len(answer)}: {str(rows[:1])[:80]} {str(answer[:1])[:80]}"


def _rounded(row: tuple[object, ...]) -> str:
    return repr(
        [
            float(f"{value:.{DIGITS}g}")
            if isinstance(value, float) and math.isfinite(value)
            else value
            for value in row
        ]
    )


def _unknown(table: TableName) -> int | None:
    return None


def _one(table: TableName) -> int | None:
    return 1


@contextmanager
def interrupted(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what runs on a connection after some seconds."""
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
