"""Scans read the columns that a query needs, and no others."""

import duckdb
import pytest

from jetbridge.distributed import plan
from jetbridge.distributed.prune import prune
from tests.distributed import shop

QUERIES = {
    "SELECT id FROM orders": [{"id"}],
    "SELECT count(*) FROM orders": [{""}],
    "SELECT count(*) FROM orders WHERE amount > 3": [{"amount"}],
    "SELECT state FROM orders ORDER BY placed": [{"state", "placed"}],
    "SELECT s FROM (SELECT state, sum(id) AS s, avg(amount) FROM orders GROUP BY state)": [
        {"state", "id"}
    ],
    "SELECT c.name FROM customers c JOIN orders o ON o.customer = c.id AND o.amount > c.credit": [
        {"id", "credit", "name"},
        {"customer", "amount"},
    ],
    "SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders)": [
        {"id"},
        {"customer"},
    ],
    "SELECT id FROM (SELECT id, name FROM customers UNION ALL SELECT id, state FROM orders)": [
        {"id"},
        {"id"},
    ],
    "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY placed) AS r FROM orders)": [{"id"}],
    "SELECT DISTINCT country FROM customers": [{"country"}],
    "WITH t AS MATERIALIZED (SELECT * FROM orders) SELECT a.id FROM t a JOIN t b "
    "ON a.id = b.customer": [{"id", "customer"}],
    "SELECT rowid FROM customers WHERE name IS NULL": [{"rowid", "name"}],
}


@pytest.mark.parametrize(("query", "columns"), QUERIES.items())
def test_scans_read_what_is_needed(
    connection: duckdb.DuckDBPyConnection, query: str, columns: list[set[str]]
):
    node = shop.stager(connection).decoded(query)
    pruned = prune(node)
    assert pruned.types == node.types
    scans = [part for part in plan.walk(pruned) if isinstance(part, plan.Get)]
    read = [{column.name for column in scan.columns} for scan in scans]
    assert sorted(map(sorted, read)) == sorted(map(sorted, columns))
