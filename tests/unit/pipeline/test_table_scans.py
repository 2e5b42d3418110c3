"""A query that copies a table reads only the columns and rows that it needs."""

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, Scan, SchemaInfo
from jetbridge.dialects.duckdb.predicates import render
from jetbridge.expr import Column, IsNull
from jetbridge.pipeline.query.table_scans import TableScan, read_scans
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session

COLUMNS = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("d", pa.date32()), ("price", pa.decimal128(9, 2))]
)


class RecordingCatalog:
    """Record the scans of one table."""

    def __init__(self) -> None:
        inner = MemoryCatalog()
        inner.create_schema(SchemaInfo("s"))
        inner.load_schema("s").create_table(CreateTable("t", COLUMNS))
        self.inner, self.scans = inner, list[Scan]()
        self.list_schemas, self.version = inner.list_schemas, inner.version

    def load_schema(self, name):
        return RecordingSchema(self, self.inner.load_schema(name))


class RecordingSchema:
    def __init__(self, owner, inner) -> None:
        self.info, self.list_tables = inner.info, inner.list_tables
        self._owner, self._inner = owner, inner

    def load_table(self, name):
        return RecordingTable(self._owner, self._inner.load_table(name))


class RecordingTable:
    def __init__(self, owner, inner) -> None:
        self.info = inner.info
        self._owner, self._inner = owner, inner

    def scan(self, request):
        self._owner.scans.append(request)
        return self._inner.scan(request)


@pytest.fixture(scope="module")
def recording():
    catalog = RecordingCatalog()
    session = Session({"c": catalog})
    yield catalog, session
    session.close()


@pytest.fixture
def scans_of(recording):
    catalog, session = recording

    def scan(query: str) -> list[Scan]:
        catalog.scans.clear()
        for outcome in run(session, query):
            outcome.table()
        return list(catalog.scans)

    return scan


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
def test_columns_and_conditions(scans_of, query, columns, condition):
    (scan,) = scans_of(query)
    assert scan.columns == columns
    assert (None if scan.filter is None else render(scan.filter)) == condition


def test_several_conditions_of_several_types(scans_of):
    (scan,) = scans_of(
        "SELECT name FROM c.s.t WHERE d >= DATE '2020-01-01' AND price < 2.5 AND id IN (1, 5, 9)"
    )
    assert scan.filter is not None
    text = render(scan.filter)
    assert "2020-01-01" in text
    assert "2.50" in text
    assert '"id" IN' in text


def test_a_table_that_is_read_twice_is_asked_for_both(scans_of):
    (scan,) = scans_of(
        "SELECT id FROM c.s.t WHERE id = 1 UNION ALL SELECT id FROM c.s.t WHERE id = 2"
    )
    assert scan.filter is not None
    assert " OR " in render(scan.filter)
    (scan,) = scans_of("SELECT id FROM c.s.t WHERE id = 1 UNION ALL SELECT id FROM c.s.t")
    assert scan.filter is None


NOT_NULL = {"filter_type": "IS_NOT_NULL"}
NODE = {
    "names": ["id", "name"],
    "column_indexes": [{"index": 1}],
    "table_filters": {"filters": [{"key": 0, "value": NOT_NULL}]},
}


def test_scan_of_a_plan_has_columns_and_filters():
    assert read_scans([NODE]) == TableScan(("name",), IsNull(Column("id"), negated=True))
    whole = {**NODE, "column_indexes": [{"index": 0}], "table_filters": {"filters": []}}
    assert read_scans([NODE, whole]) == TableScan(("name", "id"))


@pytest.mark.parametrize(
    "change",
    [
        {"names": None},
        {"names": [1, 2]},
        {"column_indexes": [{}]},
        {"column_indexes": [1]},
        {"table_filters": []},
        {"table_filters": {"filters": [{"key": "0", "value": NOT_NULL}]}},
        {"table_filters": {"filters": [{"key": 0, "value": "IS_NOT_NULL"}]}},
    ],
)
def test_plan_that_cannot_be_read_needs_the_whole_table(change):
    assert read_scans([NODE, {**NODE, **change}]) is None
    assert read_scans([{key: value for key, value in NODE.items() if key not in change}]) is None
