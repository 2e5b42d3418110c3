"""How a table lies on disk: its partitions and its order, in the words of a DuckDB user.

    day(ts), bucket(8, id), truncate(4, name), region
    id, ts DESC NULLS LAST

Names match without regard to case, may be quoted with double quotes, and reach into structs with
dots. Nothing at all takes the partitions, or the order, away.
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
from jetbridge.backends.lake.files import readable
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import Json, TableState
from jetbridge.backends.lake.types.iceberg_schema import parts
from jetbridge.backends.lake.write.commit import TableCommit, identifier
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_java, java_message

# Spark can neither read nor write them, and it is Spark that keeps to a layout.
_NOT_SPARK = ("time", "timestamp_ns", "timestamptz_ns", "geometry", "geography", "unknown")


@dataclass(frozen=True)
class BoundTerm:
    """A term of this table: the id of its column and what Iceberg calls the transform."""

    source: int
    transform: str
    term: PartitionTerm


def bound(state: TableState, term: PartitionTerm, what: str) -> BoundTerm:
    """Raises BadRequest for a column that is not there or of a type that does not fit."""
    field = _find(state, term, what)
    kind = field["type"]
    if not isinstance(kind, str):
        raise BadRequest(f"{what}: {term.shown()!r} is a {kind['type']}, name a column inside it")
    if not kind.startswith(term.transform.kinds):
        raise BadRequest(
            f"{what}: {term.transform.name} does not take {'.'.join(term.path)!r}, which is kept "
            f"as {kind}"
        )
    number = f"[{term.number}]" if term.number else ""
    return BoundTerm(int(field["id"]), f"{term.transform.name}{number}", term)


def _find(state: TableState, term: PartitionTerm, what: str) -> Json:
    fields, found = state.fields, None
    for depth, name in enumerate(term.path):
        matches = [field for field in fields if fold(field["name"]) == fold(name)]
        if not matches:
            missing = ".".join(term.path[: depth + 1])
            raise BadRequest(f"{what}: table {state.title()!r} has no column {missing!r}")
        found = matches[0]
        kind = found["type"]
        inner = isinstance(kind, dict) and kind["type"] == "struct"
        fields = kind["fields"] if inner else []
    return found or {}


def lay_out(
    lake: Lake, state: TableState, partition_by: str | None, sort_by: str | None
) -> TableState:
    """Partitions and order for rows to come; None leaves as it is, '' takes away.

    Rows that are there move with the next `jetbridge optimize`.
    """
    terms = None if partition_by is None else parse_partitions(partition_by)
    order = None if sort_by is None else parse_order(sort_by)

    def attempt(now: TableState) -> TableState:
        _apply(lake, now, _wanted(now, terms, order))
        return lake.current(now)

    return lake.retried(state, attempt)


@dataclass(frozen=True)
class _Wanted:
    """None: as it is."""

    partitions: list[BoundTerm] | None
    order: list[tuple[BoundTerm, Ordering]] | None


def _wanted(
    state: TableState, terms: list[PartitionTerm] | None, order: list[Ordering] | None
) -> _Wanted:
    if terms or order:
        _refuse_types(state)
    partitions = None if terms is None else [bound(state, each, "partition_by") for each in terms]
    if partitions is not None:
        _refuse_twice([(each.source, each.transform) for each in partitions], "partition_by", terms)
        same = sorted((e.source, e.transform) for e in partitions) == sorted(_partitions(state))
        if same and all(field["name"].isascii() for field in _spec(state)):
            partitions = None
    if order is None:
        return _Wanted(partitions, None)
    sorting = [(bound(state, each.term, "sort_by"), each) for each in order]
    _refuse_twice([(b.source, b.transform) for b, _ in sorting], "sort_by", [o.term for o in order])
    same = [_described(each, how) for each, how in sorting] == _order(state)
    return _Wanted(partitions, None if same else sorting)


def _refuse_twice(keys: Sequence[object], what: str, terms: Sequence[PartitionTerm] | None) -> None:
    for index, key in enumerate(keys):
        if key in keys[:index] and terms:
            raise BadRequest(f"{what}: {terms[index].shown()!r} is there twice")


def _refuse_types(state: TableState) -> None:
    for field in state.fields:
        for kind in _leaves(field["type"]):
            if kind.split("(")[0] in _NOT_SPARK:
                raise FailedPrecondition(
                    f"table {state.title()!r} cannot be partitioned or sorted: Spark does not "
                    f"write type {kind} of column {field['name']!r}"
                )


def _leaves(kind: Any) -> Iterator[str]:
    if isinstance(kind, str):
        yield kind
        return
    for _, _, inner, _ in parts(kind):
        yield from _leaves(inner)


def _spec(state: TableState) -> list[Json]:
    specs = {spec["spec-id"]: spec for spec in state.raw.get("partition-specs", [])}
    fields: list[Json] = specs.get(state.raw.get("default-spec-id"), {"fields": []})["fields"]
    return [field for field in fields if field["transform"] != "void"]


def _partitions(state: TableState) -> list[tuple[int, str]]:
    return [(int(field["source-id"]), str(field["transform"])) for field in _spec(state)]


def _order(state: TableState) -> list[Json]:
    orders = {order["order-id"]: order for order in state.raw.get("sort-orders", [])}
    found: list[Json] = orders.get(state.raw.get("default-sort-order-id"), {"fields": []})["fields"]
    return found


def _described(each: BoundTerm, how: Ordering) -> Json:
    return {
        "transform": each.transform,
        "source-id": each.source,
        "direction": "desc" if how.descending else "asc",
        "null-order": "nulls-first" if how.nulls_first else "nulls-last",
    }


def _apply(lake: Lake, state: TableState, wanted: _Wanted) -> None:
    """Both in one commit."""
    if wanted.partitions is None and wanted.order is None:
        return
    space, name = state.pointer.namespace, state.pointer.name
    with lake.session(state.title()) as session, _refusals(state):
        table = session.catalog(lake.name).loadTable(identifier(session, space, name))
        transaction = table.newTransaction()
        if wanted.partitions is not None:
            _repartition(session, table, transaction.updateSpec(), state, wanted.partitions)
        if wanted.order is not None:
            _reorder(session, table, transaction.replaceSortOrder(), wanted.order)
        with current().publishing():
            transaction.commitTransaction()


@contextmanager
def _refusals(state: TableState) -> Iterator[None]:
    """What Iceberg has against a layout, e.g. day and hour of the same column."""
    try:
        yield
    except Exception as error:
        refused = ("java.lang.IllegalArgumentException", "java.lang.IllegalStateException")
        invalid = "org.apache.iceberg.exceptions.ValidationException"
        if any(is_java(error, name) for name in (*refused, invalid)):
            title, why = state.title(), java_message(error)
            raise BadRequest(f"table {title!r} cannot be laid out so: {why}"[:450]) from error
        raise


def _repartition(
    session: SparkConnection,
    table: Any,
    update: Any,
    state: TableState,
    wanted: Sequence[BoundTerm],
) -> None:
    keys = {(each.source, each.transform) for each in wanted}
    there = {(int(f["source-id"]), str(f["transform"])): f["name"] for f in _spec(state)}
    for key, name in there.items():
        if key not in keys or not name.isascii():
            update.removeField(name)
    for each in wanted:
        known = there.get((each.source, each.transform))
        if known is None or not known.isascii():
            name, term = _partition_name(table, each, state), _java_term(session, table, each)
            update.addField(*([] if name is None else [name]), term)
    update.commit()


def _partition_name(table: Any, each: BoundTerm, state: TableState) -> str | None:
    """The name of the partition in the manifests; None where Iceberg's own name will do.

    That is made from the column's name. Iceberg's Java library leaves letters of all languages in
    it, which Avro forbids, so DuckDB would read no manifest of the table.
    """
    column = str(table.schema().findColumnName(each.source))
    if column.isascii():
        return None
    name = _avro_name(column)
    if each.term.transform is not IDENTITY:
        name += f"_{each.term.transform.name}" + (
            f"_{each.term.number}" if each.term.number else ""
        )
    taken = {f["name"] for spec in state.raw.get("partition-specs", []) for f in spec["fields"]}
    while name in taken or table.schema().findField(name) is not None:
        name += "_"
    return name


def _avro_name(name: str) -> str:
    """The name as Iceberg's specification makes a valid name for Avro of it."""
    made = re.sub(r"[^A-Za-z0-9_]", lambda found: f"_x{ord(found[0]):X}", name)
    return f"_{made}" if made[0].isdigit() else made


