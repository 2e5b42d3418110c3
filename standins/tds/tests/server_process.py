"""The server in a process of its own, for clients that keep the GIL while they wait for it.

These are Microsoft's driver when it reads Arrow batches or loads rows given as tuples, and pymssql
when it loads: with the server in the same process they would wait for ever.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from standins.tds.process import ServerProcess, start
from standins.tds.tests.scripted import INT, ScriptedEngine, Table
from standins.tds.values import Column, Rows, SqlType


def engine() -> ScriptedEngine:
    """A table of two columns, and what pymssql asks before it loads into it."""
    columns = (Column("id", INT, nullable=False), Column("v", SqlType("nvarchar", 20)))
    asked = ("column_id", "system_type_name", "is_identity")
    types = (INT, SqlType("nvarchar", 128), SqlType("bit"))
    described = tuple(Column(name, kind) for name, kind in zip(asked, types, strict=True))
    found = [(1, "int", False), (2, "nvarchar", False)]
    many = [(i, f"value {i}" if i % 7 else None) for i in range(200_000)]
    made = ScriptedEngine(t=Table(*columns), many=Table(*columns, rows=many))
    made.script["endless"] = _endless
    made.script["FROM sys.columns"] = lambda *_: iter([Rows(described, found)])
    made.script["SET FMTONLY ON select"] = lambda *_: iter([Rows(columns, [])])
    return made


def _endless(*_: Any) -> Iterator[Rows]:
    """More than anybody reads: about an hour of rows."""
    yield Rows((Column("i", INT, nullable=False),), ((i,) for i in range(10**10)))


@contextlib.contextmanager
def running(*options: str) -> Iterator[ServerProcess]:
    started = start("--engine", f"{__name__}:engine", *options)
    try:
        yield started
    finally:
        code = started.stop()
    assert code == 0
