"""Spark and DuckDB: which runs a query and why, that both give the same, and Spark's dialect."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.errors import BadRequest, FailedPrecondition, NotSupported
from tests.pipeline.test_ctas_stories import same

pytestmark = pytest.mark.lake
QUERY = "SELECT k, count(*) AS n, sum(v) AS s FROM t.dbo.numbers WHERE v % 3 <> 0 GROUP BY k"


@pytest.fixture(scope="module", autouse=True)
def numbers(lake):
    lake.sql(
        "CREATE TABLE t.dbo.numbers AS SELECT i AS v, i % 10 AS k, 't' || i AS name, "
        "i::TINYINT AS small, i::HUGEINT AS huge FROM range(100) r(i)"
    )
    return lake


@pytest.fixture(autouse=True)
def reset(lake):
    yield
    lake.sql("RESET engine; RESET dialect; RESET spark_from")


def engine_of(lake, text: str) -> tuple[str, str]:
    told = dict(row for row in lake.rows(f"EXPLAIN {text}") if row[0] in ("engine", "because"))
    return told["engine"], told["because"]


def test_small_tables_are_for_duckdb(lake):
    engine, why = engine_of(lake, QUERY)
    assert engine == "duckdb"
    assert "spark_from is 2,147,483,648" in why


def test_large_tables_are_for_spark(lake):
    lake.sql("SET spark_from = '1B'")
    engine, why = engine_of(lake, QUERY)
    assert (engine, "bytes" in why) == ("spark", True)


def test_what_spark_would_do_otherwise_is_for_duckdb(lake):
    lake.sql("SET spark_from = '1B'")
    engine, why = engine_of(lake, "SELECT huge FROM t.dbo.numbers")
    assert engine == "duckdb"
    assert "huge" in why


def test_spark_refuses_and_names_the_piece(lake):
    lake.sql("SET engine = 'spark'")
    with pytest.raises(FailedPrecondition, match=r"huge.*HUGEINT.*engine = auto"):
        lake.sql("CREATE TABLE t.dbo.never AS SELECT huge FROM t.dbo.numbers")
    assert "never" not in lake.tables()


def test_both_engines_give_the_same_rows_and_types(lake):
    columns = {}
    for engine in ("spark", "duckdb", "auto"):
        lake.sql(f"SET engine = '{engine}'")
        report = lake.report(f"CREATE OR REPLACE TABLE t.dbo.by_{engine} AS {QUERY}")
        assert report["rows_written"] == 10
        assert report["engine"] == ("duckdb" if engine == "auto" else engine)
        columns[engine] = lake.columns(f"by_{engine}")
        lake.sql("RESET engine")
        assert same(lake, f"t.dbo.by_{engine}", QUERY)
    assert columns["spark"] == columns["duckdb"] == columns["auto"]


def test_rows_of_a_query_come_from_spark_in_their_order(lake):
    lake.sql("SET engine = 'spark'")
    found = lake.rows("SELECT v, small FROM t.dbo.numbers ORDER BY v DESC")
    assert found == [(v, v) for v in range(99, -1, -1)]
    assert lake.left_behind() == []


def test_spark_inserts(lake):
    lake.sql("CREATE TABLE t.dbo.into (v BIGINT, name VARCHAR); SET engine = 'spark'")
    report = lake.report("INSERT INTO t.dbo.into SELECT v, name FROM t.dbo.numbers WHERE v < 5")
    assert (report["engine"], report["rows_written"]) == ("spark", 5)
    lake.sql("RESET engine")
    assert same(lake, "t.dbo.into", "SELECT v, name FROM t.dbo.numbers WHERE v < 5")


@pytest.mark.parametrize("name", ["ab c", "a`b", "(", "it's", "ß"])
def test_spark_reads_a_field_of_a_struct_whose_name_needs_quotes(lake, name):
    field = f"'{name.replace(chr(39), chr(39) * 2)}'"
    lake.sql("RESET engine")
    lake.sql(f"CREATE OR REPLACE TABLE t.dbo.quoted AS SELECT {{{field}: 1, b: 2}} AS st")
    lake.sql("SET engine = 'spark'")
    query = f'SELECT st[{field}] + 1, struct_extract(st, {field}), st."{name}" FROM t.dbo.quoted'
    assert lake.rows(query) == [(2, 1, 1)]


def test_a_field_that_is_stored_under_another_name_is_for_duckdb(lake):
    lake.sql("CREATE OR REPLACE TABLE t.dbo.dotted AS SELECT {'a.b': 1, b: 2} AS st")
    lake.sql("SET engine = 'spark'")
    for query in ("SELECT st FROM t.dbo.dotted", "SELECT st['a.b'] FROM t.dbo.dotted"):
        with pytest.raises(
            FailedPrecondition, match=r'column st of type STRUCT."a\.b".*engine = auto'
        ):
            lake.sql(query)
    lake.sql("RESET engine; SET spark_from = '1B'")
    assert lake.rows("SELECT st, st['a.b'] FROM t.dbo.dotted") == [({"a.b": 1, "b": 2}, 1)]


def test_spark_reads_the_past(lake):
    lake.sql("CREATE TABLE t.dbo.past AS SELECT 1 AS a; INSERT INTO t.dbo.past VALUES (2)")
    lake.sql("SET engine = 'spark'")
    assert lake.rows("SELECT a FROM t.dbo.past AT (VERSION => 1)") == [(1,)]
    assert sorted(lake.rows("SELECT a FROM t.dbo.past")) == [(1,), (2,)]


def test_explain_shows_types_spark_sql_and_ddl_and_runs_nothing(lake):
    lake.sql("SET engine = 'spark'")
    told = lake.rows(f"EXPLAIN CREATE TABLE t.dbo.explained AS {QUERY}")
    words = [what for what, _ in told]
    assert words == [*["column"] * 3, "reads", "engine", "because", "Spark SQL", "target DDL"]
    assert ("column", "n BIGINT NOT NULL") in told
    assert "explained" not in lake.tables()


def test_an_error_at_run_time_on_spark_makes_nothing(lake):
    lake.sql("SET engine = 'spark'")
    with pytest.raises(BadRequest, match="Spark: ") as caught:
        lake.sql(
            "CREATE TABLE t.dbo.broken AS "
            "SELECT CAST(v * 9999999999 AS INTEGER) AS x FROM t.dbo.numbers"
        )
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "broken" not in lake.tables()


def test_the_dialect_of_spark(lake):
    name = lake.catalog.lake.name
    lake.sql("SET dialect = 'spark'")
    report = lake.report(
        f"CREATE TABLE t.dbo.dialect AS SELECT `v`, stack(2, 'a', 'b') AS s, array(v) AS l "
        f"FROM {name}.dbo.numbers WHERE v < 2"
    )
    assert (report["engine"], report["rows_written"]) == ("spark", 4)
    lake.sql(f"INSERT INTO t.dbo.dialect SELECT 9L, 'c', array(9L) FROM {name}.dbo.numbers LIMIT 1")
    assert lake.rows(f"SELECT count(*) FROM {name}.dbo.dialect") == [(5,)]
    with pytest.raises(BadRequest, match="Spark: "):
        lake.sql("SELECT nothing")
    for written in ("WITH c AS ({}) INSERT INTO {} FROM c", "FROM ({}) INSERT INTO {} SELECT *"):
        rows, table = "SELECT 7L AS v, 'x' AS s, array(7L) AS l", f"{name}.dbo.dialect"
        for text in (written.format(rows, table), f"EXPLAIN {written.format(rows, table)}"):
            with pytest.raises(BadRequest):  # no query, and nothing is written
                lake.sql(text)
    assert lake.rows(f"SELECT count(*) FROM {name}.dbo.dialect") == [(5,)]
    with pytest.raises(NotSupported, match="CAST the column"):
        lake.sql("SELECT make_ym_interval(1, 2) AS i")
    lake.sql("SET dialect = 'duckdb'")
    kinds = [kind for _, kind, _ in lake.columns("dialect")]
    assert kinds == ["BIGINT", "VARCHAR", "BIGINT[]"]


def test_files_are_read_beside_tables(lake, tmp_path: Path):
    pq.write_table(pa.table({"v": [1, 2, 500]}), tmp_path / "v.parquet")
    (tmp_path / "v.csv").write_text("v,w\n1,x\n2,y\n")
    (tmp_path / "v.json").write_text('{"v": 1, "z": [1, 2]}\n')
    joined = (
        f"SELECT count(*) FROM t.dbo.numbers JOIN read_parquet('{tmp_path}/v.parquet') USING (v)"
    )
    assert lake.rows(joined) == [(2,)]
    assert lake.rows(f"SELECT w FROM read_csv('{tmp_path}/*.csv') ORDER BY v") == [("x",), ("y",)]
    assert lake.rows(f"SELECT z FROM '{tmp_path}/v.json'") == [([1, 2],)]
    with pytest.raises(BadRequest, match="No files found"):
        lake.rows(f"FROM read_csv('{tmp_path}/none.csv')")


def test_progress_is_told(lake):
    lake.steps.clear()
    lake.sql("CREATE OR REPLACE TABLE t.dbo.steps AS SELECT i FROM range(300000) r(i)")
    phases = [step.phase for step in lake.steps]
    assert phases[0] == "plan"
    assert max(step.done for step in lake.steps if step.phase == "load") == 300_000
