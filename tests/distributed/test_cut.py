"""Each operator's distributed form: its stages, and their answer in any number of tasks.

A stage is written as its tasks and its exchange, such as `split:hash`.
"""

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.stages import StagedQuery
from jetbridge.distributed.staging import NO_TABLE, QueryStager
from jetbridge.duckdb_engine.serialized_plans import SerializedPlan
from tests.distributed import shop
from tests.distributed.local_run import LocalRun
from tests.distributed.shared_plans import SharedPlans

SCAN = "split:result"
GATHERED = "split:all single:result"
BY_HASH = "split:hash partition:result"
BY_RANGE = "split:range partition:result"
BOTH_BY_HASH = "split:hash split:hash partition:result"
BROADCAST = "split:all split:result"

UNARY = {
    "SELECT id FROM orders WHERE amount > 50": SCAN,
    "SELECT id + 1, upper(state) FROM orders": SCAN,
    "SELECT id, unnest([1, 2, id]) FROM orders": SCAN,
    "SELECT count(*), sum(id), min(state), max(amount), avg(amount) FROM orders": GATHERED,
    "SELECT state, count(*), sum(id), avg(id) FROM orders GROUP BY state": BY_HASH,
    "SELECT state, avg(weight), sum(weight) FROM orders GROUP BY state": BY_HASH,
    "SELECT state, count(DISTINCT customer) FROM orders GROUP BY state": BY_HASH,
    "SELECT state, list(id ORDER BY id) FROM orders GROUP BY state": BY_HASH,
    "SELECT state, country, count(*) FROM orders o, (SELECT 'x' AS country) GROUP BY CUBE (1, 2)": (
        BY_HASH
    ),
    "SELECT state, median(id) FROM orders GROUP BY ROLLUP (state)": GATHERED,
    "SELECT state, count(*) FROM orders GROUP BY GROUPING SETS ((state), (state), ())": GATHERED,
    "SELECT sum(weight) FROM orders": GATHERED,
    "SELECT id, sum(amount) OVER (PARTITION BY state ORDER BY id) FROM orders": BY_HASH,
    # DuckDB plans it as an aggregate and a join.
    "SELECT id, sum(amount) OVER (PARTITION BY state) FROM orders": BOTH_BY_HASH,
    "SELECT id, sum(amount) OVER () FROM orders": GATHERED,
    "SELECT id, count(*) OVER (PARTITION BY state), count(*) OVER (PARTITION BY customer) "
    "FROM orders": "split:hash partition:hash partition:result",
    "SELECT id, count(*) OVER (PARTITION BY state, customer), count(*) OVER (PARTITION BY state) "
    "FROM orders": BY_HASH,
    "SELECT id FROM orders ORDER BY amount, id": BY_RANGE,
    "SELECT id FROM orders ORDER BY amount, id LIMIT 3 OFFSET 2": GATHERED,
    "SELECT id FROM orders LIMIT 3": GATHERED,
    "SELECT DISTINCT state, customer FROM orders": BY_HASH,
    "SELECT DISTINCT ON (state) state, id FROM orders": BY_HASH,
    "SELECT state, customer, count(*) OVER (PARTITION BY state) FROM "
    "(SELECT DISTINCT state, customer FROM orders)": "split:hash partition:hash partition:result",
    "SELECT state, count(*) OVER (PARTITION BY state) FROM (SELECT DISTINCT state FROM orders)": (
        BY_HASH
    ),
}
BINARY = {
    "SELECT c.id, o.id FROM orders o {} JOIN customers c ON c.id = o.customer": {
        "INNER": (BOTH_BY_HASH, BROADCAST),
        "LEFT": (BOTH_BY_HASH, BROADCAST),
        "RIGHT": (BOTH_BY_HASH, BROADCAST),
        "FULL": (BOTH_BY_HASH, BOTH_BY_HASH),
    },
    "SELECT o.id FROM orders o {} JOIN customers c ON c.id = o.customer": {
        "SEMI": (BOTH_BY_HASH, BROADCAST),
        "ANTI": (BOTH_BY_HASH, BROADCAST),
    },
    "SELECT o.id, c.id FROM orders o {} JOIN customers c ON o.amount > c.credit AND o.id < 90": {
        "INNER": (BROADCAST, BROADCAST),
        "LEFT": (BROADCAST, BROADCAST),
        "RIGHT": (BROADCAST, BROADCAST),
        "FULL": ("split:all split:all single:result",) * 2,
    },
    "SELECT o.id, p.price FROM orders o {} JOIN prices p "
    "ON o.customer = p.product AND o.placed >= p.since": {
        "ASOF": (BOTH_BY_HASH, BROADCAST),
        "ASOF LEFT": (BOTH_BY_HASH, BROADCAST),
        "ASOF RIGHT": (BOTH_BY_HASH, BOTH_BY_HASH),
    },
    "SELECT id FROM customers {} SELECT customer FROM orders": {
        "UNION ALL": ("split:result split:result",) * 2,
        "UNION": (BOTH_BY_HASH,) * 2,
        "EXCEPT": (BOTH_BY_HASH,) * 2,
        "EXCEPT ALL": (BOTH_BY_HASH,) * 2,
        "INTERSECT": (BOTH_BY_HASH,) * 2,
        "INTERSECT ALL": (BOTH_BY_HASH,) * 2,
    },
    "SELECT id, id {} (SELECT id FROM excluded) FROM customers": {
        "IN": (BROADCAST,) * 2,
        "NOT IN": (BROADCAST,) * 2,
        "> ANY": (BROADCAST,) * 2,
        "<> ALL": (BROADCAST,) * 2,
        "<= ALL": (BROADCAST,) * 2,
    },
    "SELECT * FROM (SELECT id FROM excluded) {} (SELECT number FROM lines WHERE order_id < 3)": {
        "CROSS JOIN": (BROADCAST,) * 2,
        "POSITIONAL JOIN": ("single:result",) * 2,
    },
}
PAIRS = [
    (query.format(word), shapes)
    for query, words in BINARY.items()
    for word, shapes in words.items()
]


