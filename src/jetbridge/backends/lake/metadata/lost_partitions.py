"""Finds partition specs by a column that the table no longer has.

A spec stays in the metadata after CREATE OR REPLACE TABLE without its column and after DROP COLUMN.
DuckDB 1.5.5 ends the process when it scans a snapshot with a manifest of such a spec. The writer of
Iceberg 1.12 by which Spark changes rows fails on every table that has such a spec.
"""

from collections.abc import Iterable

from jetbridge.backends.lake.metadata.manifest_check import ManifestChecker
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.types.iceberg_types import IcebergField, fields_inside
from jetbridge.errors import FailedPrecondition


def lost_specs(state: TableState, fields: Iterable[IcebergField] | None = None) -> frozenset[int]:
    """Return the specs by a column that is not among `fields`, by default those of the table."""
    names = _names(state.fields if fields is None else fields)
    return frozenset(
        spec.spec_id
        for spec in state.partition_specs
        if any(field.source_id not in names for field in spec.fields)
    )


def lies_in_lost_partitions(manifests: ManifestChecker, state: TableState) -> bool:
    """Return whether a manifest of the snapshot is one that DuckDB cannot read."""
    lost = lost_specs(state)
    return bool(lost) and bool(lost & manifests.specs(state))


def refuse_to_lose_partitions(
    manifests: ManifestChecker, state: TableState, fields: Iterable[IcebergField]
) -> None:
    """Raise FailedPrecondition if rows lie in partitions by a column that would be dropped."""
    lost = lost_specs(state, fields) - lost_specs(state)
    if lost and lost & manifests.specs(state):
        raise FailedPrecondition(
            f"rows of {state.title()!r} lie in partitions by {_columns(state, lost)}, which would "
            f"be no column any more; run `jetbridge optimize CATALOG.{state.title()}` first"
        )


def refuse_lost_partitions(state: TableState) -> None:
    """Raise FailedPrecondition if Spark cannot change rows of the table."""
    lost = lost_specs(state)
    if lost:
        raise FailedPrecondition(
            f"the history of {state.title()!r} has partitions by {_columns(state, lost)}, which is "
            "no column any more, so Spark cannot change its rows; "
            f"run `jetbridge optimize CATALOG.{state.title()} --older-than 0s`, which forgets "
            "the versions before"
        )


def _columns(state: TableState, specs: frozenset[int]) -> str:
    """Return the columns of lost specs, by the last names they had."""
    names: dict[int, str] = {}
    for schema in state.schemas:
        names |= _names(schema.fields)
    used = {
        field.source_id
        for spec in state.partition_specs
        if spec.spec_id in specs
        for field in spec.fields
    }
    return ", ".join(sorted(repr(names.get(number or 0, "a field")) for number in used))


def _names(fields: Iterable[IcebergField]) -> dict[int, str]:
    """Return the names of fields by id, at any depth."""
    names: dict[int, str] = {}
    for field in fields:
        names[field.id] = field.name
        names |= dict(fields_inside(field.type))
    return names
