"""Schemas: namespaces of Iceberg; live ones, and those of one moment."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from jetbridge.backends.lake.ddl import create_table_as, spark_spooling
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
    properties = {_TAGS + key: value for key, value in info.tags.items()}
    return {**properties, COMMENT: info.comment} if info.comment else properties


def schema_info(name: str, properties: Mapping[str, str]) -> SchemaInfo:
    tags = {
        key.removeprefix(_TAGS): value for key, value in properties.items() if key.startswith(_TAGS)
    }
    return SchemaInfo(name, properties.get(COMMENT, ""), tags)


def _info(lake: Lake, name: str, properties: Mapping[str, str] | None) -> SchemaInfo:
    return schema_info(name, lake.namespaces.properties(name) if properties is None else properties)


def _readable_tables(lake: Lake, namespace: str, listing: LakeListing) -> list[LakeTable]:
    """The tables of a namespace by name, without those that cannot be read."""
    mine = fold(namespace)
    keys = sorted(key for key in listing.tables if key[0] == mine)
    tables = (_readable(lake, listing.tables[key]) for key in keys)
    return [table for table in tables if table is not None]


def _readable(lake: Lake, pointer: MetadataPointer) -> LakeTable | None:
    """None for a table that cannot be served; the log says why, once."""
    try:
        table = LakeTable(lake, lake.state(pointer))
        table.info()
    except (ServerError, OSError, ValueError, KeyError) as error:
        if lake.is_news((pointer.location, str(error))):
            log.warning("table %s.%s is not served: %s", pointer.namespace, pointer.name, error)
        return None
    return table


class SnapshotSchema:
    """The tables of one moment, by their metadata files.

    `for_listing`: nothing is asked of the catalog again, not even whether a table was dropped.
    """

    def __init__(self, lake: Lake, name: str, listing: LakeListing, *, for_listing: bool) -> None:
        self._lake, self._name, self._listing = lake, name, listing
        self._for_listing = for_listing

    def info(self) -> SchemaInfo:
        return _info(self._lake, self._name, self._listing.properties_of(self._name))

    def list_tables(self) -> Sequence[LakeTable]:
        tables = _readable_tables(self._lake, self._name, self._listing)
        return [table for table in tables if self._for_listing or self._is_there(table)]

    def load_table(self, name: str) -> LakeTable:
        pointer = self._listing.tables.get((fold(self._name), fold(name)))
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
    """`properties` are those of its namespace, if they were read with it."""

    def __init__(self, lake: Lake, name: str, properties: Mapping[str, str] | None = None) -> None:
        self._lake, self._name, self._properties = lake, name, properties

    def info(self) -> SchemaInfo:
        return _info(self._lake, self._name, self._properties)

    def list_tables(self) -> Sequence[LakeTable]:
        """Those that cannot be read are left out, and named in the log."""
        return _readable_tables(self._lake, self._name, self._lake.pointers.listing())

    def load_table(self, name: str) -> LakeTable:
        return LakeTable(self._lake, self._lake.load(self._name, name))

    def create_table(self, request: CreateTable) -> LakeTable:
        try:
            with begin_create_table(self._lake, self._name, request) as made:
                made.publish()
        except AlreadyExists:
            if request.on_conflict is not OnConflict.IGNORE:
                raise
        return self.load_table(request.name)

    def creating(self, request: CreateTable) -> AbstractContextManager[Write]:
        return create_table_as.creating(self._lake, self._name, request)

    def create_on_spark(self, request: CreateTable, query: str) -> Filled:
        return spark_spooling.create_on_spark(self._lake, self._name, request, query)

    def drop_table(self, name: str) -> None:
        state = self._lake.load(self._name, name)
        with self._lake.writing(state):
            self._lake.drop(state)
