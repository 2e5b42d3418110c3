"""MERGE INTO with all its WHEN clauses: tables do what DuckDB does to one of its own."""

import duckdb
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import DMLOptions, Scan
from jetbridge.errors import BadRequest, Conflict, ConstraintViolation, DuplicateKey, NotSupported
from jetbridge.expr import Column, Comparison, Constant
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from tests.pipeline.targets import bench

TARGET = "VALUES (1, 'a', 1.0::DOUBLE), (2, 'b', 2.0), (3, NULL, NULL), (4, 'd', 4.0)"
SOURCE = "VALUES (1, 'A', 10.0::DOUBLE), (3, 'C', 30.0), (5, 'E', 50.0), (6, NULL, 60.0)"
COLUMNS = "(id, name, price)"

MERGES = [
    "USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name",
    "USING s USING (id) WHEN MATCHED THEN UPDATE SET price = t.price + s.price, name = 'x'",
    "USING s USING (id) WHEN MATCHED THEN DELETE",
    "USING s USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT",
    "USING s USING (id) WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "USING s USING (id) WHEN MATCHED THEN UPDATE BY NAME WHEN NOT MATCHED THEN INSERT BY NAME",
    "USING s USING (id) WHEN NOT MATCHED THEN INSERT (name, id) VALUES (s.name || '!', s.id)",
    "USING s USING (id) WHEN NOT MATCHED BY TARGET AND s.price > 55 THEN INSERT (id) VALUES (s.id)",
    "USING s USING (id) WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "USING s USING (id) WHEN NOT MATCHED BY SOURCE AND price > 3 "
    "THEN UPDATE SET name = name || '?'",
    "USING s USING (id) WHEN MATCHED AND s.price > 20 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET name = 'first' "
    "WHEN NOT MATCHED AND s.name IS NULL THEN DO NOTHING "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, NULL) "
    "WHEN NOT MATCHED BY SOURCE AND id = 4 THEN DELETE",
    "USING (SELECT id + 1 AS id, name FROM s) AS q ON t.id = q.id "
    "WHEN MATCHED THEN UPDATE SET name = q.name",
    "USING (VALUES (2, 'two'), (9, 'nine')) AS v(id, n) USING (id) "
    "WHEN MATCHED THEN UPDATE SET name = v.n "
    "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (v.id, v.n)",
    "USING s ON t.id = s.id AND s.price > (SELECT avg(price) FROM s) WHEN MATCHED THEN DELETE",
    "USING s USING (id) WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
]


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=getattr(pytest.mark, n)) for n in ("lake", "mssql")],
)
def merging(request):
    with bench(request.param) as made:
        made.sql("USE t.dbo")
        yield made


@pytest.fixture
def tables(merging):
    merging.sql(f"CREATE OR REPLACE TABLE t.dbo.t AS FROM ({TARGET}) AS v{COLUMNS}")
    merging.sql(f"CREATE OR REPLACE TABLE t.dbo.s AS FROM ({SOURCE}) AS v{COLUMNS}")
    merging.keyed("t")
    return merging


@pytest.mark.sampled(4)
@pytest.mark.parametrize("merge", MERGES)
def test_it_does_what_duckdb_does(tables, merge):
    if tables.kind == "mssql" and "DEFAULT VALUES" in merge:
        with pytest.raises(ConstraintViolation):  # the key has no default
            tables.sql(f"MERGE INTO t {merge}")
        return
    reference = duckdb.connect()
    reference.execute(f"CREATE TABLE t AS FROM ({TARGET}) AS v{COLUMNS}")
    reference.execute(f"CREATE TABLE s AS FROM ({SOURCE}) AS v{COLUMNS}")
    expected = reference.execute(f"MERGE INTO t {merge}").fetchall()[0][0]
    report = tables.report(f"MERGE INTO t {merge}")
    assert report["rows_written"] == expected
    wanted = reference.execute("FROM t ORDER BY ALL").fetchall()
    assert tables.rows("FROM t ORDER BY ALL") == wanted


def test_returning_tells_what_was_done(tables):
    found = tables.rows(
        "MERGE INTO t AS x USING s USING (id) WHEN MATCHED AND x.id = 1 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT "
        "RETURNING merge_action, x.id, name"
    )
    assert sorted(found) == [
        ("DELETE", 1, "a"),
        ("INSERT", 5, "E"),
        ("INSERT", 6, None),
        ("UPDATE", 3, "C"),
    ]


def test_returning_changes_nothing_of_the_report(tables):
    text = "MERGE INTO t USING s USING (id) WHEN MATCHED THEN DELETE RETURNING id"
    (outcome,) = run(tables.session, text)
    assert outcome.report is not None
    assert (outcome.report.statement, outcome.report.target) == ("MERGE INTO", "t.dbo.t")
    assert outcome.report.rows_written == 2
    assert sorted(outcome.table().to_pydict()["id"]) == [1, 3]


