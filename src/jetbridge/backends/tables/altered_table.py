"""Describes a table after ALTER TABLE, and verifies its rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.backends.tables.constraints import (
    group_batches,
    refuse_duplicates,
    refuse_violation,
    select_key,
    to_table,
)
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey
from jetbridge.errors import ConstraintViolation, DuplicateKey, FailedPrecondition

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
