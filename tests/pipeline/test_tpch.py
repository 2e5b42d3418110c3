"""TPC-H as CREATE TABLE AS: all queries give the rows of plain DuckDB, most of them on Spark."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jetbridge.errors import FailedPrecondition
from tests.helpers import lakes
from tests.pipeline import tpch
from tests.pipeline.targets import Bench, bench

pytestmark = pytest.mark.lake

# Those that Spark does not run just as DuckDB, and why; the others must run there.
REFUSED = {
    11: r"mul of DECIMAL\(38,2\), DECIMAL\(11,10\)",
}
ON_SPARK = set(tpch.NUMBERS) - set(REFUSED)
SCALES = [pytest.param(0.01, id="small"), pytest.param(0.1, id="full", marks=pytest.mark.soak)]


@dataclass(frozen=True)
class Loaded:
    """Hold the same tables in files and in a lake."""

    files: tpch.Benchmark
    lake: Bench

    def run(self, number: int, engine: str) -> str:
        """Return the engine that made the table of a query."""
        self.lake.sql(f"SET engine = '{engine}'")
        query = self.files.queries[number]
        return str(
            self.lake.report(f"CREATE OR REPLACE TABLE t.dbo.q{number} AS {query}")["engine"]
        )

    def differences(self, number: int) -> list[str]:
        found = self.lake.sql(f"SET engine = 'duckdb'; FROM t.dbo.q{number}")
        return self.files.differences(number, found)


@pytest.fixture(scope="module", params=SCALES)
def loaded(request: pytest.FixtureRequest) -> Iterator[Loaded]:
    folder = lakes.folder() / f"tpch-{request.param}"
    with tpch.made(folder, request.param) as files, bench("lake") as lake:
        for table in files.tables:
            lake.sql(f"CREATE TABLE t.dbo.{table} AS FROM {files.source(table)}")
        lake.sql("USE t.dbo")
        yield Loaded(files, lake)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("number", sorted(ON_SPARK))
def test_a_query_runs_on_spark(loaded: Loaded, number: int) -> None:
    assert loaded.run(number, "spark") == "spark"
    assert loaded.differences(number) == []


@pytest.mark.parametrize("number", sorted(REFUSED))
def test_another_query_is_refused_with_a_reason_and_runs_in_duckdb(
    loaded: Loaded, number: int
) -> None:
    """Refuse these only: a query that is no longer refused belongs among the others."""
    with pytest.raises(FailedPrecondition, match=REFUSED[number]):
        loaded.run(number, "spark")
    loaded.lake.sql("SET spark_from = '0'")
    assert loaded.run(number, "auto") == "duckdb"
    assert loaded.differences(number) == []
    loaded.lake.sql("RESET spark_from")
