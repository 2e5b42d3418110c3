"""One SQL front door to a Spark lakehouse and to SQL Server, for DuckDB over Arrow Flight.

Each name is loaded at its first use, so a program that imports only the interfaces in
`jetbridge.catalog` does not wait for grpc.

Examples:
    Serve a catalog and connect to it, and run SQL without a server:

    >>> from jetbridge.backends.memory import MemoryCatalog
    >>> with jetbridge.serve({"mine": MemoryCatalog()}, port=0) as server:
    ...     client = jetbridge.connect(server.location, "mine")
    >>> jetbridge.sql("SELECT 42 AS answer").to_pylist()
    [{'answer': 42}]
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetbridge.app.compose import serve
    from jetbridge.app.sessions import session, sql
    from jetbridge.client import connect

__version__ = version("jetbridge")
__all__ = ["__version__", "connect", "serve", "session", "sql"]


def __getattr__(name: str) -> Any:
    if name == "serve":
        from jetbridge.app.compose import serve  # noqa: PLC0415

        return serve
    if name == "connect":
        from jetbridge.client import connect  # noqa: PLC0415

        return connect
    if name in ("session", "sql"):
        from jetbridge.app import sessions  # noqa: PLC0415

        return getattr(sessions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
