"""All queries of TPC-H and TPC-DS as stages in three tasks, equal in rows and types."""

import pytest

from benchmarks.scoreboard.corpora import judge_benchmark


@pytest.mark.parametrize(
    ("name", "queries"), [("tpch", 22), pytest.param("tpcds", 99, marks=pytest.mark.full)]
)
def test_stages_answer_as_the_queries_do(name: str, queries: int):
    verdicts = [verdict for _, verdict in judge_benchmark(name)]
    assert [verdict.whole for verdict in verdicts if verdict] == ["equal"] * queries
    assert [verdict.cut for verdict in verdicts if verdict] == ["equal"] * queries
    assert all(verdict.stages > 1 for verdict in verdicts if verdict)
