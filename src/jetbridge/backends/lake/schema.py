"""Implements schemas, which are namespaces of Iceberg: live ones, and those of one moment."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from jetbridge.backends.lake.ddl import create_table_as
from jetbridge.backends.lake.ddl.create_table import begin_create_table
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.pointers import LakeListing, MetadataPointer
from jetbridge.backends.lake.metadata.table_state import COMMENT
from jetbridge.backends.lake.table import LakeTable
from jetbridge.catalog import CreateTable, Filled, OnConflict, SchemaInfo, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, NotFound, ServerError

log = logging.getLogger(__name__)

_TAGS = "jetbridge.tag."


def namespace_properties(info: SchemaInfo) -> dict[str, str]:
    """Return comment and tags of a schema as properties of its namespace."""
    properties = {_TAGS + key: value for key, value in info.tags.items()}
    return {**properties, COMMENT: info.comment} if info.comment else properties


def schema_info(name: str, properties: Mapping[str, str]) -> SchemaInfo:
    """Return a schema from the properties of its namespace."""
    tags = {
        key.removeprefix(_TAGS): value for key, value in properties.items() if key.startswith(_TAGS)
    }
    return SchemaInfo(name, properties.get(COMMENT, ""), tags)


def _info(lake: Lake, name: str, properties: Mapping[str, str] | None) -> SchemaInfo:
    return schema_info(name, lake.namespaces.properties(name) if properties is None else properties)


def _readable_tables(lake: Lake, namespace: str, listing: LakeListing) -> list[LakeTable]:
    """Return the tables of a namespace by name, without those that cannot be read."""
    folded = fold(namespace)
    keys = sorted(key for key in listing.tables if key[0] == folded)
    tables = (_readable(lake, listing.tables[key]) for key in keys)
    return [table for table in tables if table is not None]


def _readable(lake: Lake, pointer: MetadataPointer) -> LakeTable | None:
    """Return a table; None for one that cannot be served, with the reason in the log, once."""
    try:
        table = LakeTable(lake, lake.tables.state(pointer))
        table.info()
    except (ServerError, OSError, ValueError, KeyError) as error:
        if lake.read.is_new_message(pointer.location, str(error)):
            log.warning("table %s is not served: %s", pointer.title(), error)
        return None
    return table


class LakeSnapshotSchema:
    """Read the tables of one moment, by their metadata files.

    With `for_listing`, the catalog is not asked again whether a table was dropped.
    """

    def __init__(self, lake: Lake, name: str, listing: LakeListing, *, for_listing: bool) -> None:
        self._lake, self._name, self._listing = lake, name, listing
        self._for_listing = for_listing

    def info(self) -> SchemaInfo:
        """Return name, comment and tags."""
        return _info(self._lake, self._name, self._listing.properties_of(self._name))

    def list_tables(self) -> Sequence[LakeTable]:
        """Return the tables that can be read."""
        tables = _readable_tables(self._lake, self._name, self._listing)
        return [table for table in tables if self._for_listing or self._exists(table)]

    def load_table(self, name: str) -> LakeTable:
        """Return a table; raises NotFound."""
        pointer = self._listing.tables.get((fold(self._name), fold(name)))
        if pointer is not None:
            table = LakeTable(self._lake, self._lake.tables.state(pointer))
            if self._exists(table):
                return table
        raise NotFound("table", f"{self._name}.{name}")

    def _exists(self, table: LakeTable) -> bool:
        """Return whether the table was not dropped meanwhile."""
        try:
            self._lake.tables.current(table.state)
        except NotFound:
            return False
        return True


class LakeSchema:
    """Read and change a schema; `properties` are those of its namespace, if they are known."""

    def __init__(self, lake: Lake, name: str, properties: Mapping[str, str] | None = None) -> None:
        self._lake, self._name, self._properties = lake, name, properties

    def info(self) -> SchemaInfo:
        """Return name, comment and tags."""
        return _info(self._lake, self._name, self._properties)

    def list_tables(self) -> Sequence[LakeTable]:
        """Return the tables that can be read; the log names the others."""
        return _readable_tables(self._lake, self._name, self._lake.tables.listing())

    def load_table(self, name: str) -> LakeTable:
        """Return a table; raises NotFound."""
        return LakeTable(self._lake, self._lake.tables.load(self._name, name))

    def create_table(self, request: CreateTable) -> LakeTable:
        """Create an empty table."""
        try:
            with begin_create_table(self._lake.publisher, self._name, request) as creation:
                creation.publish()
        except AlreadyExists:
            if request.on_conflict is not OnConflict.IGNORE:
                raise
        return self.load_table(request.name)

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        """Begin a CREATE TABLE AS."""
        return create_table_as.creating(self._lake.publisher, self._name, request)

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        """Create a table from a query in Spark SQL."""
        return create_table_as.create_on_spark(self._lake.publisher, self._name, request, query)

    def drop_table(self, name: str) -> None:
        """Drop a table; raises NotFound."""
        self._lake.publisher.drop(self._lake.tables.load(self._name, name))
