"""Settings of loads, by what the server is then sent: locks, loaders, statements, and by whom."""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.mssql.connection import core
from jetbridge.backends.mssql.settings import SETTINGS
from jetbridge.backends.mssql.write import spool, staged_load
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, LoadTask, load_part
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.backends.mssql.write.spool import SpoolPart
from jetbridge.catalog import CreateTable
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from jetbridge.spark.engine import SparkEngine
from tests.helpers import lakes, mssql_server
from tests.helpers.mssql_orders import sent, stand_in
from tests.pipeline.targets import Bench, bench
from tests.pipeline.test_ctas_mssql import ALL_TYPES, declared, same

pytestmark = [pytest.mark.mssql, pytest.mark.lake]
ROWS = 400
QUERY = f"SELECT i AS id, repeat('x', i % 50) AS s FROM range({ROWS}) r(i)"
# So few rows go by Spark.
BY_SPARK = {"direct_load_rows": 100}
LEDGER = re.compile(r"INSERT INTO \[dbo\]\.\[jetbridge_\w+_ledger\] .* VALUES \((\d+), (\d+)\)")
STAGED = re.compile(r"INSERT BULK \[dbo\]\.\[jetbridge_\w+_rows\] ")
INSERT = re.compile(r"INSERT INTO \[dbo\]\.\[\w+\] \(\[id\], \[s\]\) VALUES ")


@pytest.fixture(scope="module")
def server() -> Iterator[Bench]:
    with bench("mssql") as made:
        yield made


@pytest.fixture
def setting(server):
    """Set, and reset at the end."""
    names = []

    def change(**values):
        for name, value in values.items():
            server.sql(f"SET mssql_{name} = '{value}'")
            names.append(name)

    yield change
    for name in names:
        server.sql(f"RESET mssql_{name}")


def rows_of(server: Bench, table: str) -> list[tuple[Any, ...]]:
    return server.rows(f"FROM t.dbo.{table} ORDER BY id")


EXPECTED = [(i, "x" * (i % 50)) for i in range(ROWS)]


def bulk_loads(texts: list[str]) -> list[str]:
    return [text for text in texts if text.startswith("INSERT BULK")]


def noted(texts: list[str]) -> list[tuple[int, int]]:
    """Return the parts that the ledger got, and their rows."""
    found = [LEDGER.match(text) for text in texts]
    return sorted((int(each[1]), int(each[2])) for each in found if each)


@pytest.mark.parametrize(
    ("kind", "value", "locked"),
    [
        ("heap", "auto", True),
        ("heap", "on", True),
        ("heap", "off", False),
        ("columnstore", "auto", False),
        ("columnstore", "on", True),
        ("columnstore", "off", False),
    ],
)
def test_tablock_of_new_tables(server, setting, kind, value, locked):
    setting(ctas_table_kind=kind, copy_tablock=value)
    with sent(f"new_{kind}_{value}") as texts:
        server.sql(f"CREATE TABLE t.dbo.new_{kind}_{value} AS {QUERY}")
        assert rows_of(server, f"new_{kind}_{value}") == EXPECTED
    (bulk,) = bulk_loads(texts)
    assert bulk.startswith(f"INSERT BULK [dbo].[new_{kind}_{value}] ")
    assert ("TABLOCK" in bulk) == locked


@pytest.mark.parametrize(("value", "locked"), [("auto", False), ("on", True), ("off", False)])
def test_tablock_of_tables_that_are_there(server, setting, value, locked):
    setting(copy_tablock=value)
    server.sql(f"CREATE TABLE t.dbo.there_{value} (id BIGINT, s VARCHAR)")
    with sent(f"there_{value}") as texts:
        server.sql(f"INSERT INTO t.dbo.there_{value} {QUERY}")
        assert rows_of(server, f"there_{value}") == EXPECTED
    (bulk,) = bulk_loads(texts)
    assert bulk.startswith(f"INSERT BULK [dbo].[there_{value}] ")
    assert ("TABLOCK" in bulk) == locked


