"""Tables that are made, or made anew, with their rows: in one step, when all of it is there."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jetbridge.backends.lake import types
from jetbridge.backends.lake.ddl.alter import identifiers
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import (
    COMMENT,
    CREATED,
    ENFORCE_KEYS,
    PROPERTY,
    REPLACED,
    Json,
    TableState,
    with_extras,
)
from jetbridge.backends.lake.write.commit import DataFile, data_file, discard, identifier, static
from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, OnConflict
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, BadRequest, NotFound, ServerError
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection

RESERVED = frozenset(
    ["_row_id", "_last_updated_sequence_number", "_file", "_pos", "_deleted", "_spec_id"]
    + ["_partition", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
)
_OURS = "jetbridge_"
# Rows are changed without writing their files anew, and metadata does not pile up.
TABLE_PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest.min-count-to-merge": "8",
}


@dataclass(frozen=True)
class TableCreation:
    """`there` is the table that will be replaced, if there is one."""

    lake: Lake
    namespace: str
    definition: Definition
    there: TableState | None
    session: SparkConnection
    transaction: Any

    @property
    def name(self) -> str:
        return self.definition.name if self.there is None else self.there.pointer.name

    @property
    def title(self) -> str:
        return f"{self.namespace}.{self.name}"

    @cached_property
    def schema(self) -> Json:
        """As Iceberg will have it: columns of the table that is replaced keep their ids."""
        text = static(self.session, "SchemaParser.toJson")(self.transaction.table().schema())
        found: Json = json.loads(text)
        return found

    @property
    def fields(self) -> list[Json]:
        found: list[Json] = self.schema["fields"]
        return found

    @cached_property
    def codec(self) -> types.RowCodec:
        return types.RowCodec(self.definition.schema, self.fields)

    @cached_property
    def data_folder(self) -> str:
        table = self.transaction.table()
        given = table.properties().get("write.data.path") or f"{table.location()}/data"
        return str(given).rstrip("/")

    def files(self, files: Iterable[DataFile]) -> list[Any]:
        """Files of rows, as Iceberg's Java knows them."""
        table = self.transaction.table()
        return [data_file(self.session, table, self.transaction, file) for file in files]

    def publish(self, files: Sequence[Any] = ()) -> None:
        """The table, with the rows of these files; raises AlreadyExists."""
        before = {} if self.there is None else self.there.extras
        extras = with_extras(self.definition, self.fields, {"notes": before.get("notes", {})})
        self.transaction.updateProperties().set(PROPERTY, extras).commit()
        replaced = None if self.there is None else self.there.snapshot_id
        if files or replaced is not None:
            append = self.transaction.newAppend()
            for file in files:
                append.appendFile(file)
            if replaced is not None:
                append.set(REPLACED, str(replaced))
            append.commit()
        try:
            with current().publishing():
                self.transaction.commitTransaction()
        except ServerError:  # the call was cancelled
            discard(self.transaction.table(), self.transaction)
            raise


@contextmanager
def begin_create_table(lake: Lake, namespace: str, request: CreateTable) -> Iterator[TableCreation]:
    """Nothing is there until `publish`. Raises AlreadyExists, and BadRequest for its columns."""
    there = lake.find(namespace, request.name)
    if there is not None and request.on_conflict is not OnConflict.REPLACE:
        raise AlreadyExists("table", f"{namespace}.{request.name}")
    definition = define_table(request)
    refuse_reserved(definition)
    if lake.pointers.find_namespace(namespace) is None:
        raise NotFound("schema", namespace)
    if there is not None:  # it stays where it is
        definition = replace(definition, name=there.pointer.name)
        with _begun(lake, namespace, definition, there, None) as made:
            yield made
        return
    with lake.making(namespace, definition.name) as folder:
        replaces = request.on_conflict is OnConflict.REPLACE
        with _begun(lake, namespace, definition, None, folder, new=not replaces) as made:
            yield made


@contextmanager
def _begun(
    lake: Lake,
    namespace: str,
    definition: Definition,
    there: TableState | None,
    folder: str | None,
    *,
    new: bool = False,
) -> Iterator[TableCreation]:
    schema, properties = iceberg_schema_of(definition)
    if definition.keys:
        properties[ENFORCE_KEYS] = str(lake.options.enforce_keys_rows)
    with lake.session(f"{namespace}.{definition.name}") as session:
        parse = static(session, "SchemaParser.fromJson")
        name = identifier(session, namespace, definition.name)
        builder = session.catalog(lake.name).buildTable(name, parse(json.dumps(schema)))
        builder = builder.withProperties(properties).withLocation(folder)
        begin = builder.createTransaction if new else builder.createOrReplaceTransaction
        yield TableCreation(lake, namespace, definition, there, session, begin())


def refuse_reserved(definition: Definition) -> None:
    """Names that Iceberg or queries of ours keep for themselves, or that no engine can read."""
    for name in definition.schema.names:
        if fold(name) in RESERVED:
            raise BadRequest(f"{name!r} is a name that Iceberg keeps for itself, choose another")
        if fold(name).startswith(_OURS):
            raise BadRequest(f"{name!r}: names that begin with {_OURS} are taken, choose another")
        if "\0" in name:
            raise BadRequest(f"the column name {name!r} holds a NUL character, choose another")


def iceberg_schema_of(definition: Definition) -> tuple[Json, dict[str, str]]:
    """The schema and the properties of a new table, but for those that need Iceberg's ids."""
    ids = iter(range(1, 2**31))
    top = [next(ids) for _ in definition.schema]
    fields: list[Json] = []
    for number, column in zip(top, definition.schema, strict=True):
        kind = types.iceberg_type(column, lambda: next(ids))
        field: Json = {"id": number, "name": column.name, "required": not column.nullable}
        doc = (column.metadata or {}).get(b"comment")
        fields.append({**field, "type": kind, **({"doc": doc.decode()} if doc else {})})
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": fields,
        "identifier-field-ids": identifiers(definition, fields),
    }
    properties = {**TABLE_PROPERTIES, CREATED: str(time.time_ns() // 1_000_000)}
    if definition.comment:
        properties[COMMENT] = definition.comment
    return schema, properties
