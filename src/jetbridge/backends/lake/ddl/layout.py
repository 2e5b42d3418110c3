"""Changes the layout of a table: its partitions and its sort order.

    day(ts), bucket(8, id), truncate(4, name), region
    id, ts DESC NULLS LAST

Names match in any case, may be quoted with double quotes, and reach into structs with dots. An
empty text removes the partitions, or the order.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jetbridge.backends.lake.ddl.layout_syntax import (
    IDENTITY,
    Ordering,
    PartitionTerm,
    parse_order,
    parse_partitions,
)
from jetbridge.backends.lake.errors import ICEBERG_EXCEPTIONS, MESSAGE_CHARACTERS
from jetbridge.backends.lake.files import readable
from jetbridge.backends.lake.metadata.fields import ids_below
from jetbridge.backends.lake.metadata.structs import PartitionField, SortField
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.types import IcebergField, IcebergType, StructType
from jetbridge.backends.lake.types.iceberg_types import children_of, type_label
from jetbridge.backends.lake.write.commit import TableCommit
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_java, java_message

# Spark keeps to the layout of a table, and can neither read nor write these types.
_NOT_SPARK = ("time", "timestamp_ns", "timestamptz_ns", "geometry", "geography", "unknown")


@dataclass(frozen=True)
class BoundTerm:
    """Hold a term of a table: the id of its column and Iceberg's name of the transform."""

    source: int
    transform: str
    term: PartitionTerm


def bind(state: TableState, term: PartitionTerm, argument: str) -> BoundTerm:
    """Find the column of a term; raises BadRequest if it is missing or its type does not fit."""
    field = _find(state, term, argument)
    kind = field.type
    if not isinstance(kind, str):
        label = type_label(kind)
        raise BadRequest(f"{argument}: {term.text()!r} is a {label}, name a column inside it")
    if not kind.startswith(term.transform.kinds):
        raise BadRequest(
            f"{argument}: {term.transform.name} does not take {'.'.join(term.path)!r}, which is "
            f"stored as {kind}"
        )
    number = f"[{term.number}]" if term.number else ""
    return BoundTerm(field.id, f"{term.transform.name}{number}", term)


def _find(state: TableState, term: PartitionTerm, argument: str) -> IcebergField:
    fields: Sequence[IcebergField] = state.fields
    for depth, name in enumerate(term.path, 1):
        matches = [field for field in fields if fold(field.name) == fold(name)]
        if not matches:
            missing = ".".join(term.path[:depth])
            raise BadRequest(f"{argument}: table {state.title()!r} has no column {missing!r}")
        field = matches[0]
        fields = field.type.fields if isinstance(field.type, StructType) else ()
    return field


def lay_out(
    publisher: Publisher, state: TableState, partition_by: str | None, sort_by: str | None
) -> TableState:
    """Set partitions and order for new rows; None leaves them as they are, '' removes them.

    The next `jetbridge optimize` moves existing rows.
    """
    terms = None if partition_by is None else parse_partitions(partition_by)
    order = None if sort_by is None else parse_order(sort_by)

    def attempt(latest: TableState) -> TableState:
        _apply(publisher, latest, _changes(latest, terms, order))
        return publisher.tables.current(latest)

    return publisher.retry(state, attempt)


@dataclass(frozen=True)
class _LayoutChange:
    """Hold the new partitions and the new order; None leaves them as they are."""

    partitions: list[BoundTerm] | None
    order: list[tuple[BoundTerm, Ordering]] | None


def _changes(
    state: TableState, terms: list[PartitionTerm] | None, order: list[Ordering] | None
) -> _LayoutChange:
    if terms or order:
        _refuse_types(state)
    return _LayoutChange(
        None if terms is None else _new_partitions(state, terms),
        None if order is None else _new_order(state, order),
    )


