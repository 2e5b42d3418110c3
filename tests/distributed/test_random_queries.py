"""Random queries over tables of edge values: as stages, the same rows as in plain DuckDB."""

from collections.abc import Iterator

import duckdb
import pytest

from benchmarks.scoreboard.judge import Judge
from tests.properties.random_queries import Maker
from tests.properties.random_tables import tables


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as opened:
        for name, query in tables(1).items():
            opened.execute(f"CREATE TABLE {name} AS {query}")
        yield opened


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(30, 400), marks=pytest.mark.full)])
def test_stages_answer_as_random_queries_do(connection: duckdb.DuckDBPyConnection, seeds: range):
    def describe(query: str) -> list[tuple[str, str]]:
        rows = connection.execute(f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    judge = Judge(connection)
    queries = {seed: Maker(seed, describe).query() for seed in seeds}
    verdicts = {seed: judge.verdict(query) for seed, query in queries.items()}
    judged = [verdict for verdict in verdicts.values() if verdict is not None]
    wrong = [
        (seed, verdict, queries[seed])
        for seed, verdict in verdicts.items()
        if verdict and not {verdict.whole, verdict.cut} <= {"equal", "refused"}
    ]
    assert wrong == []
    assert sum(verdict.stages > 1 for verdict in judged) > len(judged) / 2
