"""Changes that take longer than the 30 seconds that the driver waits for SQL Server."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from jetbridge.backends.mssql.write import staged_load
from jetbridge.errors import LimitExceeded
from tests.faults.mssql.scene import TABLE, Scene, opened
from tests.helpers import mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
# The driver asks the server to end the statement, and waits some seconds for its answer.
LONG = 36.0
# A column that bulk copy does not fill, so INSERT is a statement, too.
DEFINED = "id bigint NOT NULL PRIMARY KEY, name nvarchar(50), v money"
OLD = [(i, f"old {i}", i) for i in range(10)]


@dataclass(frozen=True)
class Change:
    """Hold a change; `text` is the statement at its end, which takes so long."""

    statement: str
    text: str
    after: list[tuple[int, str, int]]


CHANGES = {
    "update": Change(
        f"UPDATE {TABLE} SET v = v + 100 WHERE id < 5",
        "UPDATE t SET",
        [(i, name, v + 100 if i < 5 else v) for i, name, v in OLD],
    ),
    "delete": Change(f"DELETE FROM {TABLE} WHERE id < 5", "DELETE t FROM", OLD[5:]),
    "insert": Change(
        f"INSERT INTO {TABLE} SELECT i, 'new ' || i, i FROM range(10, 20) r(i)",
        r"INSERT INTO \[dbo\]\.\[target\] .* SELECT",
        [*OLD, *((i, f"new {i}", i) for i in range(10, 20))],
    ),
    "merge": Change(
        f"MERGE INTO {TABLE} AS t USING (SELECT i FROM range(9, 12) r(i)) s ON t.id = s.i "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name, v) VALUES (i, 'new', i)",
        "MERGE INTO",
        [*OLD[:9], (10, "new", 10), (11, "new", 11)],
    ),
}


@pytest.fixture
def scene(tmp_path) -> Iterator[Scene]:
    """Open a scene without Spark."""
    with opened(None, tmp_path) as there:
        with there.witness.borrow_core() as connection:
            connection.run(f"CREATE TABLE dbo.target ({DEFINED})")
        there.bench.sql(f"INSERT INTO {TABLE} SELECT i, 'old ' || i, i FROM range(10) r(i)")
        yield there


def rows(scene: Scene) -> list[tuple[int, str, int]]:
    return scene.bench.rows(f"SELECT id, name, v::BIGINT FROM {TABLE} ORDER BY id")


def check(scene: Scene, change: Change, times: int) -> None:
    scene.order(when="statement", pattern=change.text, delay=LONG, times=times)
    scene.bench.sql(change.statement)
    assert scene.fired() == times
    assert rows(scene) == change.after
    assert scene.left() == []


@pytest.mark.full
def test_a_slow_change_is_done_by_way_of_a_staging_table(scene):
    check(scene, CHANGES["update"], 1)


@pytest.mark.soak
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_by_way_of_a_staging_table_has_no_time_limit(scene, change):
    check(scene, change, 2)


@pytest.mark.soak
def test_a_login_without_the_right_to_create_tables_gets_an_error_that_names_it(scene, monkeypatch):
    monkeypatch.setattr(staged_load, "_may_stage", lambda database, schema: False)
    scene.order(when="statement", pattern="UPDATE t SET", delay=LONG)
    with pytest.raises(LimitExceeded, match="a login that may CREATE TABLE"):
        scene.bench.sql(CHANGES["update"].statement)
    assert rows(scene) == OLD
