"""The catalogs that keep track of a lake's tables: SQLite, PostgreSQL, and one behind REST."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.catalog import AsOf, AtUnit, CreateTable, OnConflict, RenameTable, SchemaInfo
from jetbridge.errors import BadRequest, Unavailable
from tests.conformance.harness import insert, rows
from tests.helpers.lakes import engine
from tests.integration.catalogs.postgres import (
    DATABASE,
    PASSWORD,
    USER,
    free_port,
    running_postgres,
)
from tests.integration.catalogs.rest_catalog import running_rest_catalog
from tests.integration.interop.session import assert_all_agree, run_session, spark_sql

pytestmark = pytest.mark.lake

COLUMNS = pa.schema([("id", pa.int64())])
LOGIN = {"jdbc.user": USER, "jdbc.password": PASSWORD}


def open_lake(folder: Path, uri: str = "", **properties: str) -> LakeCatalog:
    """Open a lake under a name that no other test has."""
    given = {**({"uri": uri} if uri else {}), **properties}
    return LakeCatalog(f"lake_{uuid4().hex[:8]}", folder / "warehouse", engine(), given)


def with_a_table(catalog: LakeCatalog) -> LakeCatalog:
    """Create s.t with one row."""
    schema = catalog.create_schema(SchemaInfo("s"))
    insert(schema.create_table(CreateTable("t", COLUMNS)), {"id": [1]})
    return catalog


def read(catalog: LakeCatalog) -> list[tuple[int]]:
    return rows(catalog.load_schema("s").load_table("t"))


def test_session_on_sqlite(tmp_path):
    run_session(open_lake(tmp_path))


def test_session_on_postgresql(tmp_path):
    with running_postgres() as server:
        run_session(open_lake(tmp_path, server.uri, **LOGIN))


@pytest.mark.full
def test_session_on_a_rest_catalog(tmp_path):
    with running_rest_catalog(tmp_path) as uri:
        run_session(open_lake(tmp_path, uri))


@pytest.mark.full
def test_postgresql_that_restarts_is_unavailable_meanwhile(tmp_path):
    with running_postgres() as server:
        catalog = with_a_table(open_lake(tmp_path, server.uri, **LOGIN))
        table = catalog.load_schema("s").load_table("t")
        server.stop()
        try:
            for call in (catalog.version, catalog.list_schemas, lambda: insert(table, {"id": [2]})):
                with pytest.raises(Unavailable, match="catalog does not answer.* try again") as err:
                    call()
                assert len(str(err.value)) < 500
                assert PASSWORD not in str(err.value)
        finally:
            server.start()
        assert read(catalog) == [(1,)]
        insert(table, {"id": [3]})
        assert read(catalog) == [(1,), (3,)]


def test_catalog_that_is_down_is_unavailable_and_its_password_is_nobodys_business(tmp_path):
    with pytest.raises(Unavailable, match="catalog does not answer") as caught:
        open_lake(tmp_path, f"jdbc:postgresql://127.0.0.1:{free_port()}/{DATABASE}", **LOGIN)
    assert PASSWORD not in str(caught.value)
    with pytest.raises(Unavailable, match="catalog does not answer"):
        open_lake(tmp_path, f"http://127.0.0.1:{free_port()}")


@pytest.mark.full
def test_rest_catalog_that_goes_away_is_unavailable(tmp_path):
    with running_rest_catalog(tmp_path) as uri:
        catalog = with_a_table(open_lake(tmp_path, uri))
        table = catalog.load_schema("s").load_table("t")
    calls = (catalog.version, lambda: catalog.load_schema("s"), lambda: insert(table, {"id": [2]}))
    for call in calls:
        with pytest.raises(Unavailable, match="catalog does not answer"):
            call()
    assert rows(table) == [(1,)]


@pytest.mark.full
def test_rest_catalog_whose_warehouse_is_a_name_needs_the_folder_of_its_tables(tmp_path):
    with running_rest_catalog(tmp_path) as uri:
        name = f"lake_{uuid4().hex[:8]}"
        with pytest.raises(BadRequest, match=r"name that folder in jetbridge\.folders"):
            LakeCatalog(name, "prod", engine(), {"uri": uri})
        folder = str(tmp_path / "warehouse")
        given = {"uri": uri, "jetbridge.folders": folder}
        catalog = with_a_table(LakeCatalog(name, "prod", engine(), given))
        assert read(catalog) == [(1,)]
        assert catalog.lake.warehouse.folder == folder
    assert not Path("prod").exists()


def test_nested_namespaces_of_a_rest_catalog_are_schemas(tmp_path):
    with running_rest_catalog(tmp_path) as uri:
        catalog = with_a_table(open_lake(tmp_path, uri))
        catalog.create_schema(SchemaInfo("s.inner"))
        spark_sql(f"CREATE TABLE {catalog.lake.name}.s.inner.deep AS SELECT 5 AS id")
        assert [each.info().name for each in catalog.list_schemas()] == ["s", "s.inner"]
        assert rows(catalog.load_schema("S.Inner").load_table("DEEP")) == [(5,)]
        catalog.load_schema("s.inner").load_table("deep").alter(RenameTable("deeper"))
        assert_all_agree(catalog, "s.inner", "deeper")


@contextmanager
def locked(catalog: LakeCatalog) -> Iterator[None]:
    """Lock the catalog's file as another process would."""
    file = Path(catalog.lake.warehouse.folder) / "catalog.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_statement_waits_for_a_locked_sqlite_file(tmp_path):
    catalog = with_a_table(open_lake(tmp_path, **{"jetbridge.busy-seconds": "30"}))
    table = catalog.load_schema("s").load_table("t")
    failed: list[BaseException] = []

    def statement() -> None:
        try:
            insert(table, {"id": [2]})
        except BaseException as error:
            failed.append(error)

    with locked(catalog):
        thread = threading.Thread(target=statement)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive()
    thread.join(60)
    assert failed == []
    assert read(catalog) == [(1,), (2,)]


