"""What a query needs of the tables that are copied for it."""

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, Scan, SchemaInfo
from jetbridge.dialects.duckdb.predicates import render
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session

COLUMNS = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("d", pa.date32()), ("price", pa.decimal128(9, 2))]
)


class Watched:
    """A catalog of one table that remembers what it was asked."""

    def __init__(self) -> None:
        inner = MemoryCatalog()
        inner.create_schema(SchemaInfo("s"))
        inner.load_schema("s").create_table(CreateTable("t", COLUMNS))
        self.inner, self.asked = inner, list[Scan]()
        self.list_schemas, self.version = inner.list_schemas, inner.version

    def load_schema(self, name):
        return WatchedSchema(self, self.inner.load_schema(name))


class WatchedSchema:
    def __init__(self, owner, inner) -> None:
        self.info, self.list_tables = inner.info, inner.list_tables
        self._owner, self._inner = owner, inner

    def load_table(self, name):
        return WatchedTable(self._owner, self._inner.load_table(name))


class WatchedTable:
    def __init__(self, owner, inner) -> None:
        self.info = inner.info
        self._owner, self._inner = owner, inner

    def scan(self, request):
        self._owner.asked.append(request)
        return self._inner.scan(request)


@pytest.fixture(scope="module")
def watched():
    catalog = Watched()
    session = Session({"c": catalog})
    yield catalog, session
    session.close()


@pytest.fixture
def asked(watched):
    catalog, session = watched

    def ask(query: str) -> list[Scan]:
        catalog.asked.clear()
        for outcome in run(session, query):
            outcome.table()
        return list(catalog.asked)

    return ask


@pytest.mark.parametrize(
    ("query", "columns", "condition"),
    [
        ("SELECT name FROM c.s.t", ("name",), None),
        ("SELECT count(*) FROM c.s.t", ("id",), None),
        ("FROM c.s.t", ("id", "name", "d", "price"), None),
        (
            "SELECT name FROM c.s.t WHERE id > 5",
            ("id", "name"),
            """("id" > CAST('5' AS INTEGER))""",
        ),
        (
            "USE c.s; SELECT name FROM t WHERE id = 5",
            ("id", "name"),
            """("id" = CAST('5' AS INTEGER))""",
        ),
        (
            "SELECT name FROM c.s.t WHERE id = 5 ORDER BY name LIMIT 3",
            ("id", "name"),
            """("id" = CAST('5' AS INTEGER))""",
        ),
        (
            "SELECT name FROM c.s.t WHERE id = 5 LIMIT 3",
            ("id", "name"),
            """("id" = CAST('5' AS INTEGER))""",
        ),
        ("SELECT id FROM c.s.t WHERE name LIKE '%x'", ("id", "name"), None),
    ],
)
def test_columns_and_conditions(asked, query, columns, condition):
    (scan,) = asked(query)
    assert scan.columns == columns
    assert (None if scan.filter is None else render(scan.filter)) == condition


def test_several_conditions_of_several_types(asked):
    (scan,) = asked(
        "SELECT name FROM c.s.t WHERE d >= DATE '2020-01-01' AND price < 2.5 AND id IN (1, 5, 9)"
    )
    assert scan.filter is not None
    text = render(scan.filter)
    assert "2020-01-01" in text
    assert "2.50" in text
    assert '"id" IN' in text


def test_a_table_that_is_read_twice_is_asked_for_both(asked):
    (scan,) = asked("SELECT id FROM c.s.t WHERE id = 1 UNION ALL SELECT id FROM c.s.t WHERE id = 2")
    assert scan.filter is not None
    assert " OR " in render(scan.filter)
    (scan,) = asked("SELECT id FROM c.s.t WHERE id = 1 UNION ALL SELECT id FROM c.s.t")
    assert scan.filter is None
