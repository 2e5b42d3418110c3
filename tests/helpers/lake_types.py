"""Columns of every type, with the values at the edges, and the codec of a table of them."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa

from jetbridge.backends.lake.types import (
    IcebergField,
    RowCodec,
    arrow_field,
    iceberg_type,
    note,
)
from tests.integration.rows.type_cases import CASES

# Values that `type_cases` has not, by type.
MORE: dict[str, tuple[str, ...]] = {
    "FLOAT": ("'-0.0'",),
    "DOUBLE": ("'-0.0'",),
    "VARCHAR": ("chr(0)", "'\U0001f986'", "repeat('z', 17)", "repeat(chr(1114111), 30)"),
    "BLOB": ("repeat('\\xFF', 40)::BLOB", "repeat('\\x00', 20)::BLOB"),
    "DATE": ("'0044-03-15 (BC)'", "'5881580-07-10'", "'5877642-06-25 (BC)'"),
    "TIMETZ": ("'00:00:00+00:00:01'", "'00:00:00-00:00:01'", "'24:00:00-15:59:59'"),
    "TIMESTAMP": ("'-infinity'", "'0044-03-15 (BC) 00:00:00.000001'"),
    "TIMESTAMPTZ": ("'infinity'", "'-infinity'", "'0044-03-15 (BC) 00:00:00+00'"),
    "TIMESTAMP_S": ("'infinity'", "'-infinity'", "'294247-01-10 04:00:54'"),
    "TIMESTAMP_MS": ("'infinity'", "'-infinity'", "'0044-03-15 (BC) 00:00:00.001'"),
    "TIMESTAMP_NS": ("'infinity'", "'-infinity'", "'2262-04-11 23:47:16.854775806'"),
    "INTERVAL": (
        "to_months(-2147483648)",
        "to_days(-2147483648)",
        "to_microseconds(-9223372036854775)",
        "to_months(-14) + to_days(40) + to_microseconds(-61000001)",
        "'24 hours'",
    ),
    "JSON": ('\'  {"b":1, "a" : 1e3}\'', "'null'", "'\"\\u0000\"'"),
    "BIGNUM": (f"'{'9' * 3000}'",),
}
# Column, type and value of a type T and a value v inside others.
NESTINGS: dict[str, tuple[str, str]] = {
    "flat": ("{T}", "{v}"),
    "lists": ("{T}[]", "[{v}, NULL]"),
    "structs": ("STRUCT(a {T}, b INTEGER)", "{{'a': {v}, 'b': 1}}"),
    "maps": ("MAP(INTEGER, {T})", "MAP {{1: {v}, 2: NULL}}"),
    "arrays": ("{T}[2]", "[NULL, {v}]"),
    "unions": ("UNION(a {T}, b VARCHAR[])", "union_value(a := CAST({v} AS {T}))"),
    "deep": ("STRUCT(x {T})[][]", "[[{{'x': {v}}}, NULL], NULL, []]"),
}


class Table(NamedTuple):
    fields: Sequence[IcebergField]
    codec: RowCodec


def values_of(kind: str, *, lossless: bool = True) -> list[str]:
    """Return all values of a type, as SQL."""
    case = next(case for case in CASES if case.type == kind)
    more = (*case.lossless_only, *MORE.get(kind, ())) if lossless else ()
    return [*case.values, *more]


def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def rows_of(
    local: duckdb.DuckDBPyConnection, kind: str, *, lossless: bool, nestings: Sequence[str] = ()
) -> pa.RecordBatch:
    """Return values of a type as DuckDB exports them: in all nestings, with NULL at every level."""
    local.execute(f"SET arrow_lossless_conversion = {lossless}")
    values = [*values_of(kind, lossless=lossless), "NULL"]
    columns = [NESTINGS[name] for name in nestings or NESTINGS]
    rows = []
    for number, value in enumerate(values):
        cells = [
            f"CAST({made.format(T=kind, v=value)} AS {t.format(T=kind)})" for t, made in columns
        ]
        rows.append(f"({', '.join([str(number), *cells])})")
    rows.append(f"({', '.join([str(len(values)), *['NULL'] * len(columns)])})")
    names = ", ".join(["n", *(nestings or NESTINGS)])
    table = local.execute(f"FROM (VALUES {', '.join(rows)}) t({names}) ORDER BY n").to_arrow_table()
    (batch,) = table.combine_chunks().to_batches()
    return batch


def table_for(schema: pa.Schema) -> Table:
    """Return the fields of an Iceberg schema, whose notes restore exactly the Arrow schema."""
    next_id = itertools.count(1).__next__
    fields = [
        IcebergField(next_id(), column.name, not column.nullable, iceberg_type(column, next_id))
        for column in schema
    ]
    return Table(fields, codec_for(schema, fields))


def codec_for(schema: pa.Schema, fields: Sequence[IcebergField]) -> RowCodec:
    restored = []
    for column, field in zip(schema, fields, strict=True):
        made = note(column, field.type)
        notes = [] if made is None else [made]
        required = field.required
        restored.append(arrow_field(field.name, field.type, required=required, notes=notes))
    assert pa.schema(restored).equals(schema, check_metadata=True)
    return RowCodec(pa.schema(restored), fields)


def listed(codec: RowCodec, how: str = "select") -> str:
    """Return all columns of a table in SQL, by `select` or `condition`."""
    expression = getattr(codec, how)
    quoted = (name.replace('"', '""') for name in codec.schema.names)
    return ", ".join(
        f'{expression(name)} AS "{alias}"'
        for name, alias in zip(codec.schema.names, quoted, strict=True)
    )


def texts(
    local: duckdb.DuckDBPyConnection, data: pa.RecordBatch | pa.Table
) -> dict[str, list[str | None]]:
    """Return every column as DuckDB prints it, in the order of `n`."""
    table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
    with local.cursor() as cursor:
        cursor.register("printed", table)
        made = ", ".join(
            f'list(CAST("{name}" AS VARCHAR) ORDER BY n)' for name in table.schema.names
        )
        row = cursor.execute(f"SELECT {made} FROM printed").fetchone()
        assert row is not None
        return dict(zip(table.schema.names, row, strict=True))
