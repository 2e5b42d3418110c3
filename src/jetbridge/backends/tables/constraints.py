"""CHECK, UNIQUE and PRIMARY KEY, judged over rows in whatever batches they come.

Batches hold the columns of the table by position; their names and nullability mean nothing.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest, ConstraintViolation, DuplicateKey


def check_rows(definition: Definition, table: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Every CHECK of the table; raises ConstraintViolation."""
    if not definition.checks:
        return
    for group in group_batches(batches):
        data = to_table(definition.schema, group)
        for text in definition.checks:
            refuse_violation(table, text, data)


def group_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches in lists of many rows each."""
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        if rows >= 500_000:  # noqa: PLR2004 - enough to make the price of a question small
            yield group
            group, rows = [], 0
    if rows:
        yield group


def to_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """The batches under the names of the schema."""
    same = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(same, schema=schema)


def refuse_violation(table: str, text: str, data: pa.Table) -> None:
    """Raises ConstraintViolation if a row makes the CHECK false."""
    try:
        expression = duckdb_engine.parse(text)
    except BadRequest as error:  # it is older than the rules
        remedy = "drop or replace the constraint"
        raise BadRequest(f"CHECK of {table}: {str(error)[:400]}; {remedy}") from None
    read = [name for name in data.column_names if fold(name) in expression.columns]
    row = duckdb_engine.first_violation(text, data.select(read))
    if row is None:
        return
    values = ", ".join(
        f"{name} = {duckdb_engine.format_value(data.column(name)[row])}" for name in read
    )
    inner = text if text.startswith("(") and text.endswith(")") else f"({text})"
    where = f", first row with {values}" if values else ""
    raise ConstraintViolation(f"CHECK constraint failed: {table}: {inner[:200]}{where}"[:490])


def refuse_duplicates(
    table: str, key: UniqueKey, new: pa.Table, existing: Iterable[pa.Table] = ()
) -> None:
    """Raises DuplicateKey if `new` has a key twice, or one that is in `existing` too.

    Both are tables as `select_key` makes them; nothing of `existing` is asked for before it is
    clear that the new rows differ among themselves.
    """
    row = duckdb_engine.find_duplicate_key(new)
    if row is None:
        row = duckdb_engine.find_existing_key(new, existing)
    if row is not None:
        names = ", ".join(key.columns)
        values = ", ".join(duckdb_engine.format_value(column[row]) for column in new.columns)
        raise DuplicateKey(f"Duplicate key in {table}: ({names}) = ({values}) already exists"[:490])


def select_key(
    definition: Definition, key: UniqueKey, batches: Iterable[pa.RecordBatch]
) -> pa.Table:
    """The columns of the key, in its order."""
    positions = key_positions(definition, key)
    schema = pa.schema([definition.schema.field(p) for p in positions])
    return pa.Table.from_batches(
        [
            pa.RecordBatch.from_arrays([b.column(p) for p in positions], schema=schema)
            for b in batches
        ],
        schema=schema,
    )


def key_positions(definition: Definition, key: UniqueKey) -> list[int]:
    """Where the columns of the key are in the table."""
    positions = [definition.position(name) for name in key.columns]
    found = [position for position in positions if position is not None]
    assert len(found) == len(positions)  # noqa: S101 - a key names columns of its own table
    return found
