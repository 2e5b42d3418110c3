"""Changing a table: rows are staged, checked, marked and inserted in one DuckDB transaction.

A stage has for every row what to do (`act`: I, U, D), the row in the table (`rid`), the new values
(`n_…`) and the old ones (`o_…`). A statement that meets the lock of another transaction undoes
what it did, waits, and begins anew.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from standins.tds.engine.errors import error
from standins.tds.engine.expressions.compare import group_key
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.queries.compiler import Queries
from standins.tds.engine.queries.reading import Reader, Reads, execute, table_lock
from standins.tds.engine.storage import locks
from standins.tds.engine.storage.catalog import ColumnDef, Key, Table
from standins.tds.engine.storage.store import is_conflict
from standins.tds.engine.storage.transactions import Transaction
from standins.tds.engine.storage.versions import Snapshot
from standins.tds.engine.types import INTEGER_RANGES

ATTEMPTS = 10_000


class Blocked(Exception):
    """Other transactions have to end first; without any, it is only to be tried again."""

    def __init__(self, stamps: set[int]) -> None:
        super().__init__()
        self.stamps = stamps


@dataclass
class Change:
    """What is to be done. `stage` is SQL; `checks` are predicates over its new values."""

    table: Table
    stage: str
    verb: str
    outputs: tuple[Expr, ...] = ()
    numbers_identity: bool = False
    explicit_identity: bool = False
    changed: frozenset[int] | None = None  # ids of columns; None for all
    checks: list[tuple[str, str, str]] = field(default_factory=list)
    refuses_twice: bool = False
    hints: frozenset[str] = frozenset()
    right: str = "INSERT"


@dataclass
class Result:
    rows: int
    output: pa.Table | None = None
    identity: int | None = None


class Writer:
    def __init__(self, session: Reads, transaction: Transaction, compiler: Queries) -> None:
        self.session, self.transaction, self.compiler = session, transaction, compiler
        self.core = session.core
        self.reader = Reader(session, transaction, compiler)
        self.cursor: duckdb.DuckDBPyConnection = self.core.store.cursor()

    def apply(self, change: Change) -> Result:
        self.session.allowed(change.right, change.table)
        strong = change.hints & {"TABLOCK", "TABLOCKX", "XLOCK", "HOLDLOCK", "SERIALIZABLE"}
        mode = locks.X if strong else locks.IX
        self.transaction.lock(table_lock(change.table), mode)
        self.transaction.stamp()
        try:
            for _ in range(ATTEMPTS):
                try:
                    return self._attempt(change)
                except Blocked as blocked:
                    self._wait(blocked)
                except duckdb.TransactionException as failure:
                    if not is_conflict(failure):
                        raise
            raise error(1222)
        finally:
            self.cursor.close()

    def _wait(self, blocked: Blocked) -> None:
        versions = self.core.versions
        with versions.lock:
            others = {versions.active[each] for each in blocked.stamps if each in versions.active}
        self.core.locks.wait_for(self.transaction, set(others))

    def _attempt(self, change: Change) -> Result:
        snapshot = self.reader.ready()
        try:
            with self.core.versions.latch(change.table.stored):
                self.cursor.execute("BEGIN")
                try:
                    result = self._staged(change, snapshot)
                    self.cursor.execute("COMMIT")
                except BaseException:
                    roll_back(self.cursor)
                    raise
                return result
        finally:
            self.reader.close(snapshot)

    def _staged(self, change: Change, snapshot: Snapshot) -> Result:
        self.reader.run(self.cursor, f"CREATE TEMP TABLE stage AS {change.stage}", snapshot)
        stamp = self.transaction.stamp()
        table = change.table
        inserted, changed = self._one(
            "SELECT count(*) FILTER (act = 'I'), count(*) FILTER (act <> 'I') FROM stage"
        )
        if changed:
            self._mark(change, stamp)
        last = self._number(change, inserted)
        if inserted or changed:
            self._check(change, stamp)
            self.transaction.wrote(table.stored, stamp, inserted + changed, bool(changed))
        stored = [each.stored for each in table.columns]
        listed, new = ", ".join(stored), ", ".join(f"n_{each}" for each in stored)
        self._run(
            f"INSERT INTO {table.stored} ({listed}, __ins, __del)"
            f" SELECT {new}, {stamp}, NULL FROM stage WHERE act <> 'D' ORDER BY rn"
        )
        # The stage goes with its connection, which is closed after the statement.
        return Result(inserted + changed, self._output(change), last)

    def _run(self, sql: str) -> duckdb.DuckDBPyConnection:
        return execute(self.cursor, sql, self.compiler.parameters)

    def _one(self, sql: str) -> Any:
        return self._run(sql).fetchone()

    def _mark(self, change: Change, stamp: int) -> None:
        """The old rows become the transaction's, unless they are another's."""
        stored = change.table.stored
        if change.refuses_twice and self._one(
            "SELECT 1 FROM stage WHERE act <> 'I' GROUP BY rid HAVING count(*) > 1 LIMIT 1"
        ):
            raise error(8672)
        rows = "SELECT rid FROM stage WHERE act <> 'I'"
        held = self._run(
            f"SELECT DISTINCT __del FROM {stored} WHERE rowid IN ({rows}) AND __del IS NOT NULL"
        ).fetchall()
        if held:
            self._refuse_or_wait(change.table, {row[0] for row in held})
        self._run(f"UPDATE {stored} SET __del = {stamp} WHERE rowid IN ({rows})")

    def _refuse_or_wait(self, table: Table, stamps: set[int]) -> None:
        with self.core.versions.lock:
            active = {each for each in stamps if each in self.core.versions.active}
        if not active and self.transaction.snapshot is not None:
            raise error(3960, table.full_name, table.database)
        raise Blocked(active)

    def _number(self, change: Change, inserted: int) -> int | None:
        column = change.table.identity
        if column is None or column.identity is None or not inserted:
            return None
        name = f"n_{column.stored}"
        if change.explicit_identity:
            values = self._one(f"SELECT max({name}), min({name}) FROM stage WHERE act = 'I'")
            value = int(values[0] if column.identity.step > 0 else values[1])
            column.identity.see(value)
            return value
        first, step = column.identity.take(inserted), column.identity.step
        last = first + step * (inserted - 1)
        _check_range(column, last)
        self._run(f"UPDATE stage SET {name} = {first} + {step} * (rn - 1) WHERE act = 'I'")
        return last

    def _check(self, change: Change, stamp: int) -> None:
        for name, predicate, column in change.checks:
            if self._one(f"SELECT 1 FROM stage WHERE act <> 'D' AND NOT {predicate} LIMIT 1"):
                raise check_failed(change, "CHECK", name, change.table, column)
        active = set(self.core.versions.active) - set(self.transaction.stamps)
        for key in change.table.uniques:
            if change.changed is None or set(key.columns) & change.changed:
                check_key(self._run, change.table, key, active)
        References(self, change).check()

    def _output(self, change: Change) -> pa.Table | None:
        if not change.outputs:
            return None
        listed = ", ".join(f"{each.sql} AS c{at}" for at, each in enumerate(change.outputs))
        found: pa.Table = self._run(f"SELECT {listed} FROM stage ORDER BY act, rn").to_arrow_table()
        return found


def _check_range(column: ColumnDef, value: int) -> None:
    limits = INTEGER_RANGES.get(column.type.name)
    if limits and not limits[0] <= value <= limits[1]:
        raise error(8115, "IDENTITY", column.type.name)


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    try:
        cursor.execute("ROLLBACK")
    except duckdb.Error:
        return


Run = Callable[[str], duckdb.DuckDBPyConnection]


def check_double(run: Run, table: Table, key: Key, rows: str, prefix: str, condition: str) -> None:
    """A key is not twice among these rows. NULL equals NULL, as in SQL Server's unique keys."""
    columns = [table.by_id(each) for each in key.columns]
    shown = ", ".join(f"any_value({shown_sql(each, f's.{prefix}')})" for each in columns)
    keys = ", ".join(key_sql(each, f"s.{prefix}") for each in columns)
    double = run(
        f"SELECT {shown} FROM {rows} AS s WHERE {condition}"
        f" GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if double:
        raise duplicate(table, key, double)


def check_key(run: Run, table: Table, key: Key, active: set[int]) -> None:
    """A new key is not in the table yet; one that is not committed is waited for."""
    check_double(run, table, key, "stage", "n_", "act <> 'D'")
    columns = [table.by_id(each) for each in key.columns]
    shown = ", ".join(shown_sql(each, "s.n_") for each in columns)
    listed = ", ".join(str(each) for each in active) or "-1"
    joined = " AND ".join(
        f"{key_sql(each, 't.')} IS NOT DISTINCT FROM {key_sql(each, 's.n_')}" for each in columns
    )
    met = run(
        f"SELECT t.__ins, t.__del, {shown} FROM {table.stored} AS t JOIN stage AS s ON {joined}"
        f" WHERE act <> 'D' AND (t.__del IS NULL OR t.__del IN ({listed})) LIMIT 100"
    ).fetchall()
    certain = [row for row in met if row[0] not in active and row[1] is None]
    if certain:
        raise duplicate(table, key, certain[0][2:])
    waits = {stamp for row in met for stamp in row[:2] if stamp in active}
    if waits:
        raise Blocked(waits)


def key_sql(column: ColumnDef, prefix: str) -> str:
    """What is the same for keys that SQL Server holds for equal."""
    return group_key(Expr(f"{prefix}{column.stored}", column.type, collation=column.collation))


def shown_sql(column: ColumnDef, prefix: str) -> str:
    """A value for a message. DuckDB's client cannot fetch a moment with its zone as it is."""
    name = f"{prefix}{column.stored}"
    if column.type.name != "datetimeoffset":
        return name
    return f"strftime(make_timestamp(epoch_us({name})), '%Y-%m-%d %H:%M:%S.%f') || '0 +00:00'"


def duplicate(table: Table, key: Key, values: tuple[Any, ...]) -> Exception:
    shown = ", ".join("<NULL>" if each is None else str(each) for each in values)
    if key.kind == "IX":
        return error(2601, table.full_name, key.name, shown)
    kind = "PRIMARY KEY" if key.kind == "PK" else "UNIQUE KEY"
    return error(2627, kind, key.name, table.full_name, shown)


def check_failed(change: Change, kind: str, name: str, table: Table, column: str) -> Exception:
    ending = f", column '{column}'" if column else ""
    return error(547, change.verb, kind, name, table.database, table.full_name, ending)


class References:
    """Foreign keys, both ways; only NO ACTION."""

    def __init__(self, writer: Writer, change: Change) -> None:
        self._writer, self._change = writer, change
        self._table = change.table

    def check(self) -> None:
        session: Any = self._writer.session
        for key in self._table.foreign:
            if self._change.changed is None or set(key.columns) & self._change.changed:
                self._outgoing(key, session.table_by_id(key.target))
        for child in session.tables():
            for key in child.foreign:
                if key.target == self._table.object_id:
                    self._incoming(key, child)

    def _visible(self) -> str:
        snapshot = self._writer.core.versions.open(self._writer.transaction.stamps)
        self._writer.core.versions.close(snapshot)
        return snapshot.condition("t.")

    def _outgoing(self, key: Any, target: Table) -> None:
        own = [self._table.by_id(each) for each in key.columns]
        there = [target.by_id(each) for each in key.target_columns]
        equal = " AND ".join(
            f"{key_sql(two, 't.')} = {key_sql(one, 's.n_')}"
            for one, two in zip(own, there, strict=True)
        )
        known = " AND ".join(f"s.n_{each.stored} IS NOT NULL" for each in own)
        itself = target.object_id == self._table.object_id
        own_rows = equal.replace("t.c", "t.n_c")
        among = f" AND NOT EXISTS (SELECT 1 FROM stage AS t WHERE act <> 'D' AND {own_rows})"
        if self._writer._one(
            f"SELECT 1 FROM stage AS s WHERE act <> 'D' AND {known} AND NOT EXISTS"
            f" (SELECT 1 FROM {target.stored} AS t WHERE {self._visible()} AND {equal})"
            f"{among if itself else ''} LIMIT 1"
        ):
            column = there[0].name if len(there) == 1 else ""
            raise check_failed(self._change, "FOREIGN KEY", key.name, target, column)

    def _incoming(self, key: Any, child: Table) -> None:
        own = [self._table.by_id(each) for each in key.target_columns]
        there = [child.by_id(each) for each in key.columns]
        equal = " AND ".join(
            f"{key_sql(two, 't.')} = {key_sql(one, 's.o_')}"
            for one, two in zip(own, there, strict=True)
        )
        kept = " AND ".join(f"{key_sql(c, 's.o_')} = {key_sql(c, 's.n_')}" for c in own)
        if self._writer._one(
            f"SELECT 1 FROM stage AS s JOIN {child.stored} AS t ON {equal}"
            f" WHERE {self._visible()} AND (act = 'D' OR (act = 'U' AND NOT ({kept}))) LIMIT 1"
        ):
            column = there[0].name if len(there) == 1 else ""
            raise check_failed(self._change, "REFERENCE", key.name, child, column)