def test_sqlite_file_that_stays_locked_is_unavailable_and_nothing_has_changed(tmp_path):
    catalog = with_a_table(open_lake(tmp_path, **{"jetbridge.busy-seconds": "0.3"}))
    schema = catalog.load_schema("s")
    table = schema.load_table("t")
    with locked(catalog):
        for statement in (
            lambda: insert(table, {"id": [2]}),
            lambda: schema.create_table(CreateTable("u", COLUMNS)),
            lambda: table.alter(RenameTable("v")),
            lambda: catalog.create_schema(SchemaInfo("other")),
            catalog.version,
        ):
            with pytest.raises(Unavailable, match="locked"):
                statement()
    assert [each.info().name for each in catalog.list_schemas()] == ["s"]
    assert [each.info().name for each in schema.list_tables()] == ["t"]
    assert read(catalog) == [(1,)]
    insert(table, {"id": [3]})
    assert_all_agree(catalog, "s", "t")


def test_sqlite_file_that_is_locked_in_the_moment_of_the_commit_is_unavailable(tmp_path):
    catalog = with_a_table(open_lake(tmp_path, **{"jetbridge.busy-seconds": "0.3"}))
    commits: Any = catalog.lake.publisher.committer
    change = commits.commit

    def while_locked(*given: object) -> None:
        with locked(catalog):
            change(*given)

    commits.commit = while_locked
    table = catalog.load_schema("s").load_table("t")
    with pytest.raises(Unavailable, match="locked"):
        insert(table, {"id": [2]})
    commits.commit = change
    insert(table, {"id": [3]})
    assert read(catalog) == [(1,), (3,)]


@pytest.mark.parametrize("seconds", ["soon", "-1", "4000", "nan"])
def test_wait_that_is_no_number_of_seconds_is_refused(tmp_path, seconds):
    with pytest.raises(BadRequest, match=r"jetbridge\.busy-seconds"):
        open_lake(tmp_path, **{"jetbridge.busy-seconds": seconds})


def test_a_relative_sqlite_file_is_the_same_for_all_engines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    catalog = with_a_table(open_lake(tmp_path, "jdbc:sqlite:here.db"))
    assert read(catalog) == [(1,)]
    assert (tmp_path / "here.db").is_file()


@pytest.mark.parametrize("name", ["p%20q", "p?q", "p[q]", "p{q}", "p*q"])
def test_a_folder_whose_name_means_something_else_is_refused(tmp_path, name):
    with pytest.raises(BadRequest, match="cannot hold a lake"):
        open_lake(tmp_path / name)


@pytest.mark.parametrize("name", ["a..b", ".", "..", ".a", "a.", "a\0b"])
def test_names_that_are_no_schema_are_refused(tmp_path, name):
    with pytest.raises(BadRequest, match="not a name for a schema"):
        open_lake(tmp_path).create_schema(SchemaInfo(name))


@pytest.mark.parametrize("name", ["jetbridge_file", "Jetbridge_0", "a\0b", "_row_id"])
def test_columns_that_nobody_could_read_are_refused(tmp_path, name):
    schema = open_lake(tmp_path).create_schema(SchemaInfo("s"))
    with pytest.raises(BadRequest, match="choose another"):
        schema.create_table(CreateTable("t", pa.schema([(name, pa.int64())])))


def test_versions_before_a_table_was_replaced_stay(tmp_path):
    schema = open_lake(tmp_path).create_schema(SchemaInfo("s"))
    insert(schema.create_table(CreateTable("t", COLUMNS)), {"id": [1]})
    other = pa.schema([("name", pa.string())])
    schema.create_table(CreateTable("t", other, on_conflict=OnConflict.REPLACE))
    insert(schema.load_table("t"), {"name": ["a"]})
    table = schema.load_table("t")
    past = table.at(AsOf(AtUnit.VERSION, "1"))
    assert (past.info().schema.names, rows(past)) == (
        COLUMNS.names,
        [(1, *[None] * (len(COLUMNS) - 1))],
    )
    assert rows(table.at(AsOf(AtUnit.VERSION, "2"))) == []
    assert rows(table.at(AsOf(AtUnit.VERSION, str(table.info().version)))) == [("a",)]
