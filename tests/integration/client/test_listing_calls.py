"""What a catalog is asked when a client attaches: one listing, of one moment."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.types import LongType
from sqlalchemy import event

from jetbridge.app.compose import Application, build_application, serve
from jetbridge.app.run_function import with_run_function
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CatalogVersion, CreateTable, SchemaInfo
from jetbridge.client import connect
from jetbridge.config import Config, ServerConfig
from tests.helpers.wire_calls import Wire
from tests.integration.catalogs.rest_stand_in import rest_stand_in

SCHEMAS, TABLES = ("a", "b", "c"), ("t", "u")
HEADERS = [("airport-catalog", "lake"), ("airport-user-agent", "airport/20250723")]


def fill(catalog: IcebergCatalog) -> None:
    """Create three schemas of two tables."""
    for schema in SCHEMAS:
        catalog.create_namespace(schema, {"comment": f"all about {schema}"})
        for table in TABLES:
            catalog.create_table(f"{schema}.{table}", pa.schema([("id", pa.int64())]))


@contextmanager
def serving(warehouse: Path, **properties: str) -> Iterator[Application]:
    """Provide a lake with `run`, as `jetbridge serve` has it; Spark is not started."""
    lake = LakeConfig("lake", warehouse=str(warehouse), properties=properties)
    config = Config(server=ServerConfig(port=0), catalogs={"lake": lake})
    app = build_application(config)
    app.server.start()
    try:
        yield app
    finally:
        app.close(1.0)


def attach(location: str) -> None:
    """List all schemas, and look at what came."""
    with connect(location, "lake") as client:
        found = {
            schema.name: (schema.comment, [table.name for table in schema.tables])
            for schema in client.list_schemas()
        }
    assert found.pop("jetbridge")[1] == []
    assert found == {name: (f"all about {name}", list(TABLES)) for name in SCHEMAS}


def version(location: str) -> None:
    with Wire(location) as wire:
        answer = wire.action("catalog_version", {"catalog_name": "lake"}, HEADERS)
    assert answer.status == "OK", answer.message


def lake_of(app: Application) -> LakeCatalog:
    (lake,) = app.catalogs.values()
    assert isinstance(lake, LakeCatalog)
    return lake


def reads_of(lake: LakeCatalog, monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """Count the metadata files that the lake reads from now on."""
    read: Counter[str] = Counter()
    read_file = lake.lake.read.files.read

    def counting(location: str) -> bytes:
        read[location] += 1
        return read_file(location)

    monkeypatch.setattr(lake.lake.read.files, "read", counting)
    return read


def test_a_database_is_asked_once_for_all_tables_and_all_schemas(tmp_path, monkeypatch):
    with serving(tmp_path / "warehouse") as app:
        lake = lake_of(app)
        behind: Any = lake.lake.iceberg
        fill(behind)
        read = reads_of(lake, monkeypatch)
        asked: Counter[str] = Counter()

        @event.listens_for(behind.engine, "before_cursor_execute")
        def count(_: object, __: object, statement: str, *___: object) -> None:
            asked["tables" if "iceberg_tables" in statement else "schemas"] += 1

        attach(app.server.location)
        assert asked == {"tables": 1, "schemas": 1}
        assert sorted(read.values()) == [1] * 6


def test_a_rest_catalog_is_asked_once_for_each_table_and_each_schema(tmp_path, monkeypatch):
    with rest_stand_in(tmp_path) as (uri, behind, asked):
        fill(behind)
        with serving(tmp_path / "warehouse", uri=uri) as app:
            read = reads_of(lake_of(app), monkeypatch)
            asked.clear()
            attach(app.server.location)
            # Namespaces are asked for level by level.
            assert asked == {"namespaces": 4, "tables": 3, "properties": 3, "table": 6}
            assert sorted(read.values()) == [1] * 6
            asked.clear()
            version(app.server.location)
            assert asked == {"namespaces": 4, "tables": 3}


def test_version_of_a_rest_catalog_rises_with_the_ddl_of_others(tmp_path):
    with rest_stand_in(tmp_path) as (uri, behind, _):
        fill(behind)
        with serving(tmp_path / "warehouse", uri=uri) as app:
            lake = lake_of(app)
            numbers = [lake.version().number]
            behind.create_table("a.new", pa.schema([("id", pa.int64())]))
            numbers.append(lake.version().number)
            behind.rename_table("a.new", "a.other")
            numbers.append(lake.version().number)
            behind.drop_table("a.other")
            numbers.append(lake.version().number)
            behind.create_namespace("d")
            numbers.append(lake.version().number)
            with behind.load_table("b.t").update_schema() as update:
                update.add_column("more", LongType())
            lake.load_schema("b").load_table("t")  # as every statement that uses it
            numbers.append(lake.version().number)
        assert numbers == sorted(set(numbers))


class CountedMemory(MemoryCatalog):
    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def snapshot(self) -> Any:
        self.asked["snapshot"] += 1
        return super().snapshot()

    def list_schemas(self) -> Any:
        self.asked["schemas"] += 1
        return super().list_schemas()

    def version(self) -> CatalogVersion:
        self.asked["version"] += 1
        return super().version()


def test_a_catalog_in_memory_is_listed_at_one_moment():
    catalog = CountedMemory()
    for name in SCHEMAS:
        schema = catalog.create_schema(SchemaInfo(name, f"all about {name}"))
        for table in TABLES:
            schema.create_table(CreateTable(table, pa.schema([("id", pa.int64())])))

    def execute(*_: object) -> Iterator[dict[str, Any]]:
        raise AssertionError

    with serve({"lake": with_run_function(catalog, "lake", execute)}, port=0) as server:
        attach(server.location)
        assert catalog.asked == {"snapshot": 1}
        catalog.asked.clear()
        with connect(server.location, "lake") as client:
            assert [table.name for table in client.list_flights("a")] == list(TABLES)
