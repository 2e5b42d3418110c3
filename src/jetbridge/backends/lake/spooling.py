"""CREATE TABLE AS on Spark: the files that Spark spools become those of the table.

Spark writes the rows into a table that nobody sees, whose data files lie where those of the new
table belong; then the new table appears with these files, in one step. A query that fails has made
nothing, and a task that is done again leaves no row twice: Iceberg takes only the files that the
successful tasks have reported.
"""

import json
import logging
import posixpath
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from jetbridge.backends.lake.commit import identifier, static
from jetbridge.backends.lake.filling import published
from jetbridge.backends.lake.making import Making, making
from jetbridge.backends.lake.pointers import SPOOL
from jetbridge.backends.lake.store import Lake, mishaps
from jetbridge.cancellation import shielded
from jetbridge.catalog import CreateTable, Filled
from jetbridge.errors import ConstraintViolation
from jetbridge.spark.rows import refuse_lost, rows_in_table
from jetbridge.sqltext import spark as sql

log = logging.getLogger(__name__)

_PROPERTIES = {
    "format-version": "2",  # row ids come with the table itself
    "write.parquet.compression-codec": "zstd",
    "write.distribution-mode": "none",
    "write.metadata.metrics.default": "truncate(16)",  # also that of the hundredth column
}
# What Spark has to be told the type of, since it computes in another one.
_KEPT_AS = {"int": "INT", "string": "STRING"}


def create_on_spark(lake: Lake, namespace: str, request: CreateTable, query: str) -> Filled:
    with making(lake, namespace, request) as made, _working(lake, made):
        # A folder of its own, so that it can go at once, whoever has written what into it.
        folder = f"{made.data_folder}/{lake.prefix()}-{uuid4().hex[:12]}"
        with _spool(lake, made, folder) as (name, table):
            try:
                files = _spooled(made, name, table, query)
            except BaseException:
                _remove(lake, folder)
                raise
            published(made, files, lambda: _remove(lake, folder))
    return Filled(
        sum(int(file.recordCount()) for file in files),
        sum(int(file.fileSizeInBytes()) for file in files),
    )


def _spooled(made: Making, name: str, table: Any, query: str) -> list[Any]:
    """The files that hold the rows of the query."""
    columns = [(f["name"], _KEPT_AS.get(str(f["type"]), "")) for f in made.fields]
    parts = [made.lake.name, *made.namespace.split("."), name]
    made.session.check_query(query)
    insert = made.session.sql(sql.fill(sql.qualified(parts), columns, query))
    table.refresh()
    files = _files(table)
    _refuse_lost(made, files, rows_in_table(insert))
    _refuse_null(made, files)
    return files


def _refuse_lost(made: Making, files: list[Any], written: int) -> None:
    """The metadata may name files that are on another machine."""
    folders = {posixpath.dirname(str(file.location())) for file in files}
    there = {
        posixpath.basename(each)
        for folder in folders
        for each in made.lake.files.list_folder(folder, ".parquet")
    }
    seen = [file for file in files if posixpath.basename(str(file.location())) in there]
    refuse_lost(written, sum(int(file.recordCount()) for file in seen), made.data_folder)


def _remove(lake: Lake, folder: str) -> None:
    with suppress(OSError):  # else the sweeper removes it
        lake.files.delete_folder(folder)


@contextmanager
def _working(lake: Lake, made: Making) -> Iterator[None]:
    """If something went wrong, what Spark has left in the folder of the table is swept."""
    if made.there is not None:
        with lake.job(made.there):
            yield
        return
    # Until the table is there its whole folder is noted.
    began, before = time.time(), mishaps(made.session)
    yield
    if mishaps(made.session) - before:
        state = lake.load(made.namespace, made.name)
        lake.presence.doubt(state.identity, state.title(), began)


@contextmanager
def _spool(lake: Lake, made: Making, data: str) -> Iterator[tuple[str, Any]]:
    session, catalog = made.session, made.session.catalog(lake.name)
    name = f"{SPOOL}{lake.options.server}_{uuid4().hex[:12]}"
    lake.spools.add(name)
    place = identifier(session, made.namespace, name)
    folder = f"{lake.staging_folder()}/{lake.prefix()}-{uuid4().hex[:12]}"
    # Spark refuses a column that may be NULL for one that may not, whatever is in it.
    fields = [{**field, "required": False} for field in made.fields]
    schema = static(session, "SchemaParser.fromJson")(
        json.dumps({**made.schema, "fields": fields, "identifier-field-ids": []})
    )
    properties = {**_PROPERTIES, "write.data.path": data}
    builder = catalog.buildTable(place, schema).withProperties(properties)
    table = builder.withLocation(folder).create()
    try:
        _keep_ids(table, schema)
        yield name, table
    finally:
        _drop(lake, made.namespace, name)
        _remove(lake, folder)


def _drop(lake: Lake, namespace: str, name: str) -> None:
    lake.spools.discard(name)
    try:
        with shielded():
            lake.commits.drop(namespace, name)
    except Exception as error:
        log.warning("%s.%s is left for the sweeper: %s", namespace, name, str(error)[:200])
        lake.on_trouble()


def _keep_ids(table: Any, schema: Any) -> None:
    """A new table numbers its columns anew; those of a table that is replaced have other ids."""
    if table.schema().asStruct().equals(schema.asStruct()):
        return
    operations = table.operations()
    base = operations.current()
    operations.commit(base, base.updateSchema(schema))
    table.refresh()


def _files(table: Any) -> list[Any]:
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


def _refuse_null(made: Making, files: list[Any]) -> None:
    required = {f["id"]: f["name"] for f in made.fields if f["required"]}
    for file in files:
        nulls = dict(file.nullValueCounts() or {})
        for number, name in required.items():
            if nulls.get(number, 0):
                raise ConstraintViolation(f"NOT NULL constraint failed: {made.title}.{name}")
