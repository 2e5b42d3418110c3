"""Judges the queries of one sqllogictest file over the tables that it makes."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb

from benchmarks.scoreboard.judge import SECONDS, Judge, Verdict, interrupted
from benchmarks.scoreboard.sqllogictest import Record, Skipped, records

# Settings that change how DuckDB checks itself, or what a machine has, and not what it answers.
_LEFT_OUT = re.compile(
    r"verif|profil|threads|memory_limit|debug_|progress|external_threads|temp_directory",
    re.IGNORECASE,
)
_SELECTS = ("select", "with", "from", "values", "table", "(")
_BEGINS = re.compile(r"\s*(begin|start\s+transaction)", re.IGNORECASE)
_ENDS = re.compile(r"\s*(commit|rollback|end|abort)", re.IGNORECASE)
Judged = tuple[str, Verdict | None]


def judge_file(path: Path) -> Iterator[Judged]:
    """Yield each SELECT of a file with its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        connection = duckdb.connect(config={"threads": 1, "memory_limit": "2GB"})
        try:
            yield from _File(connection).judged(path, folder)
        except Skipped:
            return
        finally:
            connection.close()


class _File:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._root = connection
        self._connections: dict[str, duckdb.DuckDBPyConnection] = {"": connection}
        self._judges: dict[str, Judge] = {}
        self._in_transaction = False

    def judged(self, path: Path, folder: str) -> Iterator[Judged]:
        variables = {"TEST_DIR": folder, "WORKING_DIRECTORY": ".", "DATA_DIR": "data"}
        for record in records(path, variables):
            connection = self._connection(record.connection)
            if self._is_judged(record):
                judge = self._judges.setdefault(record.connection, Judge(connection))
                yield record.sql, judge.verdict(record.sql)
            else:
                self._run(connection, record)

    def _connection(self, name: str) -> duckdb.DuckDBPyConnection:
        if name not in self._connections:
            self._connections[name] = self._root.cursor()
        return self._connections[name]

    def _is_judged(self, record: Record) -> bool:
        starts = record.sql.lstrip().lower().startswith(_SELECTS)
        return record.kind in ("query", "ok") and starts and not self._in_transaction

    def _run(self, connection: duckdb.DuckDBPyConnection, record: Record) -> None:
        begins, ends = _BEGINS.match(record.sql), _ENDS.match(record.sql)
        self._in_transaction = bool(begins) or (self._in_transaction and not ends)
        head = record.sql.lstrip()[:6].lower()
        if head.startswith(("pragma", "set ", "reset")) and _LEFT_OUT.search(record.sql):
            return
        with (
            suppress(duckdb.Error, UnicodeDecodeError, RuntimeError, OverflowError, ValueError),
            interrupted(connection, SECONDS),
        ):
            connection.execute(record.sql)
