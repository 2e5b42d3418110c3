"""Partition specs by a column that the table no longer has.

A spec stays in the metadata after CREATE OR REPLACE TABLE without its column and after DROP COLUMN.
DuckDB 1.5.5 ends the process when it scans a snapshot with a manifest of such a spec. The writer of
Iceberg 1.12 by which Spark changes rows fails on every table that has such a spec.
"""

from collections.abc import Iterator, Sequence

from jetbridge.backends.lake.files import readable
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.fields import inner_fields
from jetbridge.backends.lake.metadata.table_state import Json, TableState
from jetbridge.backends.lake.write.commit import StaleMetadata, identifier, static
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import FailedPrecondition
from jetbridge.runtime.cancellation import current


def lost_specs(state: TableState, fields: Sequence[Json] | None = None) -> frozenset[int]:
    """Return the specs by a column that is not among `fields`, by default those of the table."""
    ids = {number for number, _ in _fields(state.fields if fields is None else fields)}
    return frozenset(
        int(spec["spec-id"])
        for spec in state.raw.get("partition-specs", [])
        if any(field.get("source-id") not in ids for field in spec["fields"])
    )


def lies_in_lost_partitions(lake: Lake, state: TableState) -> bool:
    """Return whether a manifest of the snapshot is one that DuckDB cannot read."""
    lost = lost_specs(state)
    return bool(lost) and bool(lost & lake.manifests.specs(state))


def refuse_to_lose_partitions(lake: Lake, state: TableState, fields: Sequence[Json]) -> None:
    """Raise FailedPrecondition if rows lie in partitions by a column that would go."""
    lost = lost_specs(state, fields) - lost_specs(state)
    if lost and lost & lake.manifests.specs(state):
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


def forget_lost_partitions(lake: Lake, state: TableState) -> None:
    """Remove the lost specs that no snapshot needs from the metadata. Raises Stale."""
    lists = [snapshot.get("manifest-list") for snapshot in state.snapshots()]
    lost = lost_specs(state)
    if not lost or not all(lists):
        return
    rows = lake.reader.query(queries.manifest_specs([readable(str(each)) for each in lists]))
    unused = lost - set(rows.column(0).to_pylist())
    if unused:
        _remove_specs(lake, state, unused)


def _remove_specs(lake: Lake, state: TableState, specs: frozenset[int]) -> None:
    with lake.session(state.title()) as session:
        name = identifier(session, state.pointer.namespace, state.pointer.name)
        operations = session.catalog(lake.name).loadTable(name).operations()
        base = operations.current()
        if base.metadataFileLocation() != state.location:
            raise StaleMetadata
        numbers = session.jvm.java.util.HashSet()
        for number in specs:
            numbers.add(number)
        builder = static(session, "TableMetadata.buildFrom")(base)
        removal = getattr(session.jvm.org.apache.iceberg, "MetadataUpdate$RemovePartitionSpecs")
        removal(numbers).applyTo(builder)
        with current().publishing():
            operations.commit(base, builder.build())


def _columns(state: TableState, specs: frozenset[int]) -> str:
    """The columns of specs that are lost, by the last names they had."""
    names = {
        number: name
        for schema in state.raw.get("schemas", [])
        for number, name in _fields(schema["fields"])
    }
    used = {
        field.get("source-id")
        for spec in state.raw["partition-specs"]
        if spec["spec-id"] in specs
        for field in spec["fields"]
    }
    return ", ".join(sorted(repr(names.get(number, "a field")) for number in used))


def _fields(fields: Sequence[Json]) -> Iterator[tuple[int, str]]:
    """Id and name of fields, however deep."""
    for field in fields:
        yield field["id"], field["name"]
        yield from inner_fields(field["type"])