def _new_partitions(state: TableState, terms: list[PartitionTerm]) -> list[BoundTerm] | None:
    partitions = [bind(state, term, "partition_by") for term in terms]
    keys = [(bound.source, bound.transform) for bound in partitions]
    _refuse_twice(keys, "partition_by", terms)
    fields = _partition_fields(state)
    current_keys = [(field.source_id, field.transform) for field in fields]
    is_same = sorted(keys) == sorted((source or 0, name) for source, name in current_keys)
    return None if is_same and all(field.name.isascii() for field in fields) else partitions


def _new_order(state: TableState, order: list[Ordering]) -> list[tuple[BoundTerm, Ordering]] | None:
    bound_order = [(bind(state, ordering.term, "sort_by"), ordering) for ordering in order]
    keys = [(bound.source, bound.transform) for bound, _ in bound_order]
    _refuse_twice(keys, "sort_by", [ordering.term for ordering in order])
    fields = [_sort_field(bound, ordering) for bound, ordering in bound_order]
    return None if fields == list(state.sort_fields) else bound_order


def _refuse_twice(keys: Sequence[object], argument: str, terms: Sequence[PartitionTerm]) -> None:
    for index, key in enumerate(keys):
        if key in keys[:index]:
            raise BadRequest(f"{argument}: {terms[index].text()!r} is there twice")


def _refuse_types(state: TableState) -> None:
    for field in state.fields:
        for kind in _leaves(field.type):
            if kind.split("(")[0] in _NOT_SPARK:
                raise FailedPrecondition(
                    f"table {state.title()!r} cannot be partitioned or sorted: Spark does not "
                    f"write type {kind} of column {field.name!r}"
                )


def _leaves(kind: IcebergType) -> Iterator[str]:
    if isinstance(kind, str):
        yield kind
    for field in children_of(kind):
        yield from _leaves(field.type)


def _partition_fields(state: TableState) -> list[PartitionField]:
    return [field for field in state.partition_fields if field.transform != "void"]


def _sort_field(bound: BoundTerm, ordering: Ordering) -> SortField:
    return SortField(
        transform=bound.transform,
        direction="desc" if ordering.descending else "asc",
        null_order="nulls-first" if ordering.nulls_first else "nulls-last",
        source_id=bound.source,
    )


def _apply(publisher: Publisher, state: TableState, changes: _LayoutChange) -> None:
    """Set both in one commit."""
    if changes.partitions is None and changes.order is None:
        return
    warehouse = publisher.warehouse
    with warehouse.session(state.title()) as session, _refusals(state):
        table = warehouse.java_table(session, state)
        transaction = table.newTransaction()
        if changes.partitions is not None:
            _repartition(session, table, transaction.updateSpec(), state, changes.partitions)
        if changes.order is not None:
            _reorder(session, table, transaction.replaceSortOrder(), changes.order)
        with current().publishing():
            transaction.commitTransaction()


@contextmanager
def _refusals(state: TableState) -> Iterator[None]:
    """Raise BadRequest where Iceberg refuses a layout, e.g. day and hour of the same column."""
    try:
        yield
    except Exception as error:
        refused = ("java.lang.IllegalArgumentException", "java.lang.IllegalStateException")
        invalid = ICEBERG_EXCEPTIONS + "ValidationException"
        if any(is_java(error, name) for name in (*refused, invalid)):
            title, why = state.title(), java_message(error)
            message = f"table {title!r} cannot be laid out so: {why}"
            raise BadRequest(message[:MESSAGE_CHARACTERS]) from error
        raise


def _repartition(
    session: SparkConnection,
    table: Any,
    update: Any,
    state: TableState,
    partitions: Sequence[BoundTerm],
) -> None:
    """Remove partitions that are not wanted any more, and add new ones."""
    keys = {(bound.source, bound.transform) for bound in partitions}
    names = {(field.source_id, field.transform): field.name for field in _partition_fields(state)}
    for key, name in names.items():
        if key not in keys or not name.isascii():
            update.removeField(name)
    for bound in partitions:
        known = names.get((bound.source, bound.transform))
        if known is None or not known.isascii():
            new_name = _partition_name(table, bound, state)
            term = _java_term(session, table, bound)
            update.addField(*([] if new_name is None else [new_name]), term)
    update.commit()


