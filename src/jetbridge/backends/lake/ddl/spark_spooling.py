"""CREATE TABLE AS on Spark: the files that Spark spools become those of the table.

Spark writes the rows into a table that nobody sees, whose data files lie where those of the new
table belong; then the new table appears with these files, in one step. A query that fails has made
nothing, and a task that is done again leaves no row twice: Iceberg takes only the files that the
successful tasks have reported.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from jetbridge.backends.lake.ddl.create_table import TableCreation, begin_create_table
from jetbridge.backends.lake.ddl.create_table_as import publish_or_abandon
from jetbridge.backends.lake.lake import Lake, executor_failures
from jetbridge.backends.lake.write.spool_tables import (
    as_optional,
    files_of,
    refuse_lost_files,
    remove,
    schema_of,
    spool_table,
)
from jetbridge.catalog import CreateTable, Filled
from jetbridge.dialects import spark as sql
from jetbridge.errors import ConstraintViolation
from jetbridge.spark.written_rows import rows_in_table

log = logging.getLogger(__name__)

# What Spark has to be told the type of, since it computes in another one.
_KEPT_AS = {"int": "INT", "string": "STRING"}


def create_on_spark(lake: Lake, namespace: str, request: CreateTable, query: str) -> Filled:
    with begin_create_table(lake, namespace, request) as made, _working(lake, made):
        # A folder of its own, so that it can go at once, whoever has written what into it.
        folder = f"{made.data_folder}/{lake.prefix()}-{uuid4().hex[:12]}"
        with _spool(lake, made, folder) as (name, table):
            try:
                files = _spooled(made, name, table, query)
            except BaseException:
                remove(lake, folder)
                raise
            publish_or_abandon(made, files, lambda: remove(lake, folder))
    return Filled(
        sum(int(file.recordCount()) for file in files),
        sum(int(file.fileSizeInBytes()) for file in files),
    )


def _spooled(made: TableCreation, name: str, table: Any, query: str) -> list[Any]:
    """The files that hold the rows of the query."""
    columns = [(f["name"], _KEPT_AS.get(str(f["type"]), "")) for f in made.fields]
    made.session.check_query(query)
    insert = made.session.sql(sql.fill(name, columns, query))
    table.refresh()
    files = files_of(table)
    refuse_lost_files(made.lake, files, rows_in_table(insert), made.data_folder)
    _refuse_null(made, files)
    return files


@contextmanager
def _working(lake: Lake, made: TableCreation) -> Iterator[None]:
    """If something went wrong, what Spark has left in the folder of the table is swept."""
    if made.there is not None:
        with lake.job(made.there):
            yield
        return
    # Until the table is there its whole folder is noted.
    began, before = time.time(), executor_failures(made.session)
    yield
    if executor_failures(made.session) - before:
        state = lake.load(made.namespace, made.name)
        lake.presence.doubt(state.identity, state.title(), began)


@contextmanager
def _spool(lake: Lake, made: TableCreation, data: str) -> Iterator[tuple[str, Any]]:
    schema = schema_of(made.session, as_optional(made.fields, made.schema))
    properties = {"write.data.path": data}
    with spool_table(lake, made.session, made.namespace, schema, properties) as (name, table):
        _keep_ids(table, schema)
        yield name, table


def _keep_ids(table: Any, schema: Any) -> None:
    """A new table numbers its columns anew; those of a table that is replaced have other ids."""
    if table.schema().asStruct().equals(schema.asStruct()):
        return
    operations = table.operations()
    base = operations.current()
    operations.commit(base, base.updateSchema(schema))
    table.refresh()


def _refuse_null(made: TableCreation, files: list[Any]) -> None:
    required = {f["id"]: f["name"] for f in made.fields if f["required"]}
    for file in files:
        nulls = dict(file.nullValueCounts() or {})
        for number, name in required.items():
            if nulls.get(number, 0):
                raise ConstraintViolation(f"NOT NULL constraint failed: {made.title}.{name}")
