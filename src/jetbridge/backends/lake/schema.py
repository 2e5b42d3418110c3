"""Schemas: namespaces of Iceberg; live ones, and those of one moment."""

import logging
import time
from collections.abc import Mapping, Sequence

from jetbridge.backends.lake import types
from jetbridge.backends.lake.alter import identifiers
from jetbridge.backends.lake.metadata import (
    COMMENT,
    CREATED,
    ENFORCE_KEYS,
    PROPERTY,
    Json,
    with_extras,
)
from jetbridge.backends.lake.pointers import Key, Pointer
from jetbridge.backends.lake.store import Lake
from jetbridge.backends.lake.table import LakeTable
from jetbridge.catalog import CreateTable, OnConflict, SchemaInfo
from jetbridge.errors import AlreadyExists, BadRequest, NotFound, ServerError
from jetbridge.names import fold
from jetbridge.tables.definition import Definition, new_definition

log = logging.getLogger(__name__)

_TAGS = "jetbridge.tag."
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


def namespace_properties(info: SchemaInfo) -> dict[str, str]:
    properties = {_TAGS + key: value for key, value in info.tags.items()}
    return {**properties, COMMENT: info.comment} if info.comment else properties


def schema_info(name: str, properties: Mapping[str, str]) -> SchemaInfo:
    tags = {
        key.removeprefix(_TAGS): value for key, value in properties.items() if key.startswith(_TAGS)
    }
    return SchemaInfo(name, properties.get(COMMENT, ""), tags)


def _readable(lake: Lake, pointer: Pointer) -> LakeTable | None:
    """None for a table that cannot be served; the log says why, once."""
    try:
        table = LakeTable(lake, lake.state(pointer))
        table.info()
    except (ServerError, OSError, ValueError, KeyError) as error:
        if (pointer.location, str(error)) not in lake.said:
            lake.said.add((pointer.location, str(error)))
            log.warning("table %s.%s is not served: %s", pointer.namespace, pointer.name, error)
        return None
    return table


class SnapshotSchema:
    """The tables of one moment, by their metadata files."""

    def __init__(self, lake: Lake, name: str, pointers: Mapping[Key, Pointer]) -> None:
        self._lake, self._name, self._pointers = lake, name, pointers

    def info(self) -> SchemaInfo:
        return schema_info(self._name, self._lake.namespaces.properties(self._name))

    def list_tables(self) -> Sequence[LakeTable]:
        mine = fold(self._name)
        wanted = sorted(key for key in self._pointers if key[0] == mine)
        found = (_readable(self._lake, self._pointers[key]) for key in wanted)
        return [table for table in found if table is not None and self._is_there(table)]

    def load_table(self, name: str) -> LakeTable:
        pointer = self._pointers.get((fold(self._name), fold(name)))
        table = None if pointer is None else LakeTable(self._lake, self._lake.state(pointer))
        if table is None or not self._is_there(table):
            raise NotFound("table", f"{self._name}.{name}")
        return table

    def _is_there(self, table: LakeTable) -> bool:
        """Whether it was not dropped meanwhile."""
        try:
            self._lake.current(table.state)
        except NotFound:
            return False
        return True


class LakeSchema:
    def __init__(self, lake: Lake, name: str) -> None:
        self._lake, self._name = lake, name

    def info(self) -> SchemaInfo:
        return schema_info(self._name, self._lake.namespaces.properties(self._name))

    def list_tables(self) -> Sequence[LakeTable]:
        """Those that cannot be read are left out, and named in the log."""
        mine = fold(self._name)
        tables = []
        for (space, _), pointer in sorted(self._lake.pointers.listing().tables.items()):
            if space == mine:
                table = _readable(self._lake, pointer)
                if table is not None:
                    tables.append(table)
        return tables

    def load_table(self, name: str) -> LakeTable:
        return LakeTable(self._lake, self._lake.load(self._name, name))

    def create_table(self, request: CreateTable) -> LakeTable:
        there = self._lake.find(self._name, request.name)
        if there is not None and request.on_conflict is OnConflict.IGNORE:
            return LakeTable(self._lake, there)
        if there is not None and request.on_conflict is OnConflict.ERROR:
            raise AlreadyExists("table", f"{self._name}.{request.name}")
        definition = new_definition(request)
        refuse_reserved(definition)
        name = definition.name if there is None else there.pointer.name
        schema, properties = declared(definition)
        if definition.keys:
            properties[ENFORCE_KEYS] = str(self._lake.options.enforce_keys_rows)
        if self._lake.pointers.find_namespace(self._name) is None:
            raise NotFound("schema", self._name)
        try:
            self._create(name, schema, properties, request.on_conflict, there is None)
        except AlreadyExists:
            if request.on_conflict is not OnConflict.IGNORE:
                raise
        return self.load_table(name)

    def _create(
        self,
        name: str,
        schema: Json,
        properties: Mapping[str, str],
        on_conflict: OnConflict,
        is_new: bool,
    ) -> None:
        create, new = self._lake.commits.create, on_conflict is not OnConflict.REPLACE
        if not is_new:  # it stays where it is
            create(self._name, name, schema, properties, new=new)
            return
        with self._lake.making(self._name, name) as folder:
            create(self._name, name, schema, properties, new=new, folder=folder)

    def drop_table(self, name: str) -> None:
        state = self._lake.load(self._name, name)
        with self._lake.writing(state):
            self._lake.drop(state)


def refuse_reserved(definition: Definition) -> None:
    """Names that Iceberg or queries of ours keep for themselves, or that no engine can read."""
    for name in definition.schema.names:
        if fold(name) in RESERVED:
            raise BadRequest(f"{name!r} is a name that Iceberg keeps for itself, choose another")
        if fold(name).startswith(_OURS):
            raise BadRequest(f"{name!r}: names that begin with {_OURS} are taken, choose another")
        if "\0" in name:
            raise BadRequest(f"the column name {name!r} holds a NUL character, choose another")


def declared(definition: Definition) -> tuple[Json, dict[str, str]]:
    """The schema and the properties of a new table."""
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
    properties = {
        **TABLE_PROPERTIES,
        PROPERTY: with_extras(definition, fields, {}),
        CREATED: str(time.time_ns() // 1_000_000),
    }
    if definition.comment:
        properties[COMMENT] = definition.comment
    return schema, properties
