"""Everyday statements as stages, in as many tasks as there may be, compared with plain DuckDB."""

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.staging import NO_TABLE
from tests.distributed import shop
from tests.distributed.everyday import STATEMENTS
from tests.distributed.local_run import LocalRun

# They run in one task with their own text: DuckDB leaves no table in their plans.
ONE_TASK = {"filter never": NO_TABLE, "limit zero": NO_TABLE}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with shop.open_shop() as opened:
        yield opened


@pytest.mark.parametrize("options", [shop.BY_KEYS, shop.BY_BROADCAST], ids=["keys", "broadcast"])
@pytest.mark.parametrize("title", STATEMENTS)
def test_stages_answer_as_the_statement_does(
    connection: duckdb.DuckDBPyConnection, title: str, options: CutOptions
):
    query = STATEMENTS[title]
    staged = shop.stager(connection).stage(query, options)
    assert staged.reason == ONE_TASK.get(title, "")
    answer = connection.execute(query).fetchall()
    for tasks in (1, 4):
        rows = LocalRun(connection, tasks).rows(staged)
        assert Counter(map(repr, rows)) == Counter(map(repr, answer))
        if "ORDER BY" in query and title.startswith(("order", "top")):
            assert rows == answer


@pytest.mark.parametrize("title", STATEMENTS)
def test_one_rendered_stage_answers_as_the_statement_does(
    connection: duckdb.DuckDBPyConnection, title: str
):
    query = STATEMENTS[title]
    staged = shop.stager(connection).stage_whole(query)
    assert staged.reason == ""
    rows = LocalRun(connection, 1).rows(staged)
    answer = connection.execute(query).fetchall()
    assert Counter(map(repr, rows)) == Counter(map(repr, answer))
