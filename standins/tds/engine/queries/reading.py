"""Running compiled SQL: locks first, then waiting for uncommitted rows, then DuckDB.

READ COMMITTED as SQL Server has it by default: a reader waits for rows that another transaction
has written, all of the table's unless an index leads to those it looks for. With
READ_COMMITTED_SNAPSHOT or SNAPSHOT it sees the last committed ones instead.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import duckdb

from standins.tds.engine.errors import error
from standins.tds.engine.expressions.aggregates import OVER
from standins.tds.engine.parse.hints import DIRTY_HINTS
from standins.tds.engine.queries.access import Access, CatalogAccess
from standins.tds.engine.queries.compiler import Queries
from standins.tds.engine.storage import locks
from standins.tds.engine.storage.catalog import Table
from standins.tds.engine.storage.store import translated
from standins.tds.engine.storage.transactions import Core, Transaction
from standins.tds.engine.storage.versions import DIRTY, Snapshot

PARAMETER = re.compile(r"\$(p\d+)\b")
MARKED = re.compile("\x03(\\d+)\x03")
STRONG = {"HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD"}


Value = TypeVar("Value")


class Changed(Exception):
    """Definitions that were waited for are others now: the statement is to be compiled anew."""


def again(call: Callable[[], Value]) -> Value:
    while True:
        try:
            return call()
        except Changed:
            continue


class Reads(Protocol):
    """The session, as far as reading needs it."""

    core: Core
    isolation: str

    def allowed(self, right: str, table: Table) -> None: ...

    def is_versioned(self, database: str) -> bool: ...

    def allows_snapshot(self, database: str) -> bool: ...

    def running(self, cursor: duckdb.DuckDBPyConnection | None) -> None:
        """For cancelling."""
        ...


def table_lock(table: Table) -> tuple[str, int]:
    return ("object", table.object_id)


def read_mode(access: Access, isolation: str, versioned: bool) -> tuple[str, bool, bool]:
    """The lock, whether it ends with the statement, and whether uncommitted rows are waited for."""
    hints = access.hints
    if access.target:
        strong = hints & (STRONG | {"TABLOCK", "TABLOCKX", "XLOCK"})
        return (locks.X, False, False) if strong else (locks.IX, False, isolation != "SNAPSHOT")
    if hints & {"TABLOCKX", "XLOCK"}:
        return locks.X, False, False
    if "UPDLOCK" in hints:
        return locks.U, False, False
    if hints & STRONG or isolation in ("REPEATABLE READ", "SERIALIZABLE"):
        return locks.S, False, False
    if "TABLOCK" in hints:
        return locks.S, True, False
    return _weak_mode(hints, isolation, versioned)


def _weak_mode(hints: frozenset[str], isolation: str, versioned: bool) -> tuple[str, bool, bool]:
    if isolation == "READ UNCOMMITTED" or hints & DIRTY_HINTS:
        return locks.SCH_S, True, False
    if isolation == "SNAPSHOT" or (versioned and "READCOMMITTEDLOCK" not in hints):
        return locks.SCH_S, True, False
    return locks.IS, True, True


class Reader:
    def __init__(self, session: Reads, transaction: Transaction, compiler: Queries) -> None:
        self.session, self.transaction, self.compiler = session, transaction, compiler
        self.core = session.core

    def ready(self) -> Snapshot:
        """Locks are held and nothing is in the way; what is visible now. To be closed."""
        for access in self.compiler.accesses.values():
            self._lock(access)
        for each in self.compiler.catalog_accesses.values():
            self._wait_for_definitions(each)
        while True:
            snapshot = self._snapshot()
            blockers = self._blockers()
            if not blockers:
                return snapshot
            self.close(snapshot)
            self.core.locks.wait_for(self.transaction, set(blockers))

    def close(self, snapshot: Snapshot) -> None:
        if snapshot is not self.transaction.snapshot:
            self.core.versions.close(snapshot)

    def started(self, sql: str) -> duckdb.DuckDBPyConnection:
        """A cursor of its own, its rows still to be read; DuckDB keeps what it saw."""
        snapshot = self.ready()
        try:
            return self.run(self.core.store.cursor(), sql, snapshot)
        finally:
            self.close(snapshot)

    def run(
        self, cursor: duckdb.DuckDBPyConnection, sql: str, snapshot: Snapshot
    ) -> duckdb.DuckDBPyConnection:
        text = self.placed(sql, snapshot)
        for name, rows in self.compiler.arrows.items():
            cursor.register(name, rows)
        with self.watched(cursor):
            return execute(cursor, text, self.compiler.parameters)

    @contextmanager
    def watched(self, cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
        self.session.running(cursor)
        try:
            yield
        finally:
            self.session.running(None)

    def placed(self, sql: str, snapshot: Snapshot) -> str:
        """With the conditions of what is visible."""
        by_number = {each.number: each for each in self.compiler.accesses.values()}

        def condition(found: re.Match[str]) -> str:
            access = by_number[int(found[1])]
            if access.hints & DIRTY_HINTS or self.session.isolation == "READ UNCOMMITTED":
                return DIRTY
            return snapshot.condition()

        return MARKED.sub(condition, sql).replace(OVER, "")

    def _lock(self, access: Access) -> None:
        table = access.table
        if not access.target:
            self.session.allowed("SELECT", table)
        mode, short, _ = self._mode(access)
        self.transaction.lock(table_lock(table), mode, short)

    def _mode(self, access: Access) -> tuple[str, bool, bool]:
        versioned = self.session.is_versioned(access.table.database)
        return read_mode(access, self.session.isolation, versioned)

    def _snapshot(self) -> Snapshot:
        transaction, versions = self.transaction, self.core.versions
        if self.session.isolation != "SNAPSHOT":
            return versions.open(transaction.stamps)
        for access in self.compiler.accesses.values():
            if not self.session.allows_snapshot(access.table.database):
                raise error(3952, access.table.database)
        if transaction.snapshot is None:
            transaction.snapshot = versions.open(transaction.stamps)
        return transaction.snapshot

    def _blockers(self) -> set[Transaction]:
        found: set[Transaction] = set()
        for access in self.compiler.accesses.values():
            if self._mode(access)[2]:
                found |= self._row_blockers(access)
        return found

    def _row_blockers(self, access: Access) -> set[Transaction]:
        versions = self.core.versions
        others = versions.others(access.table.stored, self.transaction.stamps)
        seek = access.seek()
        if others and seek:
            others &= self._stamps_at(access, seek, others)
        with versions.lock:
            return {versions.active[each] for each in others if each in versions.active}

    def _stamps_at(self, access: Access, seek: str, others: set[int]) -> set[int]:
        listed = ", ".join(str(each) for each in others)
        sql = (
            f"SELECT DISTINCT __ins, __del FROM {access.table.stored} AS {access.alias}"
            f" WHERE (__ins IN ({listed}) OR __del IN ({listed})) AND {seek}"
        )
        cursor = self.core.store.cursor()
        try:
            rows = execute(cursor, sql, self.compiler.parameters).fetchall()
        finally:
            cursor.close()
        return {stamp for row in rows for stamp in row if stamp is not None}

    def _wait_for_definitions(self, access: CatalogAccess) -> None:
        """A catalog view waits for tables that another transaction is creating or changing."""
        if access.dirty or self.session.isolation in ("READ UNCOMMITTED", "SNAPSHOT"):
            return
        holders = self.core.locks.holders(locks.SCH_M, "object")
        others = {
            each
            for each in holders
            if isinstance(each, Transaction) and each is not self.transaction
            and any(access.concerns(table) for table in _touched(each))
        }  # fmt: skip
        if others:
            self.core.locks.wait_for(self.transaction, set(others))
            raise Changed


def _touched(transaction: Transaction) -> list[Table]:
    """Definitions before and after."""
    found = []
    for object_id, table in list(transaction.changes.items()):
        before = transaction.core.catalog.objects.get(object_id)
        found += [each for each in (before, table) if each is not None]
    return found


def execute(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None
) -> duckdb.DuckDBPyConnection:
    """With those of the parameters that the text names, and errors translated."""
    wanted = {name: parameters[name] for name in set(PARAMETER.findall(sql))} if parameters else {}
    try:
        return cursor.execute(sql, wanted) if wanted else cursor.execute(sql)
    except duckdb.TransactionException:
        raise
    except duckdb.Error as failure:
        raise translated(failure, sql) from None
