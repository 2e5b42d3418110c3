"""Failed connections to SQL Server: the error, and how soon it comes.

Seen: an empty password was called "connection failed"; `encrypt = strict` failed after 60 s, and
against a server that says nothing it never did.
"""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jetbridge.backends.mssql.connection import opening
from jetbridge.backends.mssql.connection.address import (
    CONNECT_SECONDS,
    MAX_CONNECT_SECONDS,
    Address,
)
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.errors import Cancelled, FailedPrecondition, Unavailable
from jetbridge.runtime.cancellation import Cancellation, scope
from tests.helpers import mssql_server
from tests.helpers.waiting import wait_until
from tests.security.cancelled.mssql_commands import PASSWORD, catalog_table

pytestmark = pytest.mark.mssql


@pytest.fixture
def silent() -> Iterator[Address]:
    """Start a server that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = f"127.0.0.1,{listening.getsockname()[1]}"
        yield Address(place, "db", "sa", "secret", "strict")


def config_of(folder: Path, address: Address) -> str:
    file = folder / "jetbridge.toml"
    file.write_text(catalog_table(address))
    return str(file)


def test_an_empty_password_is_named_in_the_error(tmp_path):
    address = replace(mssql_server.address(), password="")
    with closing(ConnectionPool(address)) as server, pytest.raises(FailedPrecondition) as failed:
        server.query("SELECT 1")
    assert "the password of user 'sa' is empty" in str(failed.value)
    assert "password_env" in str(failed.value)
    assert "MSSQL_PASSWORD" in str(failed.value)
    assert "connection to SQL Server failed" not in str(failed.value)
    config = config_of(tmp_path, address)
    command = [sys.executable, "-m", "jetbridge", "sql", "--config", config, "FROM m.dbo.t"]
    environment = {**os.environ, PASSWORD: ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode != 0
    assert PASSWORD in done.stderr or "is empty" in done.stderr


def test_a_slow_login_is_logged_and_ends_with_an_error(silent, monkeypatch, caplog):
    monkeypatch.setattr(opening, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(opening, "MAX_CONNECT_SECONDS", 0.8)
    monkeypatch.setattr(logging.getLogger("jetbridge"), "propagate", True)
    began = time.monotonic()
    with closing(ConnectionPool(silent)) as server, pytest.raises(Unavailable) as failed:
        server.query("SELECT 1")
    assert time.monotonic() - began < 15
    assert "encrypt" in str(failed.value)
    assert "SQL Server 2022" in str(failed.value)
    assert f"{silent.title()}: no answer to the login for" in caplog.text


def test_a_cancelled_statement_does_not_wait_for_its_login(silent):
    statement, errors = Cancellation(), list[Exception]()

    def ask() -> None:
        try:
            with scope(statement), closing(ConnectionPool(silent)) as server:
                server.query("SELECT 1")
        except Cancelled as error:
            errors.append(error)

    running = threading.Thread(target=ask)
    running.start()
    wait_until(lambda: "mssql-connect" in {each.name for each in threading.enumerate()})
    statement.cancel()
    running.join(10)
    assert not running.is_alive()
    assert len(errors) == 1


@pytest.mark.soak
def test_the_command_reports_that_it_waits_for_a_login_and_fails_in_time(silent, tmp_path):
    config = config_of(tmp_path, silent)
    command = [sys.executable, "-m", "jetbridge", "sql", "--config", config, "FROM m.dbo.t"]
    began = time.monotonic()
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, PASSWORD: "secret"}
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "waiting for an answer to the login" in first
        assert time.monotonic() - began < CONNECT_SECONDS + 5
        rest = process.stderr.read()
        assert process.wait() == 1
    assert time.monotonic() - began < MAX_CONNECT_SECONDS + 5
    assert 'encrypt = "yes"' in rest
