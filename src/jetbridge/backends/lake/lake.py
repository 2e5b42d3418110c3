"""Puts the owners of one lake together."""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog.sql import SqlCatalog

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.metadata.pointers import Namespaces, pointers_of
from jetbridge.backends.lake.metadata.table_store import TableStore
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.warehouse.warehouse import Warehouse
from jetbridge.backends.lake.write.commit import IcebergCommitter
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.spark.engine import SparkEngine


@dataclass(frozen=True)
class Lake:
    """Hold the owners of one lake, the lowest first; a function takes the lowest that it needs.

    `iceberg` is the catalog as PyIceberg has it.
    """

    name: str
    iceberg: IcebergCatalog
    namespaces: Namespaces
    tables: TableStore
    warehouse: Warehouse
    read: ReadContext
    publisher: Publisher


def open_lake(
    catalog: IcebergCatalog,
    engine: SparkEngine,
    reader: LakeReader,
    files: Files,
    options: LakeOptions,
) -> Lake:
    """Open a lake; Spark is not started."""
    tables = TableStore(pointers_of(catalog), files, options.state_bytes)
    warehouse = Warehouse(catalog.name, engine, tables, files, options)
    read = ReadContext(warehouse, reader, catalog.properties, options.column_cache_bytes)
    publisher = Publisher(
        read,
        IcebergCommitter(warehouse.java),
        options,
        chooses_folders=isinstance(catalog, SqlCatalog),
    )
    return Lake(catalog.name, catalog, Namespaces(catalog), tables, warehouse, read, publisher)
