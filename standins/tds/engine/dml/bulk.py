"""INSERT BULK: rows come in columns and go into DuckDB some hundred thousand at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from standins.tds.arrow_types import OFFSET_TIME, arrow_type
from standins.tds.engine.dml.stages import Stages, insert_stage
from standins.tds.engine.dml.writing import Change, Writer
from standins.tds.engine.errors import BATCH_ABORTING, error
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.parse.ddl import type_text
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.compiler import Query
from standins.tds.engine.queries.reading import execute, table_lock
from standins.tds.engine.storage import locks
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.storage.transactions import Transaction
from standins.tds.engine.types import family, parse_type
from standins.tds.values import Column, Row, SqlError, SqlType

FLUSH = 200_000
FLUSH_BYTES = 64 << 20


class BulkLoad:
    """One statement, from INSERT BULK to the end of its rows."""

    def __init__(self, session: Any, text: str) -> None:
        self._session = session
        self.rows = 0
        self._batches: list[pa.RecordBatch] = []
        self._waiting = self._bytes = 0
        self._ended = False
        self._transaction: Transaction = session.open or session.new_transaction()
        self._transaction.lock_timeout = session.settings.lock_timeout
        with self._guarded():
            parts, self._types, self._names, self._options = _parsed(text)
            self._table: Table = session.find(parts)
            session.allowed("INSERT", self._table)
            self._columns = tuple(self._column(name) for name in self._names)
            self._transaction.lock(table_lock(self._table), self._lock_mode())
            self._stamp = self._transaction.stamp(anew=True)

    def _column(self, name: str) -> ColumnDef:
        found = self._table.column(name)
        if found is None:
            raise error(207, name)
        return found

    def _lock_mode(self) -> str:
        if "TABLOCK" not in self._options:
            return locks.IX
        return locks.X if self._table.keys else locks.BULK

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(
            Column(
                each.name,
                _sent(each.type, said),
                each.nullable,
                each.identity is not None,
                each.collation,
            )
            for each, said in zip(self._columns, self._types, strict=True)
        )

    def append(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        with self._guarded():
            arrays = [
                _array(values, sql_type)
                for values, sql_type in zip(zip(*rows, strict=True), self._types, strict=True)
            ]
            names = [f"c{place}" for place in range(len(arrays))]
            self._keep(pa.RecordBatch.from_arrays(arrays, names=names))

    def append_columns(self, batch: pa.RecordBatch) -> None:
        with self._guarded():
            names = [f"c{place}" for place in range(batch.num_columns)]
            self._keep(batch.rename_columns(names))

    def _keep(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._waiting += batch.num_rows
        self._bytes += batch.nbytes
        if self._waiting >= FLUSH or self._bytes >= FLUSH_BYTES:
            self._flush()

    def finish(self) -> int:
        with self._guarded():
            if self._batches:
                self._flush()
            self._end()
            if self._transaction is not self._session.open:
                self._transaction.commit()
        self._session.state.rowcount = self.rows
        return self.rows

    def abort(self) -> None:
        if not self._ended:
            self._undo()

    def _end(self) -> None:
        self._ended = True
        self._batches.clear()
        self._transaction.end_statement()

    def _undo(self) -> None:
        self._end()
        if self._transaction is not self._session.open:
            self._transaction.roll_back()
        else:
            self._transaction.take_back(
                [each for each in self._transaction.stamps if each == self._stamp]
            )
            self._transaction.stamp(anew=True)

    _stamp = -1

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Nothing stays where this raises."""
        session = self._session
        session.current = self._transaction
        try:
            yield
        except BaseException as failure:
            self._undo()
            self._punish(failure)
            raise
        finally:
            session.current = None

    def _punish(self, failure: BaseException) -> None:
        """The transaction around goes too, where the error asks for it."""
        session = self._session
        number = failure.number if isinstance(failure, SqlError) else 0
        session.state.error = number
        aborts = number in BATCH_ABORTING or session.settings.xact_abort
        if aborts and session.open is self._transaction:
            session.rollback()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._batches)
        self._batches, self._waiting, self._bytes = [], 0, 0
        compiler = self._session.compiler()
        name = compiler.fresh("bulk_")
        compiler.arrows[name] = rows
        query = self._query(name)
        stages = Stages(compiler, self._checked_table())
        explicit = any(each.identity for each in self._columns)
        change = insert_stage(stages, self._columns, query, None, explicit)
        change = replace(change, stage=self._with_defaults(change, stages, query))
        if self._is_plain():
            self._append(change, compiler)
        else:
            Writer(self._session, self._transaction, compiler).apply(change)
        self.rows += rows.num_rows

    def _query(self, name: str) -> Query:
        exprs = tuple(Expr(f"c{place}", each) for place, each in enumerate(self._types))
        listed = ", ".join(
            f"c{place}.utc AS c{place}" if family(each) == "offset" else f"c{place}"
            for place, each in enumerate(self._types)
        )
        return Query(f"SELECT {listed} FROM {name}", exprs)

    def _checked_table(self) -> Table:
        """CHECK and foreign keys are left out unless CHECK_CONSTRAINTS is asked for."""
        if "CHECK_CONSTRAINTS" in self._options:
            return self._table
        return replace(self._table, checks=(), foreign=())

    def _with_defaults(self, change: Change, stages: Stages, query: Query) -> str:
        """Without KEEP_NULLS a NULL becomes the column's default."""
        if "KEEP_NULLS" in self._options or not any(each.default for each in self._columns):
            return change.stage
        given = []
        for place, (column, expr) in enumerate(zip(self._columns, query.columns, strict=True)):
            del expr
            if column.default is None:
                given.append(f"c{place}")
            else:
                given.append(f"coalesce(c{place}, {stages.default(column)}) AS c{place}")
        return change.stage.replace(
            f"({query.sql})", f"(SELECT {', '.join(given)} FROM ({query.sql}) AS d)"
        )

    def _is_plain(self) -> bool:
        table = self._table
        checked = "CHECK_CONSTRAINTS" in self._options and (table.checks or table.foreign)
        return not (table.uniques or table.identity or checked)

    def _append(self, change: Change, compiler: Any) -> None:
        """Straight into the table: it has nothing that compares rows with each other."""
        table, core = self._table, self._session.core
        stored = [each.stored for each in table.columns]
        new = ", ".join(f"n_{each}" for each in stored)
        sql = (
            f"INSERT INTO {table.stored} ({', '.join(stored)}, __ins, __del)"
            f" SELECT {new}, {self._stamp}, NULL FROM ({change.stage}) AS s"
        ).replace("row_number() OVER () AS rn", "0 AS rn")
        self._transaction.wrote(table.stored, self._stamp, 1)
        cursor: duckdb.DuckDBPyConnection = core.store.cursor()
        try:
            for name, rows in compiler.arrows.items():
                cursor.register(name, rows)
            self._session.running(cursor)
            execute(cursor, sql, compiler.parameters)
        finally:
            self._session.running(None)
            cursor.close()


