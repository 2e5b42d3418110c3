"""A lake over recorded tables (`record.py`), with a real SQLite catalog and without Spark."""

import json
import shutil
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
def _reader(folder: Path) -> LakeReader:
    """One for all tests, which have folders of their own inside: it takes half a second to open."""
    return LakeReader([str(folder)])


@cache
def template(parent: Path) -> Path:
    """The recorded tables and a catalog that has them."""
    folder = parent / "recorded-lake"
    shutil.copytree(HERE / "recorded", folder / "recorded")
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}")
    catalog.create_namespace("s")
    with catalog.engine.begin() as connection:
        for table in sorted((folder / "recorded").iterdir()):
            newest = max(table.glob("metadata/*.metadata.json"))
            location = f"recorded/{table.name}/metadata/{newest.name}"
            connection.execute(_ADD, {"space": "s", "name": table.name, "location": location})
    catalog.close()
    return folder


class RecordedLake:
    def __init__(self, folder: Path, readable: Path) -> None:
        self.reader = _reader(readable)
        uri = f"sqlite:///{folder}/catalog.db"
        self.catalog = SqlCatalog("c", uri=uri, warehouse=f"{folder}", init_catalog_tables="false")
        engine = SparkEngine(log_file=folder / "spark.log")
        options = LakeOptions(str(folder), server="11111111")
        self.lake: Lake = open_lake(self.catalog, engine, self.reader, Files({}), options)

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
