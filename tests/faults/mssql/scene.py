"""A SQL Server of one's own that fails on order, statements that load it, and what must then hold.

After a statement its table holds all rows of it or none, never some of them or some twice; then
the next statement works, and no table of a load is left.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog, SpoolOptions
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.settings import SETTINGS, MssqlSettings
from jetbridge.errors import ServerError
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from jetbridge.spark.engine import SparkEngine
from tests.helpers import mssql_server
from tests.helpers.mssql_server import StandIn
from tests.pipeline.targets import Bench

DATABASE = "faults"
TABLE = "t.dbo.target"
KINDS = ("new", "replace", "insert")
# By Spark, and at once.
LARGE, FEW = 20_000, 500
MILLION = 1_000_000
OLD = "SELECT -1 - i AS id, 'old ' || i AS name, i AS v FROM range(100) r(i)"
EMPTY = f"FROM ({OLD}) WHERE false"
# What the server itself says; DISTINCT and SUM tell rows that are there twice from others lost.
_TOTALS = "SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT id), SUM(id) FROM dbo.target"
_LEFT = "SELECT name FROM sys.tables WHERE name LIKE N'jetbridge[_]%' ORDER BY name"
_THERE = "SELECT 1 WHERE OBJECT_ID(N'dbo.target', N'U') IS NOT NULL"
# So few rows go by Spark, in several parts.
SMALL: Mapping[str, str] = {"mssql_direct_load_rows": "1000", "mssql_copy_flush_rows": "4000"}
# The statement that publishes what was loaded beside the target.
PUBLISHES = {
    "new": "sp_rename",
    "replace": "sp_rename",
    "insert": r"INSERT INTO \[dbo\]\.\[target\] .* SELECT",
}
UNKNOWN = "check the table before you run the statement again"


def rows_of(count: int) -> str:
    return (
        f"SELECT i AS id, 'row ' || i AS name, (i * 7919) % 1000003 AS v FROM range({count}) r(i)"
    )


@dataclass(frozen=True)
class Work:
    """`new` and `replace` are CREATE TABLE AS, `insert` adds to a table with other rows."""

    kind: str
    rows: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.rows}"

    @property
    def statement(self) -> str:
        begins = {
            "new": f"CREATE TABLE {TABLE} AS",
            "replace": f"CREATE OR REPLACE TABLE {TABLE} AS",
            "insert": f"INSERT INTO {TABLE}",
        }
        return f"{begins[self.kind]} {rows_of(self.rows)}"

    @property
    def after(self) -> str:
        new = rows_of(self.rows)
        return f"({OLD}) UNION ALL ({new})" if self.kind == "insert" else new


def in_soak(works: Iterable[Work], *, but: Iterable[Work]) -> list[Any]:
    """As parameters of a test: only `but` is for every run."""
    always = set(but)
    return [
        pytest.param(each, id=str(each), marks=() if each in always else pytest.mark.soak)
        for each in works
    ]


LARGE_ONES = [Work(kind, LARGE) for kind in KINDS]
SMALL_ONES = [Work(kind, FEW) for kind in KINDS]


@dataclass
class Scene:
    """`witness` has connections of its own, so what it sees is not what the session remembers."""

    server: StandIn
    witness: ConnectionPool
    bench: Bench

    def order(self, **fault: Any) -> None:
        assert self.server.order(fault=fault) == {"ok": True}

    def clear(self) -> None:
        assert self.server.order(clear=True) == {"ok": True}

    def counts(self) -> dict[str, Any]:
        return self.server.order(counts=True)

    def fired(self) -> int:
        return int(self.server.order(fired=True)["fired"])

    def left(self) -> list[str]:
        return [name for (name,) in self.witness.query(_LEFT)]

    def prepare(self, work: Work) -> None:
        self.clear()
        self.bench.sql(f"DROP TABLE IF EXISTS {TABLE}")
        if work.kind != "new":
            self.bench.sql(f"CREATE TABLE {TABLE} AS {OLD}")

    def attempt(self, work: Work) -> ServerError | None:
        """What it raised; all that is wrong with the server ends with it."""
        try:
            self.bench.sql(work.statement)
        except ServerError as error:
            return error
        finally:
            self.clear()
        return None

    def holds(self, query: str) -> bool:
        """Whether the target has exactly these rows: by its totals, and by EXCEPT both ways."""
        wanted = f"SELECT count(*), count(DISTINCT id), sum(id)::BIGINT FROM ({query})"
        if self.witness.query(_TOTALS) != self.bench.rows(wanted):
            return False
        missing, more = f"({query}) EXCEPT ALL FROM {TABLE}", f"FROM {TABLE} EXCEPT ALL ({query})"
        both = f"SELECT (SELECT count(*) FROM ({missing})), (SELECT count(*) FROM ({more}))"
        return self.bench.rows(both) == [(0, 0)]

    def is_as_before(self, work: Work) -> bool:
        if work.kind == "new":
            return not self.witness.query(_THERE) or self.holds(EMPTY)
        return self.holds(OLD)

    def holds_after(self, work: Work) -> bool:
        return bool(self.witness.query(_THERE)) and self.holds(work.after)

    def check(self, work: Work, error: ServerError | None) -> None:
        """All rows or none; which of them, the error tells."""
        if error is None:
            assert self.holds(work.after), self.told(work, error)
        elif UNKNOWN in str(error):
            assert self.is_as_before(work) or self.holds_after(work), self.told(work, error)
        else:
            assert self.is_as_before(work), self.told(work, error)

    def told(self, work: Work, error: ServerError | None) -> str:
        found = self.witness.query(_TOTALS) if self.witness.query(_THERE) else "no table"
        return f"{work}: {found} after {error!r}"

    def check_next(self, work: Work) -> None:
        """The same again succeeds, and nothing of the load that failed is there."""
        self.clear()
        if work.kind == "insert":
            self.prepare(work)
        again = work if work.kind == "insert" else replace(work, kind="replace")
        assert self.attempt(again) is None
        assert self.holds(work.after)
        assert self.left() == []


def _addressed(server: StandIn) -> Address:
    return replace(server.master(), database=DATABASE)


def new_session(server: StandIn, engine: SparkEngine | None, folder: Path) -> Bench:
    """`folder` takes the spools."""
    catalog = MssqlCatalog(
        "t",
        _addressed(server),
        settings=MssqlSettings(),
        engine=engine,
        options=SpoolOptions(spool=str(folder)),
    )
    spark = None if engine is None else SparkRunner(engine, str(folder), lambda: "test")
    return Bench(
        "mssql",
        Session({"t": catalog}, SessionResources(spark=spark, settings=SettingValues(SETTINGS))),
        catalog,
    )


@contextmanager
def opened(engine: SparkEngine | None, folder: Path, **settings: str) -> Iterator[Scene]:
    server = mssql_server.start()
    master = ConnectionPool(server.master())
    with master.borrow_core() as connection:
        connection.run(f"CREATE DATABASE {DATABASE}")
    master.close()
    witness = ConnectionPool(_addressed(server))
    bench = new_session(server, engine, folder)
    for name, value in settings.items():
        bench.sql(f"SET {name} = '{value}'")
    try:
        yield Scene(server, witness, bench)
    finally:
        bench.session.close()
        bench.catalog.close()
        witness.close()
        server.stop()
