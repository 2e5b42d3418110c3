"""`jetbridge optimize` beside servers that commit, drop and die: it looks again for what is gone.

Attacked: servers killed at random beside `jetbridge optimize`, which failed twice for metadata that
was gone.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.optimize import OptimizeOptions, _Optimize, optimize
from jetbridge.catalog import CreateTable, SchemaInfo
from tests.conformance.harness import insert, rows
from tests.helpers.lakes import engine, folder, new_lake, reader

pytestmark = pytest.mark.lake

COLUMNS = pa.schema({"id": pa.int64()})


@pytest.fixture
def lake() -> LakeCatalog:
    made = new_lake()
    schema = made.create_schema(SchemaInfo("s"))
    for name in ("mine", "other"):
        insert(schema.create_table(CreateTable(name, COLUMNS)), {"id": [1]})
    insert(schema.load_table("mine"), {"id": [2]})
    return made


def beside(lake: LakeCatalog) -> LakeCatalog:
    """The same lake as another server has it."""
    name = lake.lake.name
    return LakeCatalog(name, folder() / name, engine(), reader=reader())


class Once:
    """Calls `method`, and then, the first time only, `then`; so the answer is old already."""

    def __init__(self, method: Callable[..., Any], then: Callable[[], object]) -> None:
        self._method, self._then, self.calls = method, then, 0

    def __call__(self, *arguments: object) -> Any:
        answer = self._method(*arguments)
        self.calls += 1
        if self.calls == 1:
            self._then()
        return answer


def test_a_table_that_commits_between_two_steps_is_looked_for_again(
    lake: LakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Path(lake.lake.tables.load("s", "mine").location)

    def commit() -> None:
        insert(beside(lake).load_schema("s").load_table("mine"), {"id": [3]})
        old.unlink()

    other = beside(lake)
    find = Once(other.lake.tables.pointers.find, commit)
    monkeypatch.setattr(other.lake.tables.pointers, "find", find)
    assert rows(other.load_schema("s").load_table("mine")) == [(1,), (2,), (3,)]
    assert find.calls > 1


def test_optimize_goes_on_when_another_table_is_dropped_meanwhile(
    lake: LakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = lake.lake.tables.load("s", "other").folder

    def drop() -> None:
        beside(lake).load_schema("s").drop_table("other")
        shutil.rmtree(gone)

    orphan = Path(lake.lake.tables.load("s", "mine").folder, "data", "orphan.parquet")
    orphan.write_bytes(b"")
    os.utime(orphan, (0, 0))
    mine = beside(lake)
    listing = Once(mine.lake.tables.pointers.listing, drop)
    monkeypatch.setattr(mine.lake.tables.pointers, "listing", listing)
    optimize(mine.lake, "s", "mine", OptimizeOptions())
    assert listing.calls > 1
    assert not orphan.exists()
    assert rows(lake.load_schema("s").load_table("mine")) == [(1,), (2,)]


@pytest.mark.parametrize("times", [1, 10])
def test_a_file_that_spark_misses_is_looked_for_again(lake: LakeCatalog, times: int) -> None:
    work = _Optimize(
        lake.lake, lake.lake.tables.load("s", "mine"), OptimizeOptions(), lambda _: None
    )
    calls = 0

    def read() -> str:
        nonlocal calls
        calls += 1
        if calls > times:
            return "read"
        with lake.lake.warehouse.session("s.mine") as session:
            work._table(session).io().newInputFile("/no/such/file").newStream()
        return "never"

    if times == 1:
        assert work._retry(read) == "read"
    else:
        with pytest.raises(Py4JJavaError, match="NotFoundException"):
            work._retry(read)