def _sent(stored: SqlType, said: SqlType) -> SqlType:
    """The driver for Java sends moments as texts, and says so; the server converts them."""
    return said if family(said) == "string" != family(stored) else stored


def _array(values: Sequence[Any], sql_type: SqlType) -> pa.Array:
    """Python's values as Arrow's; what the declared type does not take is refused."""
    wanted = arrow_type(sql_type)
    try:
        if wanted == OFFSET_TIME:
            utc = pa.array(values, pa.timestamp("us", tz="UTC"))
            minutes = pa.array([0] * len(values), pa.int16())
            return pa.StructArray.from_arrays(
                [utc, minutes], fields=list(OFFSET_TIME), mask=utc.is_null()
            )
        if sql_type.name == "uniqueidentifier":
            raw = [None if each is None else each.bytes for each in values]
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as failure:
        text = f"Invalid column type from bcp client: {failure}"
        raise SqlError(4816, text) from None


Parsed = tuple[tuple[str, ...], tuple[SqlType, ...], tuple[str, ...], frozenset[str]]


def _parsed(text: str) -> Parsed:
    tokens = Tokens(text)
    tokens.need("INSERT", "BULK")
    parts = tokens.dotted()
    inside = tokens.inside()
    names: list[str] = []
    types: list[SqlType] = []
    while not inside.done:
        names.append(inside.name())
        types.append(parse_type(type_text(inside), ordinal=len(types) + 1))
        if inside.take("COLLATE"):
            inside.name()
        if not inside.take(",") and not inside.done:
            inside.fail()
    options: set[str] = set()
    if tokens.take("WITH"):
        for each in tokens.inside().parted():
            options.add(each.split("=")[0].split("(")[0].strip().upper())
    while tokens.take(";"):
        pass
    if not tokens.done:
        tokens.fail()
    return parts, tuple(types), tuple(names), frozenset(options)
