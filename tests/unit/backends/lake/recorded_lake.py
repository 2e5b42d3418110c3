"""A lake over recorded tables (`record.py`), with a real SQLite catalog and without Spark."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import text

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.lake import Lake, open_lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.spark.engine import SparkEngine

HERE = Path(__file__).resolve().parent
_ADD = text("INSERT INTO iceberg_tables VALUES ('c', :space, :name, :location, NULL, 'TABLE')")
_MOVE = text(
    "UPDATE iceberg_tables SET metadata_location = :location "
    "WHERE table_namespace = :space AND table_name = :name"
)
_RENAME = text("UPDATE iceberg_tables SET table_name = :new WHERE table_name = :name")
_REMOVE = text("DELETE FROM iceberg_tables WHERE table_name = :name")


@cache
def reader() -> LakeReader:
    """It takes half a second to open."""
    return LakeReader(["recorded"])


class RecordedLake:
    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}")
        self.catalog.create_namespace("s")
        engine = SparkEngine(log_file=folder / "spark.log")
        options = LakeOptions(str(folder), server="11111111")
        self.lake: Lake = open_lake(self.catalog, engine, reader(), Files({}), options)
        for name in ("plain", "laid_out"):
            self.add(name, self.metadata_files(name)[-1])

    def close(self) -> None:
        self.lake.warehouse.close()
        self.catalog.close()

    @staticmethod
    def metadata_files(name: str) -> list[str]:
        """The metadata files of a table, the oldest first."""
        return sorted(map(str, Path("recorded", name, "metadata").glob("*.metadata.json")))

    def add(self, name: str, location: str, space: str = "s") -> None:
        self._execute(_ADD, space=space, name=name, location=location)

    def move(self, name: str, location: str) -> None:
        """Do what a commit of another engine does."""
        self._execute(_MOVE, space="s", name=name, location=location)

    def rename(self, name: str, new: str) -> None:
        self._execute(_RENAME, name=name, new=new)

    def remove(self, name: str) -> None:
        self._execute(_REMOVE, name=name)

    def _execute(self, statement: Any, **values: str) -> None:
        with self.catalog.engine.begin() as connection:
            connection.execute(statement, values)

    def state(self, name: str, version: int | None = None) -> TableState:
        """The state of a table; `version` is the number of its metadata file."""
        if version is not None:
            self.move(name, self.metadata_files(name)[version])
        return self.lake.tables.load("s", name)

    def change(self, name: str, **changes: Any) -> TableState:
        """Write another metadata file with some keys changed, and make it the current one."""
        location = self.lake.tables.load("s", name).location
        document = json.loads(Path(location).read_text()) | changes
        document["last-updated-ms"] += 1
        new = location.replace(".metadata.json", "-x.metadata.json")
        Path(new).write_text(json.dumps(document))
        self.move(name, new)
        return self.lake.tables.load("s", name)
