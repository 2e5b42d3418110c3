"""Serve a folder of Parquet files to DuckDB, read-only: each subfolder is a schema.

Run:  python examples/parquet_folder.py FOLDER
Then: ATTACH 'files' AS f (TYPE airport, LOCATION 'grpc://127.0.0.1:8815');
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

import jetbridge
from jetbridge.catalog import CatalogVersion, SchemaInfo, TableInfo
from jetbridge.errors import NotFound


@dataclass(frozen=True)
class ParquetTable:
    path: Path

    def info(self):
        return TableInfo(self.path.stem, pq.read_schema(self.path).remove_metadata())

    def scan(self, request):
        columns = None if request.columns is None else list(request.columns)
        with pq.ParquetFile(self.path) as file:
            yield from file.iter_batches(columns=columns)


@dataclass(frozen=True)
class Folder:
    path: Path

    def info(self):
        return SchemaInfo(self.path.name)

    def list_tables(self):
        return [ParquetTable(path) for path in sorted(self.path.glob("*.parquet"))]

    def load_table(self, name):
        return find(self.list_tables(), "table", name)


@dataclass(frozen=True)
class ParquetFolder:
    path: Path

    def list_schemas(self):
        return [Folder(path) for path in sorted(self.path.iterdir()) if path.is_dir()]

    def load_schema(self, name):
        return find(self.list_schemas(), "schema", name)

    def version(self):
        return CatalogVersion(1, fixed=True)


def find(items, kind, name):
    for item in items:
        if item.info().name.casefold() == name.casefold():
            return item
    raise NotFound(kind, name)


if __name__ == "__main__":
    with jetbridge.serve({"files": ParquetFolder(Path(sys.argv[1]))}) as server:
        sys.stdout.write(f"listening on {server.location}\n")
        sys.stdout.flush()
        server.wait()
