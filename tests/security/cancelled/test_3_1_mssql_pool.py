"""The pool gives no statement a connection that a cancellation has ended.

The cut, or the end of the patience with a server that does not answer an attention, may come when
the statement has just succeeded.
"""

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from jetbridge.backends.mssql.connection import odbc
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.runtime.cancellation import scope
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql


@pytest.fixture
def server() -> Iterator[ConnectionPool]:
    made = mssql_server.server()
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["borrow_odbc", "borrow_core"])
def test_a_connection_that_was_cut_is_closed(server, kind):
    with getattr(server, kind)() as connection:
        connection.run("SELECT 1")
        connection._socket.cut()
    with getattr(server, kind)() as connection:
        assert connection.run("SELECT 1") == [(1,)]


@pytest.mark.parametrize("kind", ["borrow_odbc", "borrow_core"])
def test_a_connection_whose_statement_was_cancelled_at_its_end_is_closed(server, kind):
    with scope() as statement, getattr(server, kind)() as connection:
        connection.run("SELECT 1")
        statement.cancel()
    with getattr(server, kind)() as other:
        assert other is not connection


class Socket:
    """Cut a connection slowly."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.was_cut = threading.Event(), threading.Event(), False

    def cut(self) -> None:
        self.begun.set()
        self.go_on.wait(10)
        self.was_cut = True


class Cursor:
    hstmt = None


def test_a_statement_ends_after_the_cut_that_has_begun(monkeypatch):
    monkeypatch.setattr(odbc, "_ATTENTION_SECONDS", 0.0)
    used = Socket()
    with odbc._Attention(cast(Any, Cursor()), cast(Any, used)) as attention:
        attention.send()
        assert used.begun.wait(10)
        threading.Timer(0.2, used.go_on.set).start()
    assert used.was_cut
