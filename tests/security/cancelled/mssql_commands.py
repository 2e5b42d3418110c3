"""Run `jetbridge sql` and `serve` on a database of the stand-in, for tests that kill them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from tests.helpers import mssql_server
from tests.helpers.mssql_orders import stand_in
from tests.helpers.waiting import wait_until

PASSWORD = "JETBRIDGE_TEST_PASSWORD"  # noqa: S105 - the name of a variable
TABLES = "SELECT name FROM sys.tables ORDER BY name"
# Without Spark, which would take seconds to start: all loads go over one connection. Ctrl-C works
# where the tests run in the background, too: there a shell has processes ignore it.
WITHOUT_SPARK = """
import signal, sys
from jetbridge.spark import jvm
signal.signal(signal.SIGINT, signal.default_int_handler)
jvm._homes = lambda: iter(())
from jetbridge.cli import main
sys.exit(main(sys.argv[1:]))
"""


class Place:
    """Hold a database `m`, its configuration, and the temporary directory of the commands."""

    def __init__(self, folder: Path) -> None:
        address = mssql_server.address()
        self.server = ConnectionPool(address)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.config = folder / "jetbridge.toml"
        self.config.write_text(_config(address))
        self._environment = {
            **os.environ,
            PASSWORD: address.password,
            "TMPDIR": str(self.temporary),
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, *arguments, "--config", str(self.config)]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def sql(self, text: str) -> str:
        with self.start("sql", text) as process:
            out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return out

    @contextmanager
    def serving(self) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """Start the server, return its process and location, and kill it at the end."""
        with self.start("serve") as process:
            try:
                assert process.stdout is not None
                yield process, process.stdout.readline().split()[-1]
            finally:
                process.kill()

    def tables(self) -> list[str]:
        return [name for (name,) in self.server.query(TABLES)]


def _config(address: Address) -> str:
    large = catalog_table(address, mssql_direct_load_rows=10**12, mssql_direct_load_bytes=2**60)
    return f"[server]\nport = 0\n{large}"


def catalog_table(address: Address, **settings: int) -> str:
    """Return the table of a server as catalog `m`; the environment has its password."""
    values = {
        "type": "mssql",
        "server": address.server,
        "database": address.database,
        "user": address.user,
        "password_env": PASSWORD,
        "encrypt": address.encrypt,
        "trust_server_certificate": address.trust,
        **settings,
    }
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
    return "[catalogs.m]\n" + "".join(lines)


@contextmanager
def loads(rows: int) -> Iterator[None]:
    """Return when the block has begun and this number of rows has arrived by bulk copy."""
    before = _loaded()
    yield
    wait_until(lambda: _loaded() > before + rows, 60)


def _loaded() -> int:
    rows: int = stand_in().order(bulk_rows=True)["bulk_rows"]
    return rows
