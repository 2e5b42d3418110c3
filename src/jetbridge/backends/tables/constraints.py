"""Checks CHECK, UNIQUE and PRIMARY KEY over batches of rows, and over a table after ALTER TABLE.

Batches hold the columns of the table by position; their names and nullability have no meaning.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest, ConstraintViolation, DuplicateKey, FailedPrecondition

# Enough rows that the cost of a query to DuckDB does not matter.
_GROUP_ROWS = 500_000
LONGEST_MESSAGE = 490


def check_rows(definition: Definition, table: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Check every CHECK of the table; raise ConstraintViolation."""
    if not definition.checks:
        return
    for group in group_batches(batches):
        data = to_table(definition.schema, group)
        for text in definition.checks:
            refuse_violation(table, text, data)


def group_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the batches in lists of many rows each."""
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        if rows >= _GROUP_ROWS:
            yield group
            group, rows = [], 0
    if rows:
        yield group


def to_table(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the batches as a table with the names of the schema."""
    renamed = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
    return pa.Table.from_batches(renamed, schema=schema)


def refuse_violation(table: str, text: str, data: pa.Table) -> None:
    """Raise ConstraintViolation if a row makes the CHECK false."""
    try:
        expression = duckdb_engine.parse(text)
    except BadRequest as error:  # stored before jetbridge restricted expressions
        raise BadRequest(
            f"CHECK of {table}: {str(error)[:400]}; drop or replace the constraint"
        ) from None
    names = [name for name in data.column_names if fold(name) in expression.columns]
    row = duckdb_engine.first_violation(text, data.select(names))
    if row is None:
        return
    values = ", ".join(
        f"{name} = {duckdb_engine.format_value(data.column(name)[row])}" for name in names
    )
    check = text if text.startswith("(") and text.endswith(")") else f"({text})"
    example = f", first row with {values}" if values else ""
    message = f"CHECK constraint failed: {table}: {check[:200]}{example}"
    raise ConstraintViolation(message[:LONGEST_MESSAGE])


def refuse_duplicates(
    table: str, key: UniqueKey, new_keys: pa.Table, existing: Iterable[pa.Table] = ()
) -> None:
    """Raise DuplicateKey if a key is twice in `written`, or also in `existing`.

    All are tables as `select_key` returns them. `existing` is read only if the keys in `written`
    differ from each other.
    """
    row = duckdb_engine.find_duplicate_key(new_keys)
    if row is None:
        row = duckdb_engine.find_existing_key(new_keys, existing)
    if row is not None:
        names = ", ".join(key.columns)
        values = ", ".join(duckdb_engine.format_value(column[row]) for column in new_keys.columns)
        message = f"Duplicate key in {table}: ({names}) = ({values}) already exists"
        raise DuplicateKey(message[:LONGEST_MESSAGE])


def select_key(
    definition: Definition, key: UniqueKey, batches: Iterable[pa.RecordBatch]
) -> pa.Table:
    """Return the columns of a key, in the order of the key."""
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
    """Return the positions of the key's columns in the table."""
    positions = [definition.position(name) for name in key.columns]
    existing = [position for position in positions if position is not None]
    assert len(existing) == len(positions)  # noqa: S101 - a key names columns of its own table
    return existing


ConvertRows = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class AlteredTable:
    """Describe a table after a change.

    `definition` is the same object as before if nothing changes. `convert` returns the new rows
    for old ones, both by position, and raises FailedPrecondition for a value that cannot be
    converted; None: the rows stay as they are. Existing rows, converted, must have no NULL in the
    columns `not_null` and must satisfy `checks` and `keys`: call `verify_rows`.
    """

    definition: Definition
    convert: ConvertRows | None = None
    not_null: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()


def verify_rows(altered: AlteredTable, table: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Raise FailedPrecondition if existing rows violate a new constraint.

    `batches` hold the live rows, converted. They are read once, and only if there is something to
    verify. The columns of keys are kept in memory until the end.
    """
    if not (altered.not_null or altered.checks or altered.keys):
        return
    definition = altered.definition
    nulls = dict.fromkeys(altered.not_null, 0)
    keys: list[tuple[UniqueKey, list[pa.Table]]] = [(key, []) for key in altered.keys]
    try:
        for group in group_batches(batches):
            data = to_table(definition.schema, group)
            for name in nulls:
                nulls[name] += data.column(name).null_count
            for text in altered.checks:
                refuse_violation(table, text, data)
            for key, tables in keys:
                tables.append(select_key(definition, key, group))
        _refuse_nulls(table, nulls)
        _refuse_duplicates(table, keys)
    except (ConstraintViolation, DuplicateKey) as error:
        raise FailedPrecondition(str(error)) from None


def _refuse_nulls(table: str, nulls: dict[str, int]) -> None:
    for name, count in nulls.items():
        if count:
            raise FailedPrecondition(
                f"column {table}.{name} has {count} NULL values; update them first"
            )


def _refuse_duplicates(table: str, keys: list[tuple[UniqueKey, list[pa.Table]]]) -> None:
    for key, tables in keys:
        if tables:
            refuse_duplicates(table, key, pa.concat_tables(tables))
