"""Rows of DuckDB as answers: Arrow batches of the types that the wire expects."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from standins.tds.arrow_types import OFFSET_TIME, arrow_type
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.storage.store import translated
from standins.tds.values import Batches, Column, SqlType

BATCH = 50_000
# What goes over the wire as something newer.
SENT_AS = {
    "text": SqlType("varchar"),
    "ntext": SqlType("nvarchar"),
    "xml": SqlType("nvarchar"),
    "sql_variant": SqlType("nvarchar", 4000),
    "image": SqlType("varbinary"),
    "rowversion": SqlType("binary", 8),
}


def column_of(expr: Expr) -> Column:
    sent = SENT_AS.get(expr.type.name, expr.type)
    return replace(expr.column(), type=sent)


def fitted(array: pa.Array, column: Column) -> pa.Array:
    """As the wire wants it: DuckDB's booleans are bytes, its datetimeoffset has no offset."""
    wanted = arrow_type(column.type)
    if array.type == wanted:
        return array
    if column.type.name == "bit" and isinstance(array.type, pa.BaseExtensionType):
        return array.storage.cast(pa.bool_())
    if wanted == OFFSET_TIME:
        minutes = pa.array([0] * len(array), pa.int16())
        utc = array.cast(pa.timestamp("us", tz="UTC"))
        return pa.StructArray.from_arrays(
            [utc, minutes], fields=list(OFFSET_TIME), mask=pc.is_null(array)
        )
    return array.cast(wanted)


def fitted_batch(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    arrays = [fitted(array, column) for array, column in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{at}" for at in range(len(arrays))])


Watched = Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[None]]


class Result:
    """A result that is being read; the cursor is closed when nobody reads any more."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, exprs: tuple[Expr, ...], watched: Watched
    ) -> None:
        self._cursor, self._watched = cursor, watched
        self.columns = tuple(column_of(each) for each in exprs)
        self.rows = 0
        self._reader = cursor.to_arrow_reader(BATCH)
        self._first = self._next()

    def _next(self) -> pa.RecordBatch | None:
        try:
            with self._watched(self._cursor):
                batch = self._reader.read_next_batch()
        except StopIteration:
            self.close()
            return None
        except (duckdb.Error, pa.ArrowInvalid, OSError) as failure:
            self.close()
            raise translated(failure) from None
        return fitted_batch(batch, self.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        batch = self._first
        try:
            while batch is not None:
                self.rows += batch.num_rows
                yield batch
                batch = self._next()
        finally:
            self.close()

    def answer(self) -> Batches:
        return Batches(self.columns, self.batches())

    def close(self) -> None:
        self._cursor.close()


def of_table(rows: pa.Table, exprs: tuple[Expr, ...]) -> Batches:
    columns = tuple(column_of(each) for each in exprs)
    return Batches(columns, [fitted_batch(each, columns) for each in rows.to_batches()])
