"""An object store that speaks S3, in a process of its own on a free port."""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.waiting import wait_until_it_succeeds
from tests.integration.catalogs.postgres import free_port

BUCKET = "lake"
LOGIN = {"s3.access-key-id": "someone", "s3.secret-access-key": "secret"}
SECONDS = 60.0


@contextmanager
def running_object_store() -> Iterator[str]:
    """Provide the address of a store with one bucket."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _make_bucket(address)
        yield address
    finally:
        process.kill()
        process.wait()


def _make_bucket(address: str) -> None:
    request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")  # noqa: S310

    def make() -> None:
        urllib.request.urlopen(request, timeout=SECONDS).close()  # noqa: S310

    wait_until_it_succeeds(make, urllib.error.URLError, seconds=SECONDS)
