"""A query that only reads one table gets its rows without DuckDB."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.duckdb_engine.planner import LocalConnection
from jetbridge.errors import Cancelled
from jetbridge.pipeline.query import run_on_duckdb
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session

MAKE = """
CREATE SCHEMA m.s;
CREATE TABLE m.s.t AS
    SELECT i AS id, 'n' || i AS name, i / 4 AS x, DATE '2024-01-01' + i::INT AS d
    FROM range(5000) r(i);
"""


@pytest.fixture(scope="module")
def session():
    made = Session({"m": MemoryCatalog()})
    list(run(made, MAKE))
    yield made
    made.close()


@pytest.fixture
def answer(session, monkeypatch):
    """Return the rows of a query, and whether DuckDB copied a table for them."""
    real = LocalConnection.create_table_as

    def ask(query):
        copies = []

        def create_table_as(*arguments):
            copies.append(arguments)
            return real(*arguments)

        monkeypatch.setattr(LocalConnection, "create_table_as", create_table_as)
        (outcome,) = run(session, query)
        return outcome.table(), bool(copies)

    return ask


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("FROM m.s.t", ["id", "name", "x", "d"]),
        ("SELECT d, id FROM m.s.t", ["d", "id"]),
        ("SELECT x AS y, name AS x FROM m.s.t", ["y", "x"]),
        ("SELECT * EXCLUDE (id) FROM m.s.t", ["name", "x", "d"]),
    ],
)
def test_rows_of_one_table_are_not_copied(answer, query, names):
    rows_read, copied = answer(query)
    assert (rows_read.column_names, copied) == (names, False)
    same, copied = answer(f"FROM ({query}) WHERE random() >= 0")
    assert copied
    assert rows_read.sort_by(names[0]).equals(same.sort_by(names[0]))


@pytest.mark.parametrize(
    ("query", "rows", "first"),
    [
        ("SELECT id, id AS again FROM m.s.t ORDER BY id", 5000, (0, 0)),
        ("SELECT id + 1 AS i FROM m.s.t ORDER BY i", 5000, (1,)),
        ("SELECT id FROM m.s.t ORDER BY id DESC", 5000, (4999,)),
        ("SELECT id FROM m.s.t WHERE id = 7", 1, (7,)),
        ("SELECT DISTINCT id % 3 AS r FROM m.s.t ORDER BY r", 3, (0,)),
        ("SELECT id FROM m.s.t ORDER BY id LIMIT 2 OFFSET 5", 2, (5,)),
        ("SELECT count(*) FROM m.s.t", 1, (5000,)),
        ("SELECT a.id FROM m.s.t a JOIN m.s.t b USING (id) ORDER BY 1", 5000, (0,)),
        ("SELECT id FROM m.s.t UNION ALL SELECT id FROM m.s.t ORDER BY id", 10_000, (0,)),
        ("SELECT id::INTEGER AS id FROM m.s.t ORDER BY id", 5000, (0,)),
        ("SELECT unnest([id, id]) AS u FROM m.s.t ORDER BY u", 10_000, (0,)),
        ("SELECT id FROM m.s.t TABLESAMPLE 3 ROWS ORDER BY id LIMIT 0 OFFSET 3", 0, ()),
        ("SELECT id FROM m.s.t WHERE id IN (3, 4) ORDER BY id", 2, (3,)),
        ("SELECT rowid FROM m.s.t ORDER BY 1", 5000, (0,)),
    ],
)
def test_other_queries_run_in_duckdb(answer, query, rows, first):
    rows_read, copied = answer(query)
    assert (rows_read.num_rows, copied) == (rows, True)
    assert (tuple(rows_read.slice(0, 1).to_pylist()[0].values()) if rows else ()) == first


@pytest.mark.parametrize(
    "sample", ["TABLESAMPLE 10%", "TABLESAMPLE SYSTEM (1%)", "USING SAMPLE 10% (system)"]
)
def test_a_sample_runs_in_duckdb(answer, sample):
    rows_read, copied = answer(f"SELECT id FROM m.s.t {sample}")
    assert copied
    assert rows_read.num_rows < 5000


def test_a_table_that_the_query_does_not_read_is_not_returned(answer, tmp_path):
    file = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int64()), "name": ["other"]}), file)
    for source in (f"read_parquet('{file}')", f"'{file}'"):
        rows_read, _ = answer(f"WITH u AS (FROM m.s.t) SELECT id, name FROM {source}")
        assert rows_read.to_pylist() == [{"id": 1, "name": "other"}]
    rows_read, _ = answer("WITH u AS (FROM m.s.t) FROM range(3)")
    assert rows_read.num_rows == 3


def test_reading_a_table_can_be_interrupted(session):
    (outcome,) = run(session, "SELECT id FROM m.s.t")
    session.interrupt()
    with pytest.raises(Cancelled, match="interrupted"):
        outcome.table()
    (outcome,) = run(session, "SELECT id FROM m.s.t")
    assert outcome.table().num_rows == 5000


def test_create_table_as_streams_the_rows(answer):
    _, copied = answer("CREATE TABLE m.s.copy AS SELECT id, d FROM m.s.t")
    assert not copied
    rows_read, _ = answer("SELECT count(*) AS n, sum(id)::BIGINT AS s FROM m.s.copy")
    assert rows_read.to_pylist() == [{"n": 5000, "s": 12_497_500}]


@pytest.mark.parametrize(
    ("statement", "streams"),
    [
        ("INSERT INTO m.s.own FROM m.s.own", True),
        ("INSERT INTO m.s.own FROM m.s.own RETURNING a", False),
        ("BEGIN; INSERT INTO m.s.own FROM m.s.own; ROLLBACK", False),
    ],
)
def test_rows_are_read_before_the_first_is_written(session, monkeypatch, statement, streams):
    """A table that writes rows as they arrive would wait for its own locks if it were read."""
    calls = []
    real = run_on_duckdb.stream_rows

    def rows(*arguments, **options):
        calls.append(options)
        return real(*arguments, **options)

    monkeypatch.setattr(run_on_duckdb, "stream_rows", rows)
    list(run(session, "CREATE OR REPLACE TABLE m.s.own AS SELECT 1 AS a"))
    calls.clear()
    list(run(session, statement))
    assert calls == [{"read_first": not streams}]
