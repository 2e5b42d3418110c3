"""Values as text, for people and for other programs: as DuckDB prints them."""

import pyarrow as pa

from jetbridge.duckdb_engine.sandbox import DATA, quoted, session
from jetbridge.duckdb_engine.statements import execute

_ROW = "jetbridge_row"


def as_texts(batch: pa.RecordBatch) -> list[list[str | None]]:
    """Return each row as texts; NULL is None."""
    names = _numbered(batch)
    listed = ", ".join(f"CAST({name} AS VARCHAR)" for name in names.schema.names)
    with session(pa.Table.from_batches([names])) as cursor:
        return [list(row) for row in execute(cursor, f"SELECT {listed} FROM {DATA}").fetchall()]


def as_json(batch: pa.RecordBatch) -> list[str]:
    """Return each row as a JSON object; numbers keep all their digits."""
    names = _numbered(batch)
    fields = ", ".join(
        f"{quoted(name)} := {_member(field)}"
        for name, field in zip(_distinct(batch.schema.names), names.schema, strict=True)
    )
    sql = f"SELECT to_json({_ROW}) FROM (SELECT struct_pack({fields}) AS {_ROW} FROM {DATA})"
    with session(pa.Table.from_batches([names])) as cursor:
        return [str(row[0]) for row in execute(cursor, sql).fetchall()]


def _member(field: pa.Field) -> str:
    """JSON has no NaN and no infinity: they become texts."""
    if not pa.types.is_floating(field.type):
        return str(field.name)
    value = f"CASE WHEN isfinite({field.name}) THEN to_json({field.name})"
    return f"{value} ELSE to_json(CAST({field.name} AS VARCHAR)) END"


def _numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Names of a result may be anything, and the same one twice."""
    fields = [field.with_name(f"c{index}") for index, field in enumerate(batch.schema)]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields))


def _distinct(names: list[str]) -> list[str]:
    distinct: list[str] = []
    for name in names:
        other, number = name or "_", 1
        while other.lower() in map(str.lower, distinct):
            other, number = f"{name}_{number}", number + 1
        distinct.append(other)
    return distinct