def _reorder(
    session: SparkConnection, table: Any, update: Any, order: Sequence[tuple[BoundTerm, Ordering]]
) -> None:
    nulls = session.jvm.org.apache.iceberg.NullOrder
    for each, how in order:
        add = update.desc if how.descending else update.asc
        place = nulls.NULLS_FIRST if how.nulls_first else nulls.NULLS_LAST
        add(_java_term(session, table, each), place)
    update.commit()


def _java_term(session: SparkConnection, table: Any, each: BoundTerm) -> Any:
    name = table.schema().findColumnName(each.source)
    expressions = session.jvm.org.apache.iceberg.expressions.Expressions
    transform = each.term.transform
    if transform is IDENTITY:
        return expressions.ref(name)
    arguments = [each.term.number] if transform.takes_number else []
    return getattr(expressions, transform.name)(name, *arguments)


def drop_unreadable_manifests(lake: Lake, state: TableState) -> None:
    """Manifests that no file is left in, if DuckDB cannot read them for the name of a partition.

    So they are, too, once the column of a partition is gone. Whatever is committed next leaves
    them out, so that is an empty commit.
    """
    specs = state.raw.get("partition-specs", [])
    unreadable = {
        spec["spec-id"]
        for spec in specs
        if not all(field["name"].isascii() for field in spec["fields"])
        or (spec["fields"] and spec["spec-id"] != state.raw.get("default-spec-id"))
    }
    if unreadable and state.snapshot is not None:
        location = str(state.snapshot["manifest-list"])
        rows = lake.reader.query(queries.manifests(readable(location))).to_pylist()
        if any(row["partition_spec_id"] in unreadable and _is_empty(row) for row in rows):
            lake.commit(state, lambda _: TableCommit())


def _is_empty(manifest: Json) -> bool:
    return manifest.get("added_files_count") == 0 and manifest.get("existing_files_count") == 0


def refuse_lost_columns(state: TableState, fields: Sequence[Json]) -> None:
    """Raises FailedPrecondition for a column that the layout is made of and that would go."""
    kept = {number for field in fields for number in _ids(field["id"], field["type"])}
    names = {field["id"]: field["name"] for field in state.fields}
    used = (
        ("partitions", "RESET PARTITIONED BY", _spec(state)),
        ("sort order", "RESET SORTED BY", _order(state)),
    )
    for what, remedy, entries in used:
        for entry in entries:
            if entry["source-id"] not in kept:
                column = names.get(entry["source-id"], "a field")
                raise FailedPrecondition(
                    f"column {column!r} is part of the {what} of {state.title()!r}; "
                    f"run ALTER TABLE {state.title()} {remedy} first"
                )


def _ids(number: int, kind: Any) -> Iterator[int]:
    yield number
    if not isinstance(kind, str):
        for _, inner, inside, _ in parts(kind):
            yield from _ids(inner, inside)
