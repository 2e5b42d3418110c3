"""Ctrl-C and cancelled calls of whole commands, and what killed commands leave in SQL Server.

Attacked: six of six loads of 6,000,000 rows over one connection ran to their end, with exit 0.
"""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from jetbridge.cli.terminal import INTERRUPTED
from jetbridge.client import connect
from tests.helpers import mssql_server
from tests.helpers.mssql_orders import failing
from tests.helpers.waiting import wait_until
from tests.security.cancelled.mssql_commands import Place, loads
from tests.security.cancelled.running import Caller, status

pytestmark = pytest.mark.mssql
# Less than two seconds where the machine is not busy; the whole load takes fifteen or more.
AT_ONCE = 8.0
ROWS = "SELECT i AS id, 'row ' || i AS name FROM range(6000000) r(i)"
STATEMENTS = {
    "new": f"CREATE TABLE m.dbo.made AS {ROWS}",
    "replace": f"CREATE OR REPLACE TABLE m.dbo.old AS {ROWS}",
    "insert": f"INSERT INTO m.dbo.old {ROWS}",
}
OLD = [(-1, "old")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    if mssql_server.is_given():
        pytest.skip("only the stand-in tells how many rows it has got")
    made = Place(tmp_path)
    with made.server.borrow_core() as connection:
        connection.run("CREATE TABLE dbo.old (id bigint, name nvarchar(max))")
        connection.run("INSERT INTO dbo.old VALUES (-1, N'old')")
    yield made
    made.server.close()


def unchanged(place: Place) -> bool:
    return place.tables() == ["old"] and place.server.query("SELECT id, name FROM dbo.old") == OLD


def said(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", STATEMENTS)
def test_ctrl_c_ends_a_load_over_one_connection(place, kind):
    with place.start("sql", STATEMENTS[kind]) as process:
        with loads(200_000):
            pass
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == INTERRUPTED
        assert time.monotonic() - began < AT_ONCE
        assert "changed nothing" in said(process)
    assert unchanged(place)
    assert list(place.temporary.iterdir()) == []


def test_ctrl_c_says_what_could_not_be_dropped(place):

    with place.start("sql", STATEMENTS["new"]) as process, failing(3726, "DROP TABLE"):
        with loads(200_000):
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == INTERRUPTED
        errors = said(process)
    assert "table dbo.made could not be dropped" in errors
    assert "changed nothing" not in errors
    assert place.server.query("SELECT COUNT(*) FROM dbo.made") == [(0,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_cancelled_call_leaves_nothing(place, kind):
    with place.serving() as (_, location), Caller(location, "m") as caller:
        with loads(200_000):
            call = caller.start(STATEMENTS[kind])
        call.cancel()
        wait_until(lambda: unchanged(place), AT_ONCE)
        time.sleep(0.5)  # time for a late change, which must not come
        assert unchanged(place)
        assert not list(place.temporary.glob("jetbridge-mssql-*"))


def test_a_killed_command_leaves_nothing_for_good(place):
    with place.start("sql", STATEMENTS["replace"]) as process:
        with loads(200_000):
            pass
        process.kill()
        process.wait()
    assert len(place.tables()) == 3
    assert list(place.temporary.glob("jetbridge-mssql-*"))
    assert place.sql("SELECT count(*) AS n FROM m.dbo.old").split()[-2:] == ["-", "1"]
    assert unchanged(place)
    assert list(place.temporary.iterdir()) == []


@pytest.mark.full
def test_a_killed_server_leaves_nothing_for_good(place):
    with place.serving() as (process, location), Caller(location, "m") as caller:
        with loads(200_000):
            call = caller.start(STATEMENTS["replace"])
        process.kill()
        process.wait()
        assert status(call) is grpc.StatusCode.UNAVAILABLE
    assert len(place.tables()) == 3
    assert list(place.temporary.iterdir())
    with place.serving() as (_, location):
        with connect(location, "m") as client:
            client.list_schemas()
        wait_until(lambda: unchanged(place))
        wait_until(lambda: not list(place.temporary.glob("jetbridge-mssql-*")))
