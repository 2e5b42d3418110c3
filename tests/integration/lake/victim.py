"""A process that is killed in the middle of a statement: `victim.py WAREHOUSE WHAT`.

It says "ready" when files are written and nothing is committed yet, and then waits to be killed.
"""

import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.ddl.create_table import TableCreation
from jetbridge.backends.lake.maintenance.optimize import optimize
from jetbridge.backends.lake.write import spark_writes
from jetbridge.backends.lake.write.commit import IcebergCommitter
from jetbridge.catalog import CreateTable
from tests.conformance.harness import insert, rowids, update
from tests.helpers import lakes
from tests.helpers.waiting import wait_until

ROWS = pa.record_batch({"id": pa.array(range(100, 300_100)), "v": pa.array([0.5] * 300_000)})


def main(name: str, warehouse: Path, what: str) -> None:
    catalog = LakeCatalog(name, warehouse, lakes.engine())
    STATEMENTS[what](catalog.load_schema("s"))
    raise AssertionError("it should have been killed")


def stop(*_: Any, **__: Any) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)  # until it is killed


def before_commit(schema: Any) -> None:
    """Stop when files and vectors are complete, and Java has written the manifests."""
    IcebergCommitter._write = stop_after(IcebergCommitter._write)  # type: ignore[method-assign]
    table = schema.load_table("plain")
    update(table, {"v": [9.0], "rowid": rowids(table, "id", 1)})


def stop_after(call: Any) -> Any:
    def called(*arguments: Any, **options: Any) -> None:
        call(*arguments, **options)
        stop()

    return called


def in_job(schema: Any) -> None:
    """Stop when Spark has written its files and committed them to a branch."""
    spark_writes._move_main = stop
    insert(schema.load_table("laid"), ROWS)


def in_create(schema: Any) -> None:
    TableCreation.publish = stop_after(TableCreation.publish)  # type: ignore[method-assign]
    schema.create_table(CreateTable("half", ROWS.schema))


def in_compaction(schema: Any) -> None:
    """Stop when Spark has joined the files; its commit waits for the catalog, which we lock."""
    lake = schema._lake
    folder = Path(lake.tables.load("s", "many").data_folder)
    before = set(folder.iterdir())
    catalog = sqlite3.connect(Path(lake.warehouse.folder) / "catalog.db", isolation_level=None)
    catalog.execute("BEGIN IMMEDIATE")

    def watch() -> None:
        wait_until(lambda: {path.suffix for path in set(folder.iterdir()) - before} & {".parquet"})
        stop()

    threading.Thread(target=watch, daemon=True).start()
    optimize(lake, "s", "many")


STATEMENTS = {
    "commit": before_commit,
    "job": in_job,
    "create": in_create,
    "compaction": in_compaction,
}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
