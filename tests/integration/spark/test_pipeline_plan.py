"""Queries bound against empty tables: names, types and NOT NULL before anything runs."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.duckdb_engine.connection import DuckDBAccess
from jetbridge.duckdb_engine.planner import PlannerDatabase
from jetbridge.errors import BadRequest, NotFound
from jetbridge.pipeline.name_resolution import NameResolver, SearchPath
from jetbridge.pipeline.query.plan import Plan, bind_query
from tests.conformance.harness import insert

ID = pa.field("id", pa.int64(), nullable=False)
COLUMNS = pa.schema([ID, ("name", pa.string()), ("price", pa.decimal128(9, 2))])


@pytest.fixture(scope="module")
def catalogs() -> dict[str, MemoryCatalog]:
    made = {"memory": MemoryCatalog(), "Other lake": MemoryCatalog()}
    for catalog in made.values():
        schema = catalog.create_schema(SchemaInfo("shop"))
        insert(schema.create_table(CreateTable("Orders", COLUMNS)), {"id": [1], "name": ["a"]})
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    pq.write_table(pa.table({"n": [1]}), made / "n.parquet")
    return made


@pytest.fixture(scope="module")
def bench(catalogs: dict[str, MemoryCatalog], folder: Path) -> Iterator[PlannerDatabase]:
    made = PlannerDatabase(list(catalogs), DuckDBAccess(folders=[str(folder)]))
    yield made
    made.close()


@pytest.fixture
def planned(bench, catalogs):
    def run(query: str, columns: tuple[str, ...] = ()) -> Plan:
        with bench.connect() as desk:
            return bind_query(
                desk, NameResolver(catalogs, SearchPath("memory", "shop")), query, columns
            )

    return run


def test_columns_have_names_types_and_nullability(planned):
    found = planned("SELECT id, upper(name) AS u, price * 2 AS p, 1 AS one FROM memory.shop.orders")
    assert found.schema.names == ["id", "u", "p", "one"]
    assert found.types == ("BIGINT", "VARCHAR", "DECIMAL(18,2)", "INTEGER")
    assert [field.nullable for field in found.schema] == [False, True, True, False]
    assert list(found.sources) == [("memory", "shop", "orders")]


@pytest.mark.parametrize(
    "query",
    [
        "FROM orders",
        "FROM shop.orders",
        'FROM MEMORY."SHOP"."ORDERS"',
        'FROM "Other lake".shop.orders',
        "WITH orders AS (SELECT 1) SELECT * FROM shop.orders",
    ],
)
def test_names_may_be_short_and_spelled_in_any_case(planned, query):
    assert planned(query).schema.names == ["id", "name", "price"]


def test_tables_of_several_catalogs_are_joined(planned):
    query = 'SELECT a.id, b.name FROM orders a JOIN "other lake".shop.orders b USING (id)'
    assert sorted(planned(query).sources) == [
        ("Other lake", "shop", "orders"),
        ("memory", "shop", "orders"),
    ]


def test_exact_types_are_kept(planned):
    columns = "1::HUGEINT AS h, TRUE AS b, INTERVAL 1 DAY AS i, [1] AS l, '{}'::JSON AS j"
    found = planned(f"SELECT {columns}")
    assert found.types == ("HUGEINT", "BOOLEAN", "INTERVAL", "INTEGER[]", "JSON")
    assert "hugeint" in str(found.schema.field("h").type)


def test_other_names_for_columns(planned):
    assert planned("SELECT 1, 2", ("a", "b")).schema.names == ["a", "b"]
    with pytest.raises(BadRequest, match="names 3 columns, but the query has 2"):
        planned("SELECT 1, 2", ("a", "b", "c"))


@pytest.mark.parametrize(
    ("query", "error", "problem"),
    [
        ("SELECT nothing FROM orders", BadRequest, 'column "nothing" not found'),
        ("FROM memory.shop.nowhere", NotFound, "table 'memory.shop.nowhere' does not exist"),
        ("FROM nowhere.shop.orders", NotFound, "known: Other lake, memory"),
        ("FROM nowhere", NotFound, "nowhere"),
        ("SELECT sum(name) FROM orders", BadRequest, "sum"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(planned, query, error, problem):
    with pytest.raises(error, match=problem) as caught:
        planned(query)
    assert "\n" not in str(caught.value)


def test_files_are_read_where_that_is_allowed(planned, folder, tmp_path):
    assert planned(f"FROM read_parquet('{folder}/n.parquet')").types == ("BIGINT",)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "n.parquet")
    for query in (
        f"FROM read_parquet('{tmp_path}/n.parquet')",
        f"FROM '{tmp_path}/n.parquet'",
        "FROM read_text('/etc/hostname')",
        "FROM glob('/*')",
    ):
        with pytest.raises(BadRequest, match=r"(?i)permission|disabled|not allowed"):
            planned(query)


def test_what_a_statement_declared_is_gone_afterwards(bench, planned):
    planned("FROM orders")
    with bench.connect() as desk, pytest.raises(BaseException, match="orders"):
        desk.types("FROM memory.shop.orders")
