"""What a user is told when SQL Server refuses or is not there: one sentence, and its number."""

import gc
import socket
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.catalog import CreateTable
from jetbridge.errors import (
    AlreadyExists,
    DuplicateKey,
    FailedPrecondition,
    LimitExceeded,
    PermissionDenied,
    ServerError,
    Unavailable,
)
from tests.conformance.harness import insert, rows
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql
ONE = pa.schema([("id", pa.int32())])


@pytest.fixture
def faults() -> Iterator[mssql_server.StandIn]:
    """Provide a server of its own, which fails on order."""
    started = mssql_server.start()
    yield started
    started.stop()


@pytest.fixture
def catalog(faults) -> Iterator[MssqlCatalog]:
    made = MssqlCatalog("m", faults.master())
    yield made
    made.close()


def said(error: pytest.ExceptionInfo[ServerError]) -> str:
    text = str(error.value)
    assert len(text) < 700
    assert "\n" not in text
    assert "secret" not in text
    return text


def test_a_wrong_password():
    catalog = MssqlCatalog("m", replace(mssql_server.address(), password="not it"))
    with pytest.raises(FailedPrecondition) as failed:
        catalog.list_schemas()
    assert "18456" in said(failed)
    assert "not it" not in said(failed)
    assert "check user and password" in said(failed)


def test_a_certificate_that_nobody_vouches_for(faults):
    address = replace(faults.master(), encrypt="yes", trust=False)
    with pytest.raises(FailedPrecondition, match="TrustServerCertificate=yes") as failed:
        MssqlCatalog("m", address).list_schemas()
    assert said(failed).count("certificate") > 1
    with pytest.raises(FailedPrecondition, match="TrustServerCertificate=yes"):
        CoreConnection(address)
    assert MssqlCatalog("m", replace(address, trust=True)).list_schemas()


def test_a_database_that_is_not_there():
    catalog = MssqlCatalog("m", replace(mssql_server.address(), database="nowhere"))
    with pytest.raises(FailedPrecondition) as failed:
        catalog.list_schemas()
    assert ("911" if mssql_server.is_babelfish() else "4060") in said(failed)
    assert "nowhere" in said(failed)


def test_both_halves_of_the_driver_run_texts_alike():
    server = mssql_server.server()
    for half, borrow in enumerate((server.borrow_odbc, server.borrow_core)):
        with borrow() as one:
            one.run(f"CREATE TABLE dbo.t{half} (id int PRIMARY KEY)")
            one.run(f"INSERT INTO dbo.t{half} VALUES (1), (2)")
            assert one.run(f"UPDATE dbo.t{half} SET id = id; SELECT @@ROWCOUNT") == [(2,)]
            assert one.run(f"SELECT id FROM dbo.t{half} WHERE id = 5; SELECT 7") == []
        with pytest.raises(DuplicateKey), borrow() as one, one.transaction():
            one.run(f"INSERT INTO dbo.t{half} VALUES (3)")
            one.run(f"SELECT 1; INSERT INTO dbo.t{half} VALUES (2)")
        with borrow() as one, one.transaction():
            one.run(f"DELETE FROM dbo.t{half} WHERE id = 1")
        assert server.query(f"SELECT id FROM dbo.t{half}") == [(2,)]
    server.close()


def test_a_server_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = replace(mssql_server.address(), server=f"127.0.0.1,{port}")
    began = time.monotonic()
    with pytest.raises(Unavailable) as failed:
        MssqlCatalog("m", address).list_schemas()
    assert str(port) in said(failed)
    assert time.monotonic() - began < 10, "the driver by itself would try for 15 seconds"


@pytest.mark.parametrize(
    ("number", "error", "part"),
    [
        (262, PermissionDenied, "grant the login CREATE TABLE"),
        (2714, AlreadyExists, "already exists"),
        (2760, ServerError, "CREATE SCHEMA"),
        (1105, LimitExceeded, "enlarge or free"),
    ],
)
def test_what_the_server_refuses(faults, catalog, number, error, part):
    schema = catalog.load_schema("dbo")
    faults.order(fault={"when": "statement", "pattern": "CREATE TABLE", "number": number})
    with pytest.raises(error) as failed:
        schema.create_table(CreateTable("t", ONE))
    assert str(number) in said(failed)
    assert part in said(failed)
    schema.create_table(CreateTable("t", ONE))


def test_a_connection_that_was_cut_is_replaced(faults, catalog):
    table = catalog.load_schema("dbo").create_table(CreateTable("t", ONE))
    insert(table, {"id": pa.array([1], pa.int32())})
    for how in ("reset", "fin"):
        faults.order(fault={"when": "received", "drop": how})
        insert(catalog.load_schema("dbo").load_table("t"), {"id": pa.array([2], pa.int32())})
    assert rows(catalog.load_schema("dbo").load_table("t")) == [(1,), (2,), (2,)]


def test_a_deadlock_is_tried_again(faults, catalog):
    table = catalog.load_schema("dbo").create_table(CreateTable("t", ONE))
    faults.order(fault={"when": "bulk row", "number": 1205})
    insert(table, {"id": pa.array([1, 2], pa.int32())})
    assert rows(catalog.load_schema("dbo").load_table("t")) == [(1,), (2,)]


def test_an_answer_to_commit_that_is_lost_is_not_guessed(faults, catalog):
    table = catalog.load_schema("dbo").create_table(CreateTable("t", ONE))
    faults.order(fault={"when": "committed", "drop": "reset"})
    with pytest.raises(ServerError, match="all of them are stored, or none"):
        insert(table, {"id": pa.array([1, 2], pa.int32())})
    assert rows(catalog.load_schema("dbo").load_table("t")) == [(1,), (2,)]


def test_a_connection_that_nobody_closed_ends_outside_of_a_load():
    """Check it outside of a load: the driver panics if it ends while rows are asked for."""
    server = mssql_server.server()
    address, ended = server.address, []
    closed = CoreConnection(address)
    vars(closed)["itself"] = closed
    closed.close()
    assert not closed.answers()
    del closed

    def batches() -> Iterator[pa.RecordBatch]:
        gc.collect()
        ended.append(held() is None)
        yield pa.record_batch({"id": pa.array([1], pa.int32())})

    with server.borrow_core() as one:
        one.run("CREATE TABLE dbo.t (id int)")
        lost = CoreConnection(address)
        vars(lost)["itself"] = lost
        held = weakref.ref(lost)
        del lost
        with one.transaction():
            assert one.load("dbo.t", pa.RecordBatchReader.from_batches(ONE, batches()), ["id"]) == 1
    assert ended == [True]
    server.close()
