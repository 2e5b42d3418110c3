"""Tables as DuckDB and Spark read them by themselves, for the queries of the pipeline."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.relation import is_read_by_duckdb, open_snapshot
from jetbridge.backends.lake.types.nested_types import children, names_fit, shape_of, stored_names
from jetbridge.backends.lake.types.storage_types import type_name
from jetbridge.catalog import ROWID, SparkRelation
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_syntax.types import kind_of

# Kept as they are; DuckDB and Spark have the same values, whatever they call the type.
_SAME = frozenset(
    ["BOOLEAN", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "BLOB", "DATE"]
    + ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"]
)
# Kept as wider integers.
_NARROW = frozenset(["TINYINT", "SMALLINT"])


@contextmanager
def relation(lake: Lake, state: TableState, *, row_ids: bool) -> Iterator[str | None]:
    """A query of DuckDB; None if the table is read in another way, or cannot be spelled."""
    unfit = row_ids and not state.has_row_ids()
    if unfit or not is_read_by_duckdb(lake, state):  # what Spark copies would be gone already
        yield None
        return
    with open_snapshot(lake, state) as there:
        text = _query(state, there.sql, row_ids)
    # Not within: what goes wrong in a query of others need not be about this table. What the
    # relation needs lives as long as `there` does.
    yield text


def _query(state: TableState, source: str, row_ids: bool) -> str:
    columns = [(field.name, _column(state, field.name)) for field in state.definition.schema]
    if row_ids:
        columns.append((ROWID, queries.UNSKIPPED_ROW_ID))
    if state.snapshot is None:
        return queries.no_rows(
            [(field.name, duckdb_type(field)) for field in state.definition.schema]
            + ([(ROWID, "BIGINT")] if row_ids else [])
        )
    return queries.scan(source, columns)


def _column(state: TableState, name: str) -> str:
    text = state.codec.condition(name)
    if state.codec.pushable(name):
        return text
    return queries.as_type(text, type_name(state.definition.schema.field(name)))


def spark_relation(lake: Lake, state: TableState) -> SparkRelation:
    """The columns that Spark has with the same values; the others are named as missing."""
    types: dict[str, str] = {}
    missing: dict[str, str] = {}
    picked = []
    for field in state.definition.schema:
        name = type_name(field)
        if _is_same(field):
            types[field.name] = name
            picked.append((field.name, name if kind_of(name) in _NARROW else ""))
        else:
            missing[field.name] = name
    table = [lake.name, *state.pointer.namespace.split("."), state.pointer.name]
    text = sql.select_columns(table, state.snapshot_id, picked)
    summary = (state.snapshot or {}).get("summary") or {}
    return SparkRelation(text, types, missing, int(summary.get("total-files-size", 0)))


def _is_same(field: pa.Field) -> bool:
    kind = field.type
    shape = shape_of(kind)
    if shape in ("list", "struct"):
        fits = shape == "list" or (names_fit(kind) and _has_stored_names(kind))
        return fits and all(_is_same_inside(child) for child in children(kind))
    return not shape and kind_of(type_name(field)) in _SAME | _NARROW


def _has_stored_names(kind: pa.DataType) -> bool:
    """Whether the fields of a struct have the same names in the table, where Spark looks."""
    names = [child.name for child in children(kind)]
    return stored_names(names) == names


def _is_same_inside(field: pa.Field) -> bool:
    """Spark would have to make every list anew to narrow what is in it."""
    kind = field.type
    return _is_same(field) and (bool(shape_of(kind)) or kind_of(type_name(field)) in _SAME)
