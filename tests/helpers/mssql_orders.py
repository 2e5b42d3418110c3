"""Orders to the stand-in for SQL Server that all tests share, and what it was sent."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jetbridge.dialects.tsql.statements import END_SNAPSHOT
from tests.helpers import mssql_server

# A load, in the names of its lock and of its tables.
_RUN = re.compile(r"\bjetbridge_[0-9a-f]{16}(?![0-9a-f])")


def stand_in() -> mssql_server.StandIn:
    if mssql_server.is_given():
        pytest.skip("only the stand-in fails on order, and tells what it was sent")
    return mssql_server.stand_in()


@contextmanager
def sent(table: str) -> Iterator[list[str]]:
    """Provide what the connections of a statement are sent, but for queries, once it has ended.

    They are those whose texts name its table, or one that its load puts beside it. What others do
    at the same time, such as snapshots that end and catalogs of other tests, is left out; so are
    the loads that a sweeper clears up after, though it may use the same connections.
    """
    texts: list[str] = []
    known = 0 if mssql_server.is_given() else len(stand_in().order(counts=True)["by_session"])
    yield texts
    found = stand_in().order(counts=True)["by_session"][known:]
    made = {run for _, text in found if "CREATE TABLE" in text for run in _RUN.findall(text)}
    names = (f"[{table}]", *made)
    named = {session for session, text in found if any(name in text for name in names)}
    texts += [
        text
        for session, text in found
        if session in named
        and made.issuperset(_RUN.findall(text))
        and not text.lstrip().startswith("SELECT")
        and text != END_SNAPSHOT
    ]


@contextmanager
def failing(number: int, *patterns: str, **more: Any) -> Iterator[None]:
    """Let statements fail that match one of the patterns."""
    for pattern in patterns:
        order = {"when": "statement", "pattern": pattern, "number": number, "times": None, **more}
        assert stand_in().order(fault=order) == {"ok": True}
    try:
        yield
    finally:
        stand_in().order(clear=True)


@contextmanager
def refusing_rows(*, drop: bool = False) -> Iterator[None]:
    """Let rows meet a full disk; with `drop` DROP TABLE fails, too."""
    with (
        failing(3726, *["DROP TABLE"] * drop),
        failing(1105, "INSERT INTO .* VALUES"),
        failing(1105, "", when="bulk row"),
    ):
        yield
