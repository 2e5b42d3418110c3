"""Plans are read strictly: what is unknown is refused by name, never ignored."""

import copy
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from jetbridge.distributed import plan
from jetbridge.distributed.decode import decode_plan
from jetbridge.distributed.types import NotDistributed
from tests.distributed.shared_plans import SharedPlans

QUERY = "SELECT id + 1 AS n, state FROM orders WHERE amount > 5 ORDER BY n"


@pytest.fixture
def tree(connection: duckdb.DuckDBPyConnection) -> Any:
    return SharedPlans(connection).plan(QUERY).tree


def operator(tree: Any, kind: str) -> Any:
    (node,) = tree["plans"]
    while node["type"] != kind:
        (node,) = node["children"]
    return node


def test_plan_is_read_into_structs(tree: Any):
    node = decode_plan(tree)
    kinds = [type(part) for part in plan.walk(node)]
    assert kinds[-1] is plan.Get
    assert plan.OrderBy in kinds
    assert [type.name for type in node.types] == ["BIGINT", "VARCHAR"]


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a field of an operator": (
        "LOGICAL_ORDER_BY with the field new_field",
        lambda tree: operator(tree, "LOGICAL_ORDER_BY").update(new_field=1),
    ),
    "an operator": (
        "the operator LOGICAL_SHUFFLE",
        lambda tree: operator(tree, "LOGICAL_ORDER_BY").update(type="LOGICAL_SHUFFLE"),
    ),
    "a field of a scan": (
        "the scan seq_scan() with the field at_version",
        lambda tree: operator(tree, "LOGICAL_GET").update(at_version=7),
    ),
    "a table function": (
        "the table function sniff()",
        lambda tree: operator(tree, "LOGICAL_GET").update(name="sniff"),
    ),
    "an expression": (
        "the expression BOUND_ORACLE",
        lambda tree: operator(tree, "LOGICAL_PROJECTION")["expressions"][0].update(
            expression_class="BOUND_ORACLE"
        ),
    ),
    "a field of an expression": (
        "with the field precision",
        lambda tree: operator(tree, "LOGICAL_PROJECTION")["expressions"][0].update(precision=3),
    ),
    "a type": (
        "the type QUATERNION",
        lambda tree: operator(tree, "LOGICAL_PROJECTION")["expressions"][0].update(
            return_type={"id": "QUATERNION", "type_info": None}
        ),
    ),
    "a filter of a scan": (
        "the filter BLOOM_FILTER of a scan",
        lambda tree: operator(tree, "LOGICAL_GET")["table_filters"]["filters"][0]["value"].update(
            filter_type="BLOOM_FILTER"
        ),
    ),
    "a missing field": (
        "LOGICAL_ORDER_BY without the field orders",
        lambda tree: operator(tree, "LOGICAL_ORDER_BY").pop("orders"),
    ),
    "another shape": (
        "a plan of another shape",
        lambda tree: operator(tree, "LOGICAL_GET").update(table_filters=None),
    ),
    "another statement": ("2 statements", lambda tree: tree["plans"].append(tree["plans"][0])),
}


@pytest.mark.parametrize("title", CHANGES)
def test_unknown_parts_are_refused_by_name(tree: Any, title: str):
    message, change = CHANGES[title]
    changed = copy.deepcopy(tree)
    change(changed)
    with pytest.raises(NotDistributed) as refused:
        decode_plan(changed)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM missing", "SELECT 1; SELECT 2", "CREATE TABLE t (a INT)", "SELEC 1"],
)
def test_text_without_a_plan_is_a_problem(connection: duckdb.DuckDBPyConnection, query: str):
    serialized = SharedPlans(connection).plan(query)
    if not serialized.problem:
        with pytest.raises(NotDistributed):
            decode_plan(serialized.tree)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.tag FROM products, unnest(tags) t(tag)",
        "SELECT list(id) OVER (PARTITION BY state) AS l FROM orders QUALIFY l[1] = 2",
        "SELECT list(o.id) FROM (SELECT id, row_number() OVER (ORDER BY state DESC, id) AS r "
        "FROM orders ORDER BY amount) AS o WHERE r < 4",
    ],
)
def test_plans_that_serialise_only_with_fewer_optimizers(
    connection: duckdb.DuckDBPyConnection, query: str
):
    serialized = SharedPlans(connection).plan(query)
    assert serialized.problem == ""
    decode_plan(serialized.tree)
