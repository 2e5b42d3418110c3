"""A process that is killed in the middle of a statement: `lake_victim.py WAREHOUSE WHAT`.

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
from tests import lakes
from tests.conformance.harness import insert, rowids, update

ROWS = pa.record_batch({"id": pa.array(range(100, 300_100)), "v": pa.array([0.5] * 300_000)})


def main(name: str, warehouse: Path, what: str) -> None:
    catalog = LakeCatalog(name, warehouse, lakes.engine())
    STATEMENTS[what](catalog.load_schema("s"))
    raise AssertionError("it should have been killed")


def stop(*_: Any, **__: Any) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


def before_commit(schema: Any) -> None:
    """Files and vectors are complete; Java is asked, and its manifests are there."""
    IcebergCommitter._write = stop_after(IcebergCommitter._write)  # type: ignore[method-assign]
    table = schema.load_table("plain")
    update(table, {"v": [9.0], "rowid": rowids(table, "id", 1)})


def stop_after(call: Any) -> Any:
    def called(*arguments: Any, **options: Any) -> None:
        call(*arguments, **options)
        stop()

    return called


def in_job(schema: Any) -> None:
    """Spark has written its files and committed them to a branch."""
    spark_writes._move_main = stop
    insert(schema.load_table("laid"), ROWS)


def in_create(schema: Any) -> None:
    TableCreation.publish = stop_after(TableCreation.publish)  # type: ignore[method-assign]
    schema.create_table(CreateTable("half", ROWS.schema))


def in_compaction(schema: Any) -> None:
    """Spark has joined the files; its commit waits for the catalog, which we have locked."""
    lake = schema._lake
    folder = Path(lake.tables.load("s", "many").data_folder)
    before = set(folder.iterdir())
    catalog = sqlite3.connect(Path(lake.warehouse.folder) / "catalog.db", isolation_level=None)
    catalog.execute("BEGIN IMMEDIATE")

    def watch() -> None:
        while not any(path.suffix == ".parquet" for path in set(folder.iterdir()) - before):
            time.sleep(0.05)
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