@pytest.mark.parametrize(
    ("kind", "statement", "value", "locked"),
    [
        ("columnstore", "CREATE TABLE {} AS", "auto", False),
        ("heap", "CREATE TABLE {0} (id BIGINT, s VARCHAR); INSERT INTO {0}", "auto", True),
        ("heap", "CREATE TABLE {0} (id BIGINT, s VARCHAR); INSERT INTO {0}", "off", False),
    ],
)
def test_tablock_of_what_spark_loads(server, setting, kind, statement, value, locked):
    """Load rows for an existing table into one beside it first, which is new, and a heap."""
    setting(**BY_SPARK, ctas_table_kind=kind, copy_tablock=value)
    server.sql("DROP TABLE IF EXISTS t.dbo.by_spark")
    with sent("by_spark") as texts:
        server.sql(f"{statement.format('t.dbo.by_spark')} {QUERY}")
        assert rows_of(server, "by_spark") == EXPECTED
    found = bulk_loads(texts)
    assert found
    assert all(map(STAGED.match, found))
    assert {"TABLOCK" in each for each in found} == {locked}


@pytest.mark.parametrize(
    ("settings", "by_spark"),
    [
        ({"direct_load_rows": ROWS}, False),
        ({"direct_load_rows": ROWS - 1}, True),
        ({"direct_load_bytes": 1000}, True),
    ],
)
def test_more_rows_or_more_bytes_go_through_the_ledger(server, setting, settings, by_spark):
    setting(**settings)
    server.sql("DROP TABLE IF EXISTS t.dbo.who")
    with sent("who") as texts:
        server.sql(f"CREATE TABLE t.dbo.who AS {QUERY}")
        assert rows_of(server, "who") == EXPECTED
    assert sum(rows for _, rows in noted(texts)) == (ROWS if by_spark else 0)
    assert {bool(STAGED.match(each)) for each in bulk_loads(texts)} == {by_spark}


def test_there_are_as_many_loaders_as_asked_for(server, setting):
    setting(**BY_SPARK, copy_parallel_writers=3)
    with sent("loaders") as texts:
        server.sql(f"CREATE TABLE t.dbo.loaders AS {QUERY}")
        assert rows_of(server, "loaders") == EXPECTED
    found = bulk_loads(texts)
    assert len(found) == 3
    assert all(STAGED.match(each) and "TABLOCK" in each for each in found)
    assert noted(texts) == [(0, 133), (1, 133), (2, 134)]


