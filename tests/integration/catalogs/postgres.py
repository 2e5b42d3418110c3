"""A PostgreSQL server of Debian's packages, on a free port, for as long as a test needs it."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from tests.helpers.waiting import wait_until_it_succeeds

USER, PASSWORD, DATABASE = "loader", "geheim: /?#@&%", "postgres"
SECONDS = 60.0
MISSING = (
    "PostgreSQL is not installed, and its catalog cannot be tested without it: run `make setup`, "
    "or install the package `postgresql` of your system"
)


def programs() -> Path:
    """Return the folder of initdb and postgres; Debian keeps them off PATH."""
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folder = next((each for each in found if (each / "initdb").exists()), None)
    assert folder is not None, MISSING
    return folder


def _owner() -> dict[str, Any]:
    """Choose the user: the server refuses to run as root, so its package has made one."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": ()}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Postgres:
    """Run a server in a folder of its own; you may stop it and start it again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder, self._owner = folder, _owner()
        if self._owner:
            os.chown(folder, self._owner["user"], self._owner["group"])
        secret = folder / "password"
        secret.write_text(PASSWORD)
        options = ["-U", USER, "--auth=scram-sha-256", "--pwfile", str(secret), "--locale=C"]
        data = str(folder / "data")
        command = [str(programs() / "initdb"), "-D", data, "--no-sync", "-E", "UTF8"]
        subprocess.run(
            [*command, *options], check=True, capture_output=True, cwd=folder, **self._owner
        )
        self.start()

    @property
    def uri(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": self._folder}
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        data = self._folder / "data"
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [programs() / "postgres", "-D", data, "-p", str(self.port), "-F", *given],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                **self._owner,
            )
        self._await()

    def _await(self) -> None:
        def connect() -> None:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            psycopg2.connect(
                host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, dbname=DATABASE
            ).close()

        wait_until_it_succeeds(connect, psycopg2.OperationalError, seconds=SECONDS)

    def stop(self) -> None:
        """Stop at once; clients are cut off."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(SECONDS)


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    # Not below pytest's folder, which other users cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="jetbridge-postgres-"))
    try:
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