def shape(staged: StagedQuery) -> str:
    return " ".join(f"{stage.tasks}:{stage.exchange.kind}" for stage in staged.stages)


def check(connection: duckdb.DuckDBPyConnection, query: str, options: CutOptions, stages: str):
    staged = shop.stager(connection).stage(query, options)
    assert staged.reason == ""
    assert shape(staged) == stages
    answer = connection.execute(query).fetchall()
    for tasks in (1, 3, 5):
        rows = LocalRun(connection, tasks).rows(staged)
        assert Counter(map(repr, rows)) == Counter(map(repr, answer))
        if staged.is_ordered:
            assert rows == answer


@pytest.mark.parametrize(("query", "stages"), UNARY.items())
def test_operators_over_one_table(connection: duckdb.DuckDBPyConnection, query: str, stages: str):
    check(connection, query, shop.BY_KEYS, stages)


@pytest.mark.parametrize(("query", "shapes"), PAIRS)
def test_operators_over_two_tables(
    connection: duckdb.DuckDBPyConnection, query: str, shapes: tuple[str, str]
):
    by_keys, by_broadcast = shapes
    check(connection, query, shop.BY_KEYS, by_keys)
    check(connection, query, shop.BY_BROADCAST, by_broadcast)


def test_materialized_table_is_kept_and_read_twice(connection: duckdb.DuckDBPyConnection):
    query = (
        "WITH t AS MATERIALIZED (SELECT customer, sum(amount) AS s FROM orders GROUP BY customer) "
        "SELECT a.customer, b.s FROM t a JOIN t b ON a.customer = b.customer + 1"
    )
    stages = "split:hash partition:keep split:hash split:hash partition:result"
    check(connection, query, shop.BY_KEYS, stages)


def test_recursion_runs_in_one_task_over_whole_tables(connection: duckdb.DuckDBPyConnection):
    query = (
        "WITH RECURSIVE t(id, depth) AS (SELECT id, 0 FROM customers WHERE id = 1 "
        "UNION SELECT c.id, depth + 1 FROM t JOIN customers c ON c.id = t.id * 2) SELECT * FROM t"
    )
    check(connection, query, shop.BY_KEYS, "single:result")
    (stage,) = shop.stager(connection).stage(query, shop.BY_KEYS).stages
    assert all(scan.whole for scan in stage.scans)


def test_rows_that_lie_by_their_keys_are_not_exchanged_again(
    connection: duckdb.DuckDBPyConnection,
):
    query = (
        "SELECT s.customer, s.total, o.id FROM "
        "(SELECT customer, sum(amount) AS total FROM orders GROUP BY customer) s "
        "JOIN orders o ON o.customer = s.customer"
    )
    check(connection, query, shop.BY_KEYS, "split:hash split:hash partition:result")


