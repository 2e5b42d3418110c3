"""Real drivers, connected to a server of the tests."""

from typing import Any, Protocol

import mssql_py_core  # type: ignore[import-not-found,import-untyped,unused-ignore]
import mssql_python
import pymssql
import pytds  # type: ignore[import-untyped]
import pytest


class Listening(Protocol):
    """A server, here or in another process."""

    @property
    def port(self) -> int: ...


LOGIN = {"database": "standin", "user": "rec", "password": "secret"}


def odbc(server: Listening, encrypt: str = "no", **options: Any) -> Any:
    """Microsoft's driver, without a pool unless a test turns it on."""
    text = (
        f"Server=127.0.0.1,{server.port};Database={options.pop('database', 'standin')};"
        f"UID=rec;PWD={options.pop('password', 'secret')};Encrypt={encrypt};"
        "TrustServerCertificate=yes"
    )
    if not options.pop("pooled", False):
        mssql_python.pooling(enabled=False)
    try:
        return mssql_python.connect(text, **{"autocommit": True, **options})
    except mssql_python.exceptions.OperationalError as error:
        if "Failed to load the driver" in str(error):
            pytest.fail("the tests need libltdl: apt-get install libltdl7")
        raise


def core(server: Listening, encryption: str = "Optional", **options: Any) -> Any:
    """The Rust part of Microsoft's driver, which does the bulk loads."""
    context = {
        "server": f"127.0.0.1,{server.port}",
        "database": "standin",
        "user_name": "rec",
        "password": "secret",
        "encryption": encryption,
        "trust_server_certificate": "yes",
    }
    return mssql_py_core.PyCoreConnection({**context, **options})


def tds(server: Listening, **options: Any) -> Any:
    return pytds.connect(
        dsn="127.0.0.1", port=server.port, **{"autocommit": True, **LOGIN, **options}
    )


def free(server: Listening, **options: Any) -> Any:
    return pymssql.connect(server="127.0.0.1", port=str(server.port), **{**LOGIN, **options})
