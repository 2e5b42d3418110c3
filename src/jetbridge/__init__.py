"""One SQL front door to a Spark lakehouse and to SQL Server, for DuckDB over Arrow Flight.

    with jetbridge.serve({"mine": MyCatalog()}, port=0) as server:
        client = jetbridge.connect(server.location, "mine")
    rows = jetbridge.sql("SELECT 42 AS answer")

All of them are loaded when they are first used: whoever imports only the interfaces in
`jetbridge.catalog` does not wait for grpc.
"""

from typing import TYPE_CHECKING, Any

from jetbridge.version import __version__

if TYPE_CHECKING:
    from jetbridge.app.compose import serve
    from jetbridge.app.sessions import session, sql
    from jetbridge.client import connect

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