def test_one_loader_loads_part_after_part_on_one_connection(monkeypatch):
    """Count logins: no worker knows the new database, and each that loads logs in once."""
    monkeypatch.setattr(staged_load, "_TASK_ROWS", ROWS // 4)
    with lakes.engine().session() as session:
        workers = session.spark.sparkContext.defaultParallelism
    with bench("mssql") as server:
        few = "CREATE OR REPLACE TABLE t.dbo.parts AS SELECT 1 AS id"
        server.sql(f"{few}; {few}; SET mssql_copy_parallel_writers = 1")
        server.sql("SET mssql_direct_load_rows = 100")
        before = stand_in().order(counts=True)["logins"]
        with sent("parts") as texts:
            server.sql(f"CREATE OR REPLACE TABLE t.dbo.parts AS {QUERY}")
        assert stand_in().order(counts=True)["logins"] == before + 1
        assert noted(texts) == [(part, ROWS // 4) for part in range(4)]
        changes = [text for text in texts if LEDGER.match(text) or text == "COMMIT"]
        assert [text == "COMMIT" for text in changes[:8]] == [False, True] * 4
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.parts AS {QUERY}")
        assert stand_in().order(counts=True)["logins"] <= before + workers
        assert rows_of(server, "parts") == EXPECTED


@pytest.fixture
def asleep(tmp_path) -> Iterator[SparkEngine]:
    made = SparkEngine(log_file=tmp_path / "spark.log", scratch=tmp_path)
    yield made
    made.stop()


def test_few_rows_do_not_wake_spark(asleep):
    catalog = mssql_server.new_catalog(asleep)
    session = Session({"t": catalog}, SessionResources(settings=SettingValues(SETTINGS)))
    server = Bench("mssql", session, catalog)
    server.sql(f"CREATE TABLE t.dbo.few AS {QUERY}; CREATE OR REPLACE TABLE t.dbo.few AS {QUERY}")
    server.sql("INSERT INTO t.dbo.few SELECT -1, 'new'")
    server.keyed("few")
    server.sql("UPDATE t.dbo.few SET s = 'old' WHERE id = 0; DELETE FROM t.dbo.few WHERE id = 1")
    server.sql(
        "MERGE INTO t.dbo.few AS f USING (SELECT 2 AS id) AS n ON f.id = n.id "
        "WHEN MATCHED THEN UPDATE SET s = 'merged'"
    )
    assert rows_of(server, "few") == [(-1, "new"), (0, "old"), (2, "merged"), *EXPECTED[3:]]
    assert asleep.status() == "not started"
    session.close()
    catalog.close()


def round_trips(texts: list[str]) -> list[list[int]]:
    """Return the rows of the INSERT statements of each; no value has a bracket."""
    inserts = [INSERT.split(text)[1:] for text in texts if INSERT.match(text)]
    return [[statement.count("(") for statement in statements] for statements in inserts]


@pytest.mark.parametrize(
    ("rows_per_statement", "batch_size", "expected"),
    [
        (1000, 1000, [[400]]),
        (30, 1000, [[30] * 13 + [10]]),
        (1000, 100, [[100]] * 4),
        (100, 150, [[100, 50], [100, 50], [100]]),
    ],
)
def test_fr_005_rows_of_statements(server, setting, rows_per_statement, batch_size, expected):
    setting(ctas_use_bcp="false", insert_batch_size=batch_size)
    setting(insert_max_rows_per_statement=rows_per_statement)
    with sent("sizes") as texts:
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.sizes AS {QUERY}")
        assert rows_of(server, "sizes") == EXPECTED
    assert round_trips(texts) == expected
    assert bulk_loads(texts) == []


def test_fr_005_as_implemented(server, setting):
    """Send rows by bulk copy by default; by Mode A, a setting, in statements of 1000 rows."""
    query = "SELECT i AS id, 'x' AS s FROM range(2500) r(i)"
    with sent("modes") as texts:
        server.sql(f"CREATE TABLE t.dbo.modes AS {query}")
    assert (len(bulk_loads(texts)), round_trips(texts)) == (1, [])
    setting(ctas_use_bcp="false")
    with sent("modes") as texts:
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.modes AS {query}")
    assert (bulk_loads(texts), round_trips(texts)) == ([], [[1000], [1000], [500]])
    assert rows_of(server, "modes") == [(i, "x") for i in range(2500)]


def test_fr_005_bytes_of_statements(server, setting):
    """Send as many rows as fit, or one less, in each statement."""
    setting(ctas_use_bcp="false", insert_max_sql_bytes=2048)
    with sent("sizes") as texts:
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.sizes AS {QUERY}")
        assert rows_of(server, "sizes") == EXPECTED
    (text,) = [each for each in texts if INSERT.match(each)]
    (counts,) = round_trips(texts)
    statements = text.split("; ")
    assert (len(counts), sum(counts)) == (len(statements), ROWS)
    assert max(map(len, statements)) <= 2048
    longest = len(f", (399, N'{'x' * 49}')")
    assert min(map(len, statements[:-1])) > 2048 - 2 * longest


def test_fr_005_spark_sends_statements_too(server, setting):
    setting(direct_load_rows=1, ctas_use_bcp="false", insert_max_rows_per_statement=60)
    setting(copy_parallel_writers=2, insert_batch_size=150)
    with sent("mode_a") as texts:
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.mode_a AS {QUERY}")
        assert rows_of(server, "mode_a") == EXPECTED
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.mode_a AS {ALL_TYPES}")
        assert same(server, "t.dbo.mode_a", ALL_TYPES)
    assert bulk_loads(texts) == []
    assert noted(texts) == sorted([(0, 200), (1, 200), (0, 1), (1, 2)])
    assert sorted(round_trips(texts)) == sorted([[60, 60, 30], [50]] * 2)


@pytest.mark.parametrize(
    ("texts", "longest", "lengths", "load"),
    [
        ("NVARCHAR", "repeat('😀', 6)", {"a": 20, "b": 40, "c": -1, "d": 20}, {}),
        ("VARCHAR", "repeat('y', 22)", {"a": 10, "b": 50, "c": 8000, "d": 10}, BY_SPARK),
    ],
)
def test_text_length_auto_of_what_spark_computes(server, setting, texts, longest, lengths, load):
    """Count bytes, as of what DuckDB computes; one row has the longest texts."""
    setting(**load, ctas_text_type=texts, ctas_text_length="auto")
    b, c = f"if(id = 299, {longest}, 'x')", "repeat('x', if(id = 299, 5000, 2))"
    query = f"SELECT id, 'abc' AS a, {b} AS b, {c} AS c, CAST(NULL AS STRING) AS d"
    server.sql("SET dialect = 'spark'")
    try:
        report = server.report(f"CREATE OR REPLACE TABLE t.dbo.auto AS {query} FROM range({ROWS})")
    finally:
        server.sql("RESET dialect")
    assert (report["engine"], report["rows_written"]) == ("spark", ROWS)
    found = declared(server, "auto")[1:]
    assert {name: size for name, _, size, *_ in found} == lengths
    assert {kind for _, kind, *_ in found} == {texts.lower()}
    wanted = f"SELECT i AS id, 'abc', {b}, {c}, NULL FROM range({ROWS}) r(i)"
    assert same(server, "t.dbo.auto", wanted.replace("(id =", "(i ="))


MANY = 300_000
BATCH = 5000


@pytest.fixture
def held(monkeypatch) -> list[int]:
    """Return how much more Arrow holds than now, whenever the driver takes rows."""
    found: list[int] = []
    real, first = core.align, pa.total_allocated_bytes()

    def align(batch):
        found.append(pa.total_allocated_bytes() - first)
        return real(batch)

    monkeypatch.setattr(core, "align", align)
    return found


def batches() -> Iterator[pa.RecordBatch]:
    for start in range(0, MANY, BATCH):
        ids = pa.array(range(start, start + BATCH), pa.int64())
        texts = pc.binary_join_element_wise(
            "number", pc.cast(ids, pa.string()), "of many rows", " "
        )
        yield pa.record_batch({"id": ids, "s": texts})


def check_many(server: Bench, table: str) -> None:
    told = "count(*), count(DISTINCT id), sum(id)::BIGINT, count(DISTINCT s), min(s), max(s)"
    n = MANY
    ends = ("number 0 of many rows", "number 99999 of many rows")
    assert server.rows(f"SELECT {told} FROM t.dbo.{table}") == [(n, n, n * (n - 1) // 2, n, *ends)]


def test_us2_2_sc_002_a_direct_load_holds_few_rows_at_a_time(server, held):
    """Hold few rows while they are spooled, and while they are sent."""
    first = pa.total_allocated_bytes()
    catalog = server.catalog.configured(
        {"mssql_copy_flush_rows": str(2 * BATCH), "mssql_direct_load_rows": str(10 * MANY)}
    )
    size = spooled = 0
    request = CreateTable("flat", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    with catalog.load_schema("dbo").creating(request) as write:
        for batch in batches():
            write(batch)
            size += batch.nbytes
            spooled = max(spooled, pa.total_allocated_bytes() - first)
    assert len(held) == MANY // BATCH or mssql_server.is_given()
    assert max([spooled, *held]) < size / 5
    check_many(server, "flat")


def test_us2_2_sc_002_a_worker_holds_few_rows_at_a_time(server, held, tmp_path, monkeypatch):
    """Hold few rows of what Spark has written; our own files are mapped."""
    monkeypatch.setattr(spool, "_READ_ROWS", 2 * BATCH)
    file = tmp_path / "part.parquet"
    table = pa.Table.from_batches(batches())
    size = table.nbytes
    pq.write_table(table, file, row_group_size=2 * BATCH, use_dictionary=False)
    del table
    columns = (BulkColumn("id", "bigint"), BulkColumn("s", "nvarchar(max)"))
    database = server.catalog.database
    with database.server.borrow_core() as connection:
        connection.run(
            tsql_load.create_staging("dbo.by_worker", [(c.name, c.sql_type) for c in columns])
        )
        connection.run(tsql_load.create_ledger("dbo", "worker_ledger"))
    goal = LoadTarget("dbo.by_worker", columns)
    order = LoadTask(database.server.address, goal, "dbo.worker_ledger", database.settings)
    assert load_part(database.server, order, SpoolPart(0, (str(file),), MANY)) == 0
    assert len(held) == MANY // BATCH // 2 or mssql_server.is_given()
    assert max(held, default=0) < size / 2
    check_many(server, "by_worker")
