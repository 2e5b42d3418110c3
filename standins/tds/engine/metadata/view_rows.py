"""A catalog view: its columns as T-SQL, its rows as a function of what there is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from standins.tds.engine.queries.compiler import SystemRows
from standins.tds.engine.storage.catalog import ColumnDef, Database, Table
from standins.tds.engine.types import parse_type, storage
from standins.tds.values import Column

COLLATION = "SQL_Latin1_General_CP1_CI_AS"
ARROW: dict[str, pa.DataType] = {
    "INTEGER": pa.int32(), "BIGINT": pa.int64(), "SMALLINT": pa.int16(), "UTINYINT": pa.uint8(),
    "BOOLEAN": pa.bool_(), "VARCHAR": pa.string(), "TIMESTAMP": pa.timestamp("us"),
    "BLOB": pa.binary(), "DOUBLE": pa.float64(),
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """What the rows are made from: the database, its tables as the transaction sees them."""

    database: Database
    databases: list[Database]
    tables: list[Table]
    columns: Callable[[Table], tuple[ColumnDef, ...]]  # those of a view, too
    count: Callable[[Table], int]


@dataclass(frozen=True)
class View:
    """`heads`: "name type, …" as T-SQL; a type with ! at its end is not nullable."""

    heads: str
    rows: Callable[[World], Iterator[tuple[Any, ...]]]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        found = []
        for head in self.heads.split(";"):
            name, _, text = head.strip().partition(" ")
            found.append(Column(name, parse_type(text.rstrip("!")), not text.endswith("!")))
        return tuple(found)

    def made(self, world: World) -> SystemRows:
        columns = self.columns
        rows = list(self.rows(world))
        data = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        arrays = [
            pa.array(values, ARROW[storage(column.type)])
            for values, column in zip(data, columns, strict=True)
        ]
        names = [f"c{place}" for place in range(len(columns))]
        return SystemRows(columns, pa.table(arrays, names=names))
