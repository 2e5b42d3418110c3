"""`jetbridge doctor --sweep`: what dead loads have left is dropped, and living ones are spared."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog, SpoolOptions
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.write.load_tables import run_load
from jetbridge.cli import main
from jetbridge.dialects.tsql import load
from tests.helpers import mssql_server
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.mssql, pytest.mark.usefixtures("log_as_it_was")]
DEAD, LIVING = "jetbridge_0123456789abcdef", "jetbridge_fedcba9876543210"
# People's own, whose names are only similar.
OTHERS = ["jetbridge_0123_rows", "jetbridge_0123456789abcdef_rows2", "jetbridge_notes"]
NOTHING = ["m: there was nothing to drop"]
TABLES = "SELECT s.name + N'.' + t.name FROM sys.tables t JOIN sys.schemas s "
TABLES += "ON s.schema_id = t.schema_id ORDER BY 1"


@dataclass
class Place:
    server: ConnectionPool
    config: Path
    spool: Path

    def run(self, *statements: str) -> None:
        with self.server.borrow_core() as connection:
            for each in statements:
                connection.run(each)

    def leave(self, run: str, schema: str = "dbo") -> list[str]:
        """Return what a load has beside its target."""
        names = [f"{schema}.{run}_ledger", f"{schema}.{run}_rows"]
        self.run(*(f"CREATE TABLE {name} (id int); INSERT {name} VALUES (1)" for name in names))
        return names

    def tables(self) -> list[str]:
        return [name for (name,) in self.server.query(TABLES)]


@pytest.fixture
def place(tmp_path, monkeypatch) -> Iterator[Place]:
    address = mssql_server.address()
    spool = tmp_path / "spool"
    spool.mkdir()
    values = {
        "type": "mssql",
        "server": address.server,
        "database": address.database,
        "user": address.user,
        "password_env": "SWEEPING_PASSWORD",
        "encrypt": address.encrypt,
        "trust_server_certificate": address.trust,
        "spool": str(spool),
    }
    monkeypatch.setenv("SWEEPING_PASSWORD", address.password)
    config = tmp_path / "jetbridge.toml"
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
    config.write_text("[catalogs.m]\n" + "".join(lines))
    made = Place(ConnectionPool(address), config, spool)
    yield made
    made.server.close()


def sweep(place: Place, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["doctor", "--sweep", "--config", str(place.config)]) == 0
    return sorted(capsys.readouterr().out.splitlines())


def test_dead_loads_are_swept_and_living_ones_spared(place, capsys):
    place.run("CREATE SCHEMA other", "CREATE TABLE dbo.target (id int)")
    place.run(*(f"CREATE TABLE dbo.{name} (id int)" for name in OTHERS))
    kept = place.tables()
    dead = [*place.leave(DEAD), *place.leave(DEAD, "other")]
    living = place.leave(LIVING)
    with closing(CoreConnection(place.server.address)) as holder:  # at the end it dies
        assert holder.run(load.lock_run(LIVING)) == [(0,)]
        assert sweep(place, capsys) == sorted(f"m: dropped {name}" for name in dead)
        assert place.tables() == sorted([*kept, *living])
        assert place.server.query(f"SELECT id FROM dbo.{LIVING}_rows") == [(1,)]
        assert sweep(place, capsys) == NOTHING
    found = wait_until(lambda: [each for each in [sweep(place, capsys)] if each != NOTHING])
    assert found == [[f"m: dropped {name}" for name in living]]
    assert place.tables() == kept


def test_a_load_of_our_own_is_spared_until_it_ends(place, capsys):
    catalog = MssqlCatalog("m", place.server.address)
    with run_load(catalog.database, "dbo") as run:
        place.run(
            load.create_staging(run.staging, [("id", "int")]),
            load.create_ledger("dbo", run.ledger_name),
        )
        there = place.tables()
        assert there == [f"dbo.{run.ledger_name}", f"dbo.{run.rows}"]
        assert sweep(place, capsys) == NOTHING
        assert place.tables() == there
    assert place.tables() == []
    catalog.close()


def test_spools_of_dead_processes_go_too(place, capsys):
    made = SpoolOptions(spool=str(place.spool)).new_folder()
    ours = made.path
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    dead = ours.with_name(ours.name.replace(f"-{os.getpid()}-", f"-{process.pid}-"))
    dead.mkdir()
    for folder in (ours, dead):
        (folder / "000000.arrow").write_bytes(b"rows")
    assert sweep(place, capsys) == NOTHING
    assert list(place.spool.iterdir()) == [ours]
