"""Find files of a warehouse that no metadata refers to, without the code of the backend."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from jetbridge.duckdb_engine.lake_reader import LakeReader

CATALOG = "catalog.db"
# A server that runs keeps what it likes there.
LOGS, SERVERS, STAGING = ".jetbridge/logs", ".jetbridge/servers", ".jetbridge/staging"
BRANCHES = "jetbridge_"


def leftovers(warehouse: Path) -> list[str]:
    """Return unreferenced paths, branches of statements, and all servers but one."""
    reader = LakeReader([str(warehouse)])
    try:
        used: set[Path] = set()
        branches: list[str] = []
        for location in _current_metadata(warehouse).values():
            metadata = json.loads(_path(location).read_text())
            used |= set(_referenced(reader, location, metadata))
            branches += [name for name in metadata.get("refs", {}) if name.startswith(BRANCHES)]
    finally:
        reader.close()
    there = {path for path in warehouse.rglob("*") if path.is_file()}
    unused = [str(path.relative_to(warehouse)) for path in there if _base(path) not in used]
    servers = [path.name for path in (warehouse / SERVERS).iterdir() if not path.suffix]
    kept = (CATALOG, LOGS, SERVERS, *(f"{STAGING}/jetbridge-{name}-" for name in servers))
    left = sorted(name for name in unused if not name.startswith(kept))
    left += [f"branch {name}" for name in branches]
    return left + [f"server {name}" for name in servers[1:]]


def table_folder(warehouse: Path, schema: str, table: str) -> Path:
    return _path(_current_metadata(warehouse)[schema, table]).parents[1]


def _current_metadata(warehouse: Path) -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(warehouse / CATALOG)) as catalog:
        sql = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
        return {(schema, table): location for schema, table, location in catalog.execute(sql)}


def _referenced(reader: LakeReader, location: str, metadata: dict[str, Any]) -> Iterator[Path]:
    yield _path(location)
    for older in metadata.get("metadata-log", []):
        yield _path(older["metadata-file"])
    for statistics in metadata.get("statistics", []):
        yield _path(statistics["statistics-path"])
    seen: set[Path] = set()
    for snapshot in metadata.get("snapshots", []):
        listed = _path(snapshot["manifest-list"])
        yield listed
        sql = f"SELECT manifest_path FROM read_avro('{listed}')"
        manifests = {_path(each) for each in reader.query(sql).column(0).to_pylist()}
        yield from manifests
        for manifest in manifests - seen:
            yield from _entries(reader, manifest)
        seen |= manifests


def _entries(reader: LakeReader, manifest: Path) -> Iterator[Path]:
    """Return the entries of a manifest; status 2 marks a file that the snapshot has removed."""
    sql = f"SELECT data_file.file_path FROM read_avro('{manifest}') WHERE status <> 2"
    for path in reader.query(sql).column(0).to_pylist():
        yield _path(path)


def _path(location: str) -> Path:
    parsed = urlparse(location)
    return Path(parsed.path if parsed.scheme else location)


def _base(path: Path) -> Path:
    """Return the name of the file; Hadoop keeps the checksum of `name` in `.name.crc`."""
    name = path.name
    if name.startswith(".") and name.endswith(".crc"):
        return path.with_name(name[1 : -len(".crc")])
    return path