def test_aggregate_of_nothing_is_one_row(connection: duckdb.DuckDBPyConnection):
    query = "SELECT count(*), sum(amount), avg(amount), bool_and(id > 1) FROM nothing"
    check(connection, query, shop.BY_KEYS, GATHERED)
    sets = "SELECT id, count(*) FROM nothing GROUP BY GROUPING SETS ((id), ())"
    check(connection, sets, shop.BY_KEYS, BY_HASH)


def test_keys_of_both_sides_have_one_type(connection: duckdb.DuckDBPyConnection):
    """-1 as SMALLINT and as BIGINT hash differently: the keys of the plan have been cast."""
    query = "SELECT o.id, l.product FROM orders o JOIN lines l ON o.id = l.number - 1 + l.quantity"
    check(connection, query, shop.BY_KEYS, BOTH_BY_HASH)


def test_order_of_the_answer_may_be_left_open(connection: duckdb.DuckDBPyConnection):
    stager = shop.stager(connection)
    steady = stager.stage("SELECT id FROM orders LIMIT 3", shop.BY_KEYS)
    joined = "SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer LIMIT 3"
    assert steady.is_steady
    assert not stager.stage(joined, shop.BY_KEYS).is_steady


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT 1", NO_TABLE),
        ("SELECT * FROM range(5)", NO_TABLE),
        ("SELECT id, random() FROM orders", "the volatile function random()"),
        ("SELECT id, uuid() FROM orders", "the volatile function uuid()"),
        ("SELECT * FROM orders TABLESAMPLE 10%", "sample"),
        ("SELECT row(id, state) FROM orders", "a STRUCT without names"),
    ],
)
def test_others_run_in_one_task_with_their_own_text(
    connection: duckdb.DuckDBPyConnection, query: str, reason: str
):
    staged = shop.stager(connection).stage(query, shop.BY_KEYS)
    assert reason.lower() in staged.reason.lower()
    (stage,) = staged.stages
    assert (stage.sql, stage.tasks, stage.exchange.kind) == (query, "single", "result")


@pytest.fixture
def file(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> str:
    path = str(tmp_path / "orders.parquet")
    connection.execute(f"COPY orders TO '{path}' (FORMAT parquet)")
    return path


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, state FROM '{}' WHERE amount > 50",
        "SELECT count(*) FROM '{}'",
        "SELECT t.a, t.b FROM '{}' AS t(a, b)",
        "SELECT t.a, t.b FROM orders AS t(a, b)",
        "SELECT o.id FROM (SELECT * FROM read_parquet('{}', explicit_cardinality := 7)) o",
    ],
)
def test_one_parquet_file_is_a_table(connection: duckdb.DuckDBPyConnection, file: str, query: str):
    shape_of_query = GATHERED if "count" in query else SCAN
    check(connection, query.format(file), shop.BY_KEYS, shape_of_query)


@pytest.mark.parametrize(
    "option", ["binary_as_string", "can_have_nan", "filename", "file_row_number"]
)
def test_parquet_files_with_options_are_refused(
    connection: duckdb.DuckDBPyConnection, file: str, option: str
):
    query = f"SELECT * FROM read_parquet('{file}', {option} = true)"
    staged = shop.stager(connection).stage(query, shop.BY_KEYS)
    assert staged.reason == f"the scan read_parquet() with {option} true"


class OtherTypes(SharedPlans):
    """Writes plans in which each HUGEINT is a BIGINT, as if DuckDB's binder had changed."""

    def plan(self, query: str) -> SerializedPlan:
        text = json.dumps(super().plan(query).tree)
        return SerializedPlan(json.loads(text.replace("HUGEINT", "BIGINT")))


def test_stage_of_other_types_than_the_plan_is_refused(connection: duckdb.DuckDBPyConnection):
    query = "SELECT CAST(sum(id) AS VARCHAR) FROM orders"
    staged = QueryStager(OtherTypes(connection)).stage(query, shop.BY_KEYS)
    assert staged.reason == "a stage with a column of HUGEINT for BIGINT"
    assert LocalRun(connection, 3).rows(staged) == connection.execute(query).fetchall()
