"""Tables that nobody sees, for rows on their way from Spark and to it.

Iceberg reaches every warehouse with the properties of its catalog. Spark's own files reach folders
only: so where the warehouse is in an object store, rows go through such a table.
"""

import json
import logging
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.schema import assign_fresh_schema_ids

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.pointers import SPOOL
from jetbridge.backends.lake.write.commit import DataFile, identifier, static
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
    lake: Lake,
    session: SparkConnection,
    namespace: str,
    schema: Any,
    properties: Mapping[str, str],
) -> Iterator[tuple[str, Any]]:
    """A new table, as Iceberg's Java has it, and its name in Spark SQL; gone afterwards."""
    catalog = session.catalog(lake.name)
    name = f"{SPOOL}{lake.options.server}_{uuid4().hex[:12]}"
    folder = f"{lake.staging_folder()}/{lake.prefix()}-{uuid4().hex[:12]}"
    builder = catalog.buildTable(identifier(session, namespace, name), schema)
    builder = builder.withProperties({**_PROPERTIES, **properties}).withLocation(folder)
    try:
        lake.spools.add(name)
        table = builder.create()
        yield sql.qualify([lake.name, *namespace.split("."), name]), table
    finally:
        with shield():
            _drop(lake, namespace, name)
            remove(lake, folder)


def _drop(lake: Lake, namespace: str, name: str) -> None:
    lake.spools.discard(name)
    try:
        with suppress(NotFound):  # it could not be made
            lake.commits.drop(namespace, name)
    except Exception as error:
        log.warning("%s.%s is left for the sweeper: %s", namespace, name, str(error)[:200])
        lake.on_trouble()


def remove(lake: Lake, folder: str) -> None:
    with suppress(OSError):  # else the sweeper removes it
        lake.files.delete_folder(folder)


def schema_of(session: SparkConnection, text: str) -> Any:
    return static(session, "SchemaParser.fromJson")(text)


@contextmanager
def written(
    lake: Lake, session: SparkConnection, query: str, namespace: str | None = None
) -> Iterator[WrittenFiles]:
    """The rows of a query in Spark SQL, all of them, in files of the warehouse."""
    rows = plain(session, query)
    schema = static(session, "spark.SparkSchemaUtil.convert")(rows._jdf.schema())
    space = namespace or _some_namespace(lake)
    with spool_table(lake, session, space, schema, {}) as (name, table):
        with view(rows) as source:
            insert = session.sql(sql.insert_all(name, source))
        table.refresh()
        files = files_of(table)
        refuse_lost_files(lake, files, rows_in_table(insert), lake.staging_folder())
        found = [
            (str(each.location()), int(each.recordCount()), int(each.fileSizeInBytes()))
            for each in files
        ]
        # Their names begin with the number of the part.
        yield WrittenFiles(tuple(sorted(found, key=lambda file: posixpath.basename(file[0]))))


@contextmanager
def spooled(
    lake: Lake, session: SparkConnection, query: str, namespace: str | None = None
) -> Iterator[WrittenFiles]:
    """The same, by Spark alone where the warehouse is a folder."""
    if lake.is_elsewhere():
        with written(lake, session, query, namespace) as found:
            yield found
        return
    folder = f"{lake.staging_folder()}/{lake.prefix()}-{uuid4().hex[:12]}"
    try:
        yield write_parquet(session, query, Path(local_path(folder) or folder))
    finally:
        remove(lake, folder)


def _some_namespace(lake: Lake) -> str:
    """Spools may be in any: nobody sees them."""
    for name in lake.pointers.listing().namespaces.values():
        return name
    raise FailedPrecondition(f"lake {lake.name!r} has no schema for spools: CREATE SCHEMA first")


@contextmanager
def read(
    lake: Lake, session: SparkConnection, namespace: str, files: Sequence[DataFile]
) -> Iterator["DataFrame"]:
    """The rows of files that have `file_columns` and no field ids."""
    filesystem, path = lake.files.filesystem(files[0].location)
    arrow = pq.read_schema(path, filesystem=filesystem).remove_metadata()
    fields = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(arrow))
    schema = schema_of(session, fields.model_dump_json())
    mapping = static(session, "mapping.MappingUtil.create")(schema)
    text = static(session, "mapping.NameMappingParser.toJson")(mapping)
    with spool_table(lake, session, namespace, schema, {_NAME_MAPPING: text}) as (name, table):
        append = table.newAppend()
        for file in files:
            builder = static(session, "DataFiles.builder")(table.spec()).withPath(file.location)
            sized = builder.withFileSizeInBytes(lake.files.size(file.location))
            append.appendFile(sized.withFormat("PARQUET").withRecordCount(file.rows).build())
        append.commit()
        yield session.spark.table(name)


def files_of(table: Any) -> list[Any]:
    if table.currentSnapshot() is None:
        return []
    tasks = table.newScan().includeColumnStats().planFiles()
    try:
        found = []
        each = tasks.iterator()
        while each.hasNext():
            found.append(each.next().file().copy())
        return found
    finally:
        tasks.close()


def refuse_lost_files(lake: Lake, files: Sequence[Any], rows: int, folder: str) -> None:
    """The metadata may name files that are on another machine."""
    folders = {posixpath.dirname(str(file.location())) for file in files}
    there = {
        posixpath.basename(each)
        for each_folder in folders
        for each in lake.files.list_folder(each_folder, ".parquet")
    }
    seen = [file for file in files if posixpath.basename(str(file.location())) in there]
    refuse_lost(rows, sum(int(file.recordCount()) for file in seen), folder)


def as_optional(fields: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> str:
    """Spark refuses a column that may be NULL for one that may not, whatever is in it."""
    optional = [{**field, "required": False} for field in fields]
    return json.dumps({**schema, "fields": optional, "identifier-field-ids": []})