@pytest.mark.parametrize("merging", [pytest.param("lake", marks=pytest.mark.lake)], indirect=True)
def test_it_is_one_version(tables):
    table = tables.catalog.load_schema("dbo").load_table("t")
    tables.sql(
        "MERGE INTO t USING s USING (id) WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT"
    )
    after = tables.catalog.load_schema("dbo").load_table("t")
    assert after.info().version == table.info().version + 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("merge", "error", "problem"),
    [
        (
            "USING (VALUES (1), (1)) AS v(id) USING (id) WHEN MATCHED THEN UPDATE SET name = 'x'",
            BadRequest,
            "several rows",
        ),
        ("USING s USING (id) WHEN MATCHED THEN ERROR", BadRequest, "WHEN MATCHED"),
        ("USING s USING (id) WHEN NOT MATCHED THEN ERROR 'no ' || s.id", BadRequest, "no 5|no 6"),
        (
            "USING s USING (id) WHEN MATCHED THEN UPDATE SET nope = 1",
            BadRequest,
            "no column 'nope'",
        ),
        (
            "USING (SELECT 1 AS id) q USING (id) WHEN NOT MATCHED THEN INSERT",
            BadRequest,
            "by position",
        ),
        ("USING s USING (id) WHEN MATCHED THEN UPDATE SET name = missing", BadRequest, "missing"),
    ],
)
def test_what_is_refused_changes_nothing(tables, merge, error, problem):
    with pytest.raises(error, match=problem):
        tables.sql(f"MERGE INTO t {merge}")
    assert tables.rows("SELECT count(*), sum(id)::INT FROM t") == [(4, 10)]


@pytest.mark.lake
def test_keys_hold(lake):
    lake.sql("CREATE OR REPLACE TABLE t.dbo.k (id INTEGER PRIMARY KEY, v VARCHAR)")
    lake.sql("INSERT INTO t.dbo.k VALUES (1, 'a'), (2, 'b')")
    lake.sql(
        "MERGE INTO t.dbo.k USING (VALUES (1, 'z'), (3, 'c')) AS s(id, v) USING (id) "
        "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert lake.rows("FROM t.dbo.k ORDER BY id") == [(1, "z"), (3, "c")]
    with pytest.raises(DuplicateKey, match=r"\(id\) = \(3\)"):
        lake.sql(
            "MERGE INTO t.dbo.k USING (VALUES (1)) AS s(id) USING (id) "
            "WHEN MATCHED THEN UPDATE SET id = 3"
        )


@pytest.mark.parametrize("merging", [pytest.param("lake", marks=pytest.mark.lake)], indirect=True)
def test_a_row_changed_meanwhile_is_a_conflict(tables):
    tables.sql("BEGIN; MERGE INTO t USING s USING (id) WHEN MATCHED THEN DELETE")
    handle = tables.catalog.load_schema("dbo").load_table("t")
    rows = next(iter(handle.scan(Scan())))
    with handle.updating(DMLOptions()) as write:
        write(rows.set_column(1, "name", pa.array(["other"] * rows.num_rows)))
    with pytest.raises(Conflict):
        tables.sql("COMMIT")


@pytest.mark.memory
def test_a_table_that_cannot_says_so():
    session = Session({"m": MemoryCatalog()})
    text = "CREATE SCHEMA m.x; CREATE TABLE m.x.t AS SELECT 1 AS id; "
    text += "MERGE INTO m.x.t USING (SELECT 1 AS id) s USING (id) WHEN MATCHED THEN DELETE"
    with pytest.raises(NotSupported, match="UPDATE and INSERT"):
        list(run(session, text))
    session.close()


@pytest.mark.lake
def test_rows_that_a_merge_has_added_can_be_changed(tables):
    """Give them ids: beside changed rows they have none of their own in the file."""
    tables.sql(
        "MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT"
    )
    found = tables.rows("UPDATE t SET name = 'again' WHERE id IN (1, 5) RETURNING id, name")
    assert sorted(found) == [(1, "again"), (5, "again")]
    handle = tables.catalog.load_schema("dbo").load_table("t")
    row_ids = next(iter(handle.scan(Scan(("rowid", "id"))))).to_pydict()
    for rowid, number in zip(row_ids["rowid"], row_ids["id"], strict=True):
        wanted = Comparison("=", Column("rowid"), Constant("BIGINT", rowid))
        batches = list(handle.scan(Scan(("id",), wanted)))
        assert number in [v for batch in batches for v in batch.column("id").to_pylist()]
    assert tables.report("DELETE FROM t WHERE id = 6")["rows_written"] == 1


@pytest.mark.lake
def test_a_column_is_set_once(tables):
    with pytest.raises(BadRequest, match="set twice"):
        tables.sql(
            "MERGE INTO t USING s USING (id) WHEN MATCHED THEN UPDATE SET name = 'a', NAME = 'b'"
        )
