"""Files that Spark wrote are gone before they are read: an error, and nothing published."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jetbridge.backends.lake.ddl import create_table_as
from jetbridge.backends.lake.warehouse import spool_tables
from jetbridge.backends.mssql.read import spark_relation
from jetbridge.errors import FailedPrecondition
from jetbridge.spark import written_rows
from tests.pipeline.targets import TARGETS, Bench, bench

pytestmark = pytest.mark.lake

# Spark writes them into four files.
FOUR_FILES = "SELECT id FROM range(0, 4000, 1, 4)"
LOST = {"one file": (1, 3000), "all files": (4, 0)}
Lose = Callable[[int], None]


@pytest.fixture(
    scope="module", params=[pytest.param(n, marks=getattr(pytest.mark, n)) for n in TARGETS]
)
def target(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with bench(request.param) as made:
        yield made


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Lose:
    """From now on so many files of each spool are removed as soon as Spark has written them."""

    def begin(count: int) -> None:
        readable, files_of = written_rows.readable, spool_tables.list_files

        def of_folder(files):
            found = sorted(map(Path, files))
            for file in found[:count]:
                file.unlink()
            return readable(found)

        def of_table(table):
            found = files_of(table)
            for file in found[:count]:
                Path(str(file.location()).removeprefix("file:")).unlink()
            return found

        monkeypatch.setattr(written_rows, "readable", of_folder)
        monkeypatch.setattr(spark_relation, "readable", of_folder)
        monkeypatch.setattr(create_table_as, "list_files", of_table)

    return begin


def in_spark_sql(target: Bench, text: str) -> None:
    target.sql("SET dialect = 'spark'")
    try:
        target.sql(text)
    finally:
        target.sql("RESET dialect")


def wrote(found: int) -> str:
    return rf"^Spark wrote 4,000 rows to .*, but {found:,} are readable; nothing was changed"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "found"), LOST.values(), ids=list(LOST))
def test_new_table_is_not_published_without_all_rows(target, lose, count, found):
    lose(count)
    with pytest.raises(FailedPrecondition, match=wrote(found)):
        in_spark_sql(target, f"CREATE TABLE t.dbo.fresh AS {FOUR_FILES}")
    assert "fresh" not in target.tables()
    assert target.left_behind() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "found"), LOST.values(), ids=list(LOST))
def test_replaced_table_keeps_its_rows_if_others_are_lost(target, lose, count, found):
    target.sql("CREATE OR REPLACE TABLE t.dbo.kept AS SELECT 42 AS answer")
    lose(count)
    with pytest.raises(FailedPrecondition, match=wrote(found)):
        in_spark_sql(target, f"CREATE OR REPLACE TABLE t.dbo.kept AS {FOUR_FILES}")
    assert target.rows("FROM t.dbo.kept") == [(42,)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "found"), LOST.values(), ids=list(LOST))
def test_insert_adds_nothing_if_rows_are_lost(target, lose, count, found):
    target.sql("CREATE OR REPLACE TABLE t.dbo.more AS SELECT 1::BIGINT AS id")
    lose(count)
    with pytest.raises(FailedPrecondition, match=wrote(found)):
        in_spark_sql(target, f"INSERT INTO t.dbo.more {FOUR_FILES}")
    assert target.rows("FROM t.dbo.more") == [(1,)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("count", "found"), LOST.values(), ids=list(LOST))
def test_select_fails_if_rows_are_lost(target, lose, count, found):
    lose(count)
    with pytest.raises(FailedPrecondition, match=wrote(found)):
        in_spark_sql(target, FOUR_FILES)


def test_file_that_goes_while_rows_are_read_is_an_error(target, monkeypatch):
    """It was there when the rows were counted, and is empty when they are read."""
    readable = written_rows.readable

    def then_lost(files):
        found = readable(files)
        kept = found.names[0]
        for name in found.names[1:]:
            Path(name).write_bytes(Path(kept).read_bytes()[:0])
        return found

    monkeypatch.setattr(written_rows, "readable", then_lost)
    with pytest.raises(Exception, match=r"parquet|Parquet|too small"):
        in_spark_sql(target, f"INSERT INTO t.dbo.more {FOUR_FILES}")
    assert target.rows("FROM t.dbo.more") == [(1,)]


@pytest.mark.mssql
def test_table_of_sql_server_that_spark_reads_loses_no_rows(lose):
    with bench("mssql") as source:
        source.sql("CREATE TABLE t.dbo.numbers AS SELECT i AS n FROM range(4000) r(i)")
        lose(1)
        source.sql("SET engine = 'spark'")
        with pytest.raises(
            FailedPrecondition, match=r"^Spark wrote 4,000 rows to .*, but 0 are readable"
        ):
            source.rows("SELECT sum(n) FROM t.dbo.numbers")


def test_query_without_rows_makes_an_empty_table(target):
    in_spark_sql(target, "CREATE TABLE t.dbo.empty AS SELECT id FROM range(10) WHERE id < 0")
    assert target.rows("FROM t.dbo.empty") == []