def _partition_name(table: Any, bound: BoundTerm, state: TableState) -> str | None:
    """Return the name of the partition in the manifests; None where Iceberg's own name will do.

    Iceberg makes its name from the column's name. Its Java library leaves letters of all languages
    in it, which Avro forbids, so DuckDB would read no manifest of the table.
    """
    column = str(table.schema().findColumnName(bound.source))
    if column.isascii():
        return None
    name = _avro_name(column)
    if bound.term.transform is not IDENTITY:
        number = f"_{bound.term.number}" if bound.term.number else ""
        name += f"_{bound.term.transform.name}{number}"
    taken = {field.name for spec in state.partition_specs for field in spec.fields}
    while name in taken or table.schema().findField(name) is not None:
        name += "_"
    return name


def _avro_name(name: str) -> str:
    """Return a valid name for Avro, made as Iceberg's specification says."""
    valid = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{valid}" if valid[0].isdigit() else valid


def _reorder(
    session: SparkConnection, table: Any, update: Any, order: Sequence[tuple[BoundTerm, Ordering]]
) -> None:
    nulls = session.jvm.org.apache.iceberg.NullOrder
    for bound, ordering in order:
        add = update.desc if ordering.descending else update.asc
        null_order = nulls.NULLS_FIRST if ordering.nulls_first else nulls.NULLS_LAST
        add(_java_term(session, table, bound), null_order)
    update.commit()


def _java_term(session: SparkConnection, table: Any, bound: BoundTerm) -> Any:
    name = table.schema().findColumnName(bound.source)
    expressions = session.jvm.org.apache.iceberg.expressions.Expressions
    transform = bound.term.transform
    if transform is IDENTITY:
        return expressions.ref(name)
    arguments = [bound.term.number] if transform.takes_number else []
    return getattr(expressions, transform.name)(name, *arguments)


def drop_unreadable_manifests(publisher: Publisher, state: TableState) -> None:
    """Remove manifests without files that DuckDB cannot read because of the name of a partition.

    DuckDB cannot read them either once the column of a partition is gone. Every commit leaves such
    manifests out, so an empty one is enough.
    """
    unreadable = {
        spec.spec_id
        for spec in state.partition_specs
        if not all(field.name.isascii() for field in spec.fields)
        or (spec.fields and spec.spec_id != state.spec_id)
    }
    if unreadable and state.snapshot is not None:
        location = readable(str(state.snapshot.manifest_list))
        rows = publisher.read.reader.query(queries.manifests(location)).to_pylist()
        if any(
            row["partition_spec_id"] in unreadable
            and row.get("added_files_count") == 0
            and row.get("existing_files_count") == 0
            for row in rows
        ):
            publisher.publish(state, lambda _: TableCommit())


def refuse_lost_columns(state: TableState, fields: Sequence[IcebergField]) -> None:
    """Raise FailedPrecondition if a column of the layout is not among `fields`."""
    kept = {number for field in fields for number in ids_below(field)}
    names = {field.id: field.name for field in state.fields}
    used: tuple[tuple[str, str, Sequence[PartitionField | SortField]], ...] = (
        ("partitions", "RESET PARTITIONED BY", _partition_fields(state)),
        ("sort order", "RESET SORTED BY", state.sort_fields),
    )
    for part, remedy, entries in used:
        for entry in entries:
            if entry.source_id not in kept:
                column = names.get(entry.source_id or 0, "a field")
                raise FailedPrecondition(
                    f"column {column!r} is part of the {part} of {state.title()!r}; "
                    f"run ALTER TABLE {state.title()} {remedy} first"
                )
