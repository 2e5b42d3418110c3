"""Creates spool tables, which hold rows on their way from Spark and to it; no client sees them.

Iceberg reaches every warehouse with the properties of its catalog. Spark's own files reach folders
only, so rows go through a spool table where the warehouse is in an object store.
"""

import json
import logging
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.metadata.pointers import SPOOL
from jetbridge.backends.lake.parquet_writer import DataFile
from jetbridge.backends.lake.types.iceberg_types import IcebergField, to_json
from jetbridge.backends.lake.warehouse.java_catalog import identifier, static
from jetbridge.backends.lake.warehouse.warehouse import Warehouse
from jetbridge.dialects import spark as sql
from jetbridge.errors import FailedPrecondition, NotFound
from jetbridge.runtime.cancellation import shield
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.written_rows import (
    WrittenFiles,
    plain,
    refuse_lost,
    rows_in_table,
    view,
    write_parquet,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

_PROPERTIES = {
    "format-version": "2",  # row ids come with the table itself
    "write.parquet.compression-codec": "zstd",
    "write.distribution-mode": "none",
    "write.metadata.metrics.default": "truncate(16)",  # also that of the hundredth column
}
_NAME_MAPPING = "schema.name-mapping.default"


@contextmanager
def spool_table(
    warehouse: Warehouse,
    session: SparkConnection,
    namespace: str,
    schema: Any,
    properties: Mapping[str, str],
) -> Iterator[tuple[str, Any]]:
    """Yield the name of a new table in Spark SQL and the table of Java; dropped afterwards."""
    catalog = session.catalog(warehouse.name)
    name = f"{SPOOL}{warehouse.server}_{uuid4().hex[:12]}"
    folder = new_spool_folder(warehouse)
    builder = catalog.buildTable(identifier(session, namespace, name), schema)
    builder = builder.withProperties({**_PROPERTIES, **properties}).withLocation(folder)
    try:
        warehouse.spools.add(name)
        table = builder.create()
        yield sql.qualify([warehouse.name, *namespace.split("."), name]), table
    finally:
        with shield():
            _drop(warehouse, namespace, name)
            remove_folder(warehouse, folder)


def new_spool_folder(warehouse: Warehouse) -> str:
    """Return a folder that no other statement uses."""
    return f"{warehouse.staging_folder()}/{warehouse.file_prefix()}-{uuid4().hex[:12]}"


def _drop(warehouse: Warehouse, namespace: str, name: str) -> None:
    warehouse.spools.discard(name)
    try:
        with suppress(NotFound):  # it could not be created
            warehouse.java.drop(namespace, name)
    except Exception as error:
        log.warning(
            "spool table %s.%s could not be dropped and is left for the sweeper: %s",
            namespace,
            name,
            str(error)[:200],
        )
        warehouse.on_trouble()


def remove_folder(warehouse: Warehouse, folder: str) -> None:
    """Remove a folder; if that fails, the sweeper removes it."""
    with suppress(OSError):
        warehouse.files.delete_folder(folder)


def parse_schema(session: SparkConnection, text: str) -> Any:
    """Return a schema of Java from its JSON."""
    return static(session, "SchemaParser.fromJson")(text)


@contextmanager
def spool_rows(
    warehouse: Warehouse, session: SparkConnection, query: str, namespace: str | None = None
) -> Iterator[WrittenFiles]:
    """Yield the files of the warehouse to which Spark wrote the rows of a query."""
    if warehouse.is_remote():
        with spool_into_table(warehouse, session, query, namespace) as files:
            yield files
        return
    folder = new_spool_folder(warehouse)
    try:
        yield write_parquet(session, query, Path(local_path(folder) or folder))
    finally:
        remove_folder(warehouse, folder)


@contextmanager
def spool_into_table(
    warehouse: Warehouse, session: SparkConnection, query: str, namespace: str | None = None
) -> Iterator[WrittenFiles]:
    """Do the same by a spool table."""
    rows = plain(session, query)
    schema = static(session, "spark.SparkSchemaUtil.convert")(rows._jdf.schema())
    space = namespace or _any_namespace(warehouse)
    with spool_table(warehouse, session, space, schema, {}) as (name, table):
        with view(rows) as source:
            insert = session.sql(sql.insert_all(name, source))
        table.refresh()
        files = list_files(table)
        refuse_lost_files(warehouse, files, rows_in_table(insert), warehouse.staging_folder())
        entries = [
            (str(file.location()), int(file.recordCount()), int(file.fileSizeInBytes()))
            for file in files
        ]
        # Their names begin with the number of the part.
        yield WrittenFiles(tuple(sorted(entries, key=lambda entry: posixpath.basename(entry[0]))))


def _any_namespace(warehouse: Warehouse) -> str:
    for name in warehouse.tables.listing().namespaces.values():
        return name
    raise FailedPrecondition(
        f"lake {warehouse.name!r} has no schema for spool tables; run CREATE SCHEMA first"
    )


@contextmanager
def read_files(
    warehouse: Warehouse, session: SparkConnection, namespace: str, files: Sequence[DataFile]
) -> Iterator["DataFrame"]:
    """Yield the rows of files that have `file_columns` and no field ids."""
    filesystem, path = warehouse.files.filesystem(files[0].location)
    arrow = pq.read_schema(path, filesystem=filesystem).remove_metadata()
    fields = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(arrow))
    schema = parse_schema(session, fields.model_dump_json())
    mapping = static(session, "mapping.MappingUtil.create")(schema)
    text = static(session, "mapping.NameMappingParser.toJson")(mapping)
    names = {_NAME_MAPPING: text}
    with spool_table(warehouse, session, namespace, schema, names) as (name, table):
        append = table.newAppend()
        for file in files:
            builder = static(session, "DataFiles.builder")(table.spec()).withPath(file.location)
            sized = builder.withFileSizeInBytes(warehouse.files.size(file.location))
            append.appendFile(sized.withFormat("PARQUET").withRecordCount(file.rows).build())
        append.commit()
        yield session.spark.table(name)


def list_files(table: Any) -> list[Any]:
    """Return the data files of a table, as Java has them."""
    if table.currentSnapshot() is None:
        return []
    tasks = table.newScan().includeColumnStats().planFiles()
    try:
        files = []
        task = tasks.iterator()
        while task.hasNext():
            files.append(task.next().file().copy())
        return files
    finally:
        tasks.close()


def refuse_lost_files(warehouse: Warehouse, files: Sequence[Any], rows: int, folder: str) -> None:
    """Raise an error if files that the metadata names are missing: they are on another machine."""
    folders = {posixpath.dirname(str(file.location())) for file in files}
    existing = {
        posixpath.basename(location)
        for data_folder in folders
        for location in warehouse.files.list_folder(data_folder, ".parquet")
    }
    present = [file for file in files if posixpath.basename(str(file.location())) in existing]
    refuse_lost(rows, sum(int(file.recordCount()) for file in present), folder)


def with_optional_fields(fields: Iterable[IcebergField]) -> str:
    """Return the JSON of a schema whose columns may all be NULL.

    Spark refuses a column that may be NULL for one that may not, whatever is in it.
    """
    optional = [msgspec.structs.replace(field, required=False) for field in fields]
    schema = {"type": "struct", "schema-id": 0, "fields": to_json(optional)}
    return json.dumps({**schema, "identifier-field-ids": []})
