"""Odd plans, deep queries and interrupts: what is unknown is refused, what is ended ends."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from jetbridge.dialects.quoting import literal
from jetbridge.distributed.decode import decode_plan
from jetbridge.distributed.staging import QueryStager
from jetbridge.distributed.types import NotDistributed
from jetbridge.duckdb_engine.instance import extension_file
from jetbridge.duckdb_engine.serialized_plans import (
    FALLBACK_CONFIG,
    PLAN_CONFIG,
    Columns,
    PlanSerializer,
    SerializedPlan,
)
from jetbridge.errors import Cancelled
from jetbridge.runtime import cancellation
from tests.distributed import shop

CHANGES = 60
OTHERS: list[Any] = [None, True, -1, 2**70, 1e400, "", "NONE_OF_THESE", [], [None], {}, {"id": []}]
Step = str | int
FALLING_BACK = "SELECT t.tag FROM products, unnest(tags) t(tag)"


@pytest.fixture(scope="module")
def trees() -> list[Any]:
    """Return the plans of TPC-H, over empty tables."""
    with duckdb.connect(config={"threads": 1, **PLAN_CONFIG}) as connection:
        connection.execute(f"LOAD {literal(str(extension_file('tpch')))}")
        connection.execute("CALL dbgen(sf = 0)")
        queries = connection.sql("FROM tpch_queries() SELECT query").fetchall()
        return [PlanSerializer(connection).plan(query.rstrip(";\n ")).tree for (query,) in queries]


def paths(value: Any, above: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the way to each field and element of a tree."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for step, below in items:
        yield (*above, step)
        yield from paths(below, (*above, step))


def change(tree: Any, path: tuple[Step, ...], chance: random.Random) -> None:
    for step in path[:-1]:
        tree = tree[step]
    if chance.random() < 0.3:
        del tree[path[-1]]
    else:
        tree[path[-1]] = chance.choice(OTHERS)


@pytest.mark.parametrize("number", range(22))
def test_changed_plans_are_read_or_refused(trees: list[Any], number: int):
    tree, chance = trees[number], random.Random(number)
    ways, refused = list(paths(tree)), []
    for _ in range(CHANGES):
        changed = copy.deepcopy(tree)
        change(changed, chance.choice(ways), chance)
        try:
            decode_plan(changed)
        except NotDistributed as reason:
            refused.append(str(reason))
    assert refused
    assert not any("Error(" in reason for reason in refused)


class ChangedPlans(PlanSerializer):
    """Writes one plan with a change in it, another one for each query."""

    chance = random.Random(5)

    def plan(self, query: str) -> SerializedPlan:
        tree = super().plan(query).tree
        change(tree, self.chance.choice(list(paths(tree))), self.chance)
        return SerializedPlan(tree)


def test_queries_with_changed_plans_have_stages():
    query = (
        "SELECT state, max(list_sum([o.id, 1])) AS m, count(*) FROM orders o JOIN customers c "
        "ON o.customer = c.id WHERE amount > 5 AND state IN ('open', 'paid') GROUP BY ALL "
        "ORDER BY m LIMIT 3"
    )
    with shop.open_shop(PLAN_CONFIG) as connection:
        stager = QueryStager(ChangedPlans(connection))
        reasons = [stager.stage(query, shop.BY_KEYS).reason for _ in range(400)]
    assert "" in reasons
    assert "a plan with values of other types than DuckDB 1.5 writes" in reasons


@pytest.mark.parametrize("tree", [None, [], 7, {"error": False, "plans": 7}])
def test_what_is_no_plan_is_refused(tree: Any):
    with pytest.raises(NotDistributed):
        decode_plan(tree)


@pytest.mark.parametrize("term", ["-({})", "abs({})"])
def test_queries_of_any_depth_have_stages(connection: duckdb.DuckDBPyConnection, term: str):
    stager, reasons, expression = shop.stager(connection), set(), "id"
    for depth in range(1, 320):
        expression = term.format(expression)
        if depth % 26 == 0:
            reasons.add(stager.stage(f"SELECT {expression} AS x FROM orders", shop.BY_KEYS).reason)
    assert "" in reasons
    assert "a plan that is nested too deeply" in reasons


def test_plans_are_written_where_the_configuration_is_locked():
    with shop.open_shop(PLAN_CONFIG) as first, shop.open_shop(FALLBACK_CONFIG) as second:
        for connection in (first, second):
            connection.execute("SET lock_configuration = true")
        serializer = PlanSerializer(first, second)
        for query in ("SELECT id FROM orders", FALLING_BACK):
            serialized = serializer.plan(query)
            assert serialized.problem == ""
            decode_plan(serialized.tree)
        assert PlanSerializer(first).plan(FALLING_BACK).problem != ""


@pytest.fixture
def interrupting() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB in which planning `ending(1)` interrupts the plan."""
    with shop.open_shop(PLAN_CONFIG) as connection:

        def ending(value: int) -> int:
            connection.interrupt()
            return value

        connection.create_function("ending", ending, ["INTEGER"], "INTEGER")
        yield connection


def test_interrupts_of_planning_are_raised(interrupting: duckdb.DuckDBPyConnection):
    query = "SELECT id FROM orders WHERE id > ending(1)"
    with pytest.raises(duckdb.InterruptException):
        PlanSerializer(interrupting).plan(query)
    with cancellation.scope() as statement:
        statement.cancel()
        with pytest.raises(Cancelled):
            PlanSerializer(interrupting).plan(query)


def test_statement_that_is_cancelled_has_no_problem_of_its_plan(
    connection: duckdb.DuckDBPyConnection,
):
    with cancellation.scope() as statement:
        statement.cancel()
        with pytest.raises(Cancelled):
            PlanSerializer(connection).plan("SELECT missing FROM orders")


class EndingBinds(PlanSerializer):
    """Is interrupted as soon as it binds a stage."""

    def columns(self, query: str) -> Columns:
        if query.startswith("WITH "):
            raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")
        return super().columns(query)


def test_interrupts_of_binding_are_raised():
    with shop.open_shop(PLAN_CONFIG) as connection:
        stager = QueryStager(EndingBinds(connection))
        with pytest.raises(duckdb.InterruptException):
            stager.stage("SELECT id FROM orders", shop.BY_KEYS)
