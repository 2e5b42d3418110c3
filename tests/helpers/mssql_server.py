"""One SQL Server for all tests of a run, and databases of their own.

It is the stand-in, in a process of its own, or the server whose connection string is in
`JETBRIDGE_TEST_MSSQL`: its login must be allowed to create and drop databases.
"""

import atexit
import itertools
import os
from dataclasses import replace
from functools import cache

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.address import Address, parse
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.dialects.tsql.statements import bracket
from jetbridge.spark.engine import SparkEngine
from standins.tds import process
from standins.tds.process import ServerProcess

GIVEN = "JETBRIDGE_TEST_MSSQL"

_numbers = itertools.count()


def is_given() -> bool:
    """Return whether the server is a real one, which does not fail on order."""
    return bool(os.environ.get(GIVEN))


class StandIn(ServerProcess):
    """Run the stand-in, of which tests order faults (standins/tds/control.py)."""

    def master(self) -> Address:
        return Address(f"127.0.0.1,{self.port}", "master", "sa", "secret", "no", trust=True)


def start() -> StandIn:
    return StandIn(*process.start())


@cache
def stand_in() -> StandIn:
    started = start()
    atexit.register(close)
    return started


@cache
def _master() -> ConnectionPool:
    given = os.environ.get(GIVEN)
    return ConnectionPool(parse(given) if given else stand_in().master())


def is_babelfish() -> bool:
    return _master().is_babelfish()


@cache
def _made() -> list[str]:
    return []


def close() -> None:
    """Drop what a real server would keep, and end the stand-in."""
    if _master.cache_info().currsize:
        with _master().borrow_core() as connection:
            for name in _made():
                connection.run(f"DROP DATABASE {bracket(name)}")
        _master().close()
    if stand_in.cache_info().currsize:
        stand_in().stop()
    for each in (_master, stand_in, _made):
        each.cache_clear()


def address() -> Address:
    """Return the address of a new, empty database."""
    name = f"jetbridge_test_{os.getpid()}_{next(_numbers)}"
    with _master().borrow_core() as connection:
        connection.run(f"CREATE DATABASE {bracket(name)}")
    _made().append(name)
    return replace(_master().address, database=name)


def new_catalog(engine: SparkEngine | None = None, **settings: str) -> MssqlCatalog:
    """Return an empty catalog, whose database allows snapshots where the server has that option."""
    made = address()
    if not is_babelfish():
        name = bracket(made.database)
        with _master().borrow_core() as connection:
            connection.run(f"ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON")
    given = MssqlSettings().with_changes(settings)
    return MssqlCatalog("m", made, settings=given, engine=engine)


def server() -> ConnectionPool:
    return ConnectionPool(address())
