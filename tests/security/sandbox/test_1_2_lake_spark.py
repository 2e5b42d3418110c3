"""Spark's own parser must find one query in a text before anything of it runs."""

from collections.abc import Iterator

import pytest

from jetbridge.errors import BadRequest
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from tests.helpers.lakes import engine, folder

pytestmark = pytest.mark.lake


@pytest.fixture(scope="module")
def runner() -> SparkRunner:
    return SparkRunner(engine(), str(folder()), lambda: "smuggled")


@pytest.fixture
def session(runner: SparkRunner, catalog) -> Iterator[Session]:
    settings = SettingValues().with_change("dialect", "spark")
    opened = Session({"m": catalog}, SessionResources(spark=runner, settings=settings))
    yield opened
    opened.close()


NO_QUERIES = [
    "SET spark.jetbridge.smuggled = 1",
    "SELECT 1; SELECT 2",
    "SELECT 1; SET spark.jetbridge.smuggled = 1",
    "SELECT 1) AS x; SET spark.jetbridge.smuggled = 1; --",
    "SELECT 1) UNION ALL (SELECT 2",
    "CREATE TEMPORARY VIEW smuggled AS SELECT 1",
    "INSERT OVERWRITE DIRECTORY '/tmp/smuggled' USING parquet SELECT 1",
    "ADD JAR '/tmp/x.jar'",
    "DESCRIBE FUNCTION abs",
    "EXPLAIN SELECT 1",
    "BEGIN SELECT 1; SELECT 2; END",
    "CALL system.x()",
    "",
]


@pytest.mark.parametrize("text", NO_QUERIES)
def test_1_2_text_that_is_no_query_does_not_run_on_spark(runner: SparkRunner, text: str) -> None:
    with pytest.raises(BadRequest):
        runner.describe(text)
    with pytest.raises(BadRequest), runner.spool_query(text):
        pass
    with runner.session() as session:
        assert session.spark.conf.get("spark.jetbridge.smuggled", None) is None
        assert not session.spark.catalog.tableExists("smuggled")


def test_1_2_query_of_spark_runs(session: Session) -> None:
    text = "SELECT 'it\\'s; --' AS `a;b` /* ; */ -- ;\n"
    (outcome,) = run(session, text)
    assert outcome.table().to_pylist() == [{"a;b": "it's; --"}]
