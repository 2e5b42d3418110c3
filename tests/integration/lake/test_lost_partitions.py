"""Tables whose metadata has partitions by a column that is gone."""

from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance import optimize
from jetbridge.backends.lake.maintenance.optimize import OptimizeOptions
from jetbridge.backends.lake.read.relation import is_read_by_duckdb
from jetbridge.catalog import SchemaInfo
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from tests.conformance.harness import insert
from tests.helpers.lakes import new_lake
from tests.integration.lake.test_layout import Laid, data

pytestmark = [pytest.mark.lake, pytest.mark.full]

LOST = r"partitions by 'region', which is no column any more.*optimize .*--older-than 0s"


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    made = new_lake()
    made.create_schema(SchemaInfo("s"))
    return made


def run_sql(lake: LakeCatalog, text: str) -> list[tuple[Any, ...]]:
    """Return the rows of the last statement."""
    with closing(Session({"l": lake})) as session:
        tables = [outcome.table() for outcome in run(session, text)]
    columns = [column.to_pylist() for column in tables[-1].columns]
    return list(zip(*columns, strict=True))


def test_a_table_replaced_by_one_without_the_partition_column_is_changed(lake):
    old = "CREATE TABLE l.s.lost AS SELECT i AS id, i % 2 AS region FROM range(4) r(i)"
    run_sql(lake, f"{old}; ALTER TABLE l.s.lost SET PARTITIONED BY (region)")
    run_sql(lake, "INSERT INTO l.s.lost VALUES (10, 3)")
    before = lake.lake.tables.load("s", "lost").version
    new = "CREATE OR REPLACE TABLE l.s.lost AS SELECT i AS id, 'x' AS n FROM range(4) r(i)"
    run_sql(lake, f"{new}; INSERT INTO l.s.lost VALUES (10, 'z')")
    run_sql(lake, "UPDATE l.s.lost SET n = 'y' WHERE id IN (1, 10)")
    run_sql(lake, "DELETE FROM l.s.lost WHERE id = 2")
    rows = [(0, "x"), (1, "y"), (3, "x"), (10, "y")]
    assert run_sql(lake, "FROM l.s.lost ORDER BY id") == rows
    past = [(0, 0), (1, 1), (2, 0), (3, 1), (10, 3)]
    assert run_sql(lake, f"FROM l.s.lost AT (VERSION => {before}) ORDER BY id") == past
    merge = (
        "MERGE INTO l.s.lost USING (SELECT 3 AS id) v ON lost.id = v.id "
        "WHEN MATCHED THEN UPDATE SET n = 'm'"
    )
    with pytest.raises(FailedPrecondition, match=LOST):
        run_sql(lake, merge)
    optimize.optimize(lake.lake, "s", "lost", OptimizeOptions(timedelta()))
    run_sql(lake, merge)
    rows[2] = (3, "m")
    assert run_sql(lake, "FROM l.s.lost ORDER BY id") == rows


def test_rows_in_partitions_of_a_column_that_was_removed_are_changed_after_optimize(lake):
    old = "CREATE TABLE l.s.gone AS SELECT i AS id, i % 2 AS region FROM range(4) r(i)"
    run_sql(lake, f"{old}; ALTER TABLE l.s.gone SET PARTITIONED BY (region)")
    run_sql(lake, "INSERT INTO l.s.gone VALUES (10, 3)")
    run_sql(lake, "ALTER TABLE l.s.gone SET PARTITIONED BY (bucket(2, id))")
    with pytest.raises(FailedPrecondition, match=r"partitions by 'region'.*jetbridge optimize"):
        run_sql(lake, "ALTER TABLE l.s.gone DROP COLUMN region")
    optimize.optimize(lake.lake, "s", "gone")
    run_sql(lake, "ALTER TABLE l.s.gone DROP COLUMN region; INSERT INTO l.s.gone VALUES (11)")
    assert run_sql(lake, "FROM l.s.gone ORDER BY id") == [(0,), (1,), (2,), (3,), (10,), (11,)]
    for text in ("UPDATE l.s.gone SET id = 12 WHERE id = 10", "DELETE FROM l.s.gone WHERE id = 0"):
        with pytest.raises(FailedPrecondition, match=LOST):
            run_sql(lake, text)
    assert run_sql(lake, "FROM l.s.gone ORDER BY id") == [(0,), (1,), (2,), (3,), (10,), (11,)]
    optimize.optimize(lake.lake, "s", "gone", OptimizeOptions(timedelta()))
    run_sql(lake, "UPDATE l.s.gone SET id = 12 WHERE id = 10; DELETE FROM l.s.gone WHERE id = 0")
    assert run_sql(lake, "FROM l.s.gone ORDER BY id") == [(1,), (2,), (3,), (11,), (12,)]


def test_rows_in_partitions_of_a_column_that_another_engine_removed_are_read(lake):
    table = Laid(lake, "orphaned")
    table.lay_out("region")
    insert(table.load(), data(0, 6))
    table.lay_out("")
    table.ask("ALTER TABLE {} DROP COLUMN region")
    assert not is_read_by_duckdb(lake.lake.read, table.state())
    assert run_sql(lake, "SELECT id, amount FROM l.s.orphaned ORDER BY id") == [
        (n, n / 4) for n in range(6)
    ]
    with pytest.raises(FailedPrecondition, match=r"partitions by 'Region'.*--older-than 0s"):
        run_sql(lake, "DELETE FROM l.s.orphaned WHERE id = 3")
    optimize.optimize(lake.lake, "s", "orphaned", OptimizeOptions(timedelta()))
    assert is_read_by_duckdb(lake.lake.read, table.state())
    run_sql(lake, "DELETE FROM l.s.orphaned WHERE id = 3")
    assert run_sql(lake, "SELECT id FROM l.s.orphaned ORDER BY id") == [
        (n,) for n in (0, 1, 2, 4, 5)
    ]
