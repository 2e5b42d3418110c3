"""What is sent to Babelfish, which has no MERGE, no dates of changes, and folded names."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.catalog import MERGE_ACTION, DMLOptions, Scan
from jetbridge.dialects.tsql import statements
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql

TABLE = (
    "CREATE TABLE dbo.Things (Id int IDENTITY(10,5) PRIMARY KEY, name nvarchar(50) NOT NULL, "
    "kind nvarchar(10) DEFAULT N'new', u uniqueidentifier, UNIQUE (name))"
)


@pytest.fixture
def catalog(monkeypatch) -> Iterator[MssqlCatalog]:
    """Provide a catalog whose server says that it is Babelfish."""
    monkeypatch.setattr(ConnectionPool, "is_babelfish", lambda _: True)
    made = mssql_server.new_catalog()
    run(made, TABLE)
    yield made
    made.close()


def run(catalog: MssqlCatalog, sql: str) -> list[tuple[object, ...]]:
    with catalog.database.server.borrow_core() as connection:
        return connection.run(sql)


def things(catalog: MssqlCatalog):
    return catalog.load_schema("dbo").load_table("things")


def rows(catalog: MssqlCatalog) -> list[tuple[object, ...]]:
    found = pa.Table.from_batches(things(catalog).scan(Scan(("Id", "name", "kind"))))
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def insert(catalog: MssqlCatalog, *names: str):
    with things(catalog).inserting(DMLOptions(returning=True)) as write:
        return write(pa.record_batch({"name": list(names)})).returning_data


def test_rows_come_back_in_their_order(catalog):
    told = insert(catalog, "cyd", "ann", "bob")
    assert told.column("Id").to_pylist() == [10, 15, 20]
    assert told.column("name").to_pylist() == ["cyd", "ann", "bob"]
    assert told.column("kind").to_pylist() == ["new"] * 3
    if mssql_server.is_given():  # it refuses identity values together with OUTPUT INTO
        return
    given = pa.record_batch({"Id": pa.array([7], pa.int32()), "name": ["eve"]})
    with things(catalog).inserting(DMLOptions(returning=True)) as write:
        assert write(given).returning_data.column("Id").to_pylist() == [7]
    assert [name for _, name, _ in rows(catalog)] == ["eve", "cyd", "ann", "bob"]


def test_merge_is_several_statements(catalog, core_texts):
    insert(catalog, "ann", "bob", "cyd")
    core_texts.clear()
    merged = pa.record_batch(
        {
            MERGE_ACTION: ["DELETE", "UPDATE", "INSERT"],
            "rowid": pa.array([10, 15, None], pa.int64()),
            "Id": pa.array([10, 15, None], pa.int32()),
            "name": ["ann", "bob", "ann"],
            "kind": ["new", "old", "x"],
            "u": pa.nulls(3, pa.uuid()),
        }
    )
    with things(catalog).merging() as write:
        write(merged)
    changes = [
        sql.split()[0] for sql in core_texts if "[Things]" in sql and "SELECT" not in sql[:6]
    ]
    assert changes == ["DELETE", "UPDATE", "INSERT"]
    assert rows(catalog) == [(15, "bob", "old"), (20, "cyd", "new"), (25, "ann", "x")]


def test_names_are_as_they_were_given(catalog):
    info = things(catalog).info()
    assert (info.name, info.schema.names) == ("Things", ["Id", "name", "kind", "u"])
    assert [key.columns for key in info.keys] == [("Id",), ("name",)]


def test_names_of_views_in_lower_case_are_spelled_again(catalog, monkeypatch):
    lower = statements.COLUMNS_OF_ONE.replace("o.name, o.type", "LOWER(o.name), o.type")
    monkeypatch.setattr(
        statements, "COLUMNS_OF_ONE", lower.replace("126), c.name", "126), LOWER(c.name)")
    )
    monkeypatch.setattr(
        statements,
        "KEYS_OF_ONE",
        statements.KEYS_OF_ONE.replace("END, c.name", "END, LOWER(c.name)"),
    )
    test_names_are_as_they_were_given(catalog)
