"""Creates and replaces tables with their rows; a table appears when all its rows are written."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jetbridge.backends.lake import types
from jetbridge.backends.lake.ddl.alter import identifiers
from jetbridge.backends.lake.metadata.extras import PROPERTY, encode_extras
from jetbridge.backends.lake.metadata.structs import decode_schema
from jetbridge.backends.lake.metadata.table_state import (
    COMMENT,
    CREATED,
    ENFORCE_KEYS,
    REPLACED,
    TableState,
)
from jetbridge.backends.lake.parquet_writer import DataFile
from jetbridge.backends.lake.types import IcebergField
from jetbridge.backends.lake.types.iceberg_types import to_json
from jetbridge.backends.lake.warehouse.java_catalog import identifier, static
from jetbridge.backends.lake.write.commit import data_file, discard
from jetbridge.backends.lake.write.publisher import Publisher
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
# Changed rows do not rewrite their files, and metadata does not pile up.
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
    """Hold a table that is not published yet; `replaced` is the table that it replaces."""

    publisher: Publisher
    namespace: str
    definition: Definition
    replaced: TableState | None
    session: SparkConnection
    transaction: Any

    @property
    def name(self) -> str:
        """Return the name of the table."""
        return self.definition.name if self.replaced is None else self.replaced.pointer.name

    @property
    def title(self) -> str:
        """Return the name of the table with its schema."""
        return f"{self.namespace}.{self.name}"

    @cached_property
    def fields(self) -> tuple[IcebergField, ...]:
        """Return the columns of Iceberg's schema; those of a replaced table keep their ids."""
        text = static(self.session, "SchemaParser.toJson")(self.transaction.table().schema())
        return decode_schema(str(text).encode()).fields

    @cached_property
    def codec(self) -> types.RowCodec:
        """Return the codec for rows of the table."""
        return types.RowCodec(self.definition.schema, self.fields)

    @cached_property
    def data_folder(self) -> str:
        """Return the folder of the data files."""
        table = self.transaction.table()
        folder = table.properties().get("write.data.path") or f"{table.location()}/data"
        return str(folder).rstrip("/")

    def files(self, files: Iterable[DataFile]) -> list[Any]:
        """Return files of rows as Iceberg's Java library has them."""
        table = self.transaction.table()
        return [data_file(self.session, table, self.transaction, file) for file in files]

    def publish(self, files: Sequence[Any] = ()) -> None:
        """Publish the table with the rows of these files; raises AlreadyExists."""
        notes = {} if self.replaced is None else self.replaced.extras.notes
        extras = encode_extras(self.definition, self.fields, notes)
        self.transaction.updateProperties().set(PROPERTY, extras).commit()
        replaced_id = None if self.replaced is None else self.replaced.snapshot_id
        if files or replaced_id is not None:
            append = self.transaction.newAppend()
            for file in files:
                append.appendFile(file)
            if replaced_id is not None:
                append.set(REPLACED, str(replaced_id))
            append.commit()
        try:
            with current().publishing():
                self.transaction.commitTransaction()
        except ServerError:  # the call was cancelled
            discard(self.transaction.table(), self.transaction)
            raise


@contextmanager
def begin_create_table(
    publisher: Publisher, namespace: str, request: CreateTable
) -> Iterator[TableCreation]:
    """Yield a table that does not exist before its `publish`.

    Raises AlreadyExists, NotFound for the schema, and BadRequest for the columns.
    """
    existing = publisher.tables.find(namespace, request.name)
    if existing is not None and request.on_conflict is not OnConflict.REPLACE:
        raise AlreadyExists("table", f"{namespace}.{request.name}")
    definition = define_table(request)
    refuse_reserved(definition)
    if publisher.tables.pointers.find_namespace(namespace) is None:
        raise NotFound("schema", namespace)
    if existing is not None:  # it stays in its folder
        definition = replace(definition, name=existing.pointer.name)
        with _begin(publisher, namespace, definition, existing, None) as creation:
            yield creation
        return
    with publisher.new_table_folder(namespace, definition.name) as folder:
        new = request.on_conflict is not OnConflict.REPLACE
        with _begin(publisher, namespace, definition, None, folder, new=new) as creation:
            yield creation


@contextmanager
def _begin(
    publisher: Publisher,
    namespace: str,
    definition: Definition,
    replaced: TableState | None,
    folder: str | None,
    *,
    new: bool = False,
) -> Iterator[TableCreation]:
    schema, properties = iceberg_schema_of(definition)
    if definition.keys:
        properties[ENFORCE_KEYS] = str(publisher.options.enforce_keys_rows)
    warehouse = publisher.warehouse
    with warehouse.session(f"{namespace}.{definition.name}") as session:
        parsed = static(session, "SchemaParser.fromJson")(schema)
        name = identifier(session, namespace, definition.name)
        builder = session.catalog(warehouse.name).buildTable(name, parsed)
        builder = builder.withProperties(properties).withLocation(folder)
        begin = builder.createTransaction if new else builder.createOrReplaceTransaction
        yield TableCreation(publisher, namespace, definition, replaced, session, begin())


def refuse_reserved(definition: Definition) -> None:
    """Raise BadRequest for column names that Iceberg or our queries use, or no engine can read."""
    for name in definition.schema.names:
        if fold(name) in RESERVED:
            raise BadRequest(f"{name!r} is a name that Iceberg keeps for itself, choose another")
        if fold(name).startswith(_OURS):
            raise BadRequest(f"{name!r}: names that begin with {_OURS} are taken, choose another")
        if "\0" in name:
            raise BadRequest(f"the column name {name!r} holds a NUL character, choose another")


def iceberg_schema_of(definition: Definition) -> tuple[str, dict[str, str]]:
    """Return the JSON of the schema of a new table, and the properties that need no field ids."""
    ids = iter(range(1, 2**31))
    top = [next(ids) for _ in definition.schema]
    fields: list[IcebergField] = []
    for number, column in zip(top, definition.schema, strict=True):
        kind = types.iceberg_type(column, lambda: next(ids))
        doc = (column.metadata or {}).get(b"comment")
        comment = doc.decode() if doc else None
        fields.append(IcebergField(number, column.name, not column.nullable, kind, comment))
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": to_json(fields),
        "identifier-field-ids": identifiers(definition, fields),
    }
    properties = {**TABLE_PROPERTIES, CREATED: str(time.time_ns() // 1_000_000)}
    if definition.comment:
        properties[COMMENT] = definition.comment
    return json.dumps(schema), properties
