"""The composition root: the one module that may import everything."""

from collections.abc import Callable, Mapping, Sequence

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import Catalog
from jetbridge.config import CatalogConfig, Config
from jetbridge.service import Server
from jetbridge.service.settings import Limits, Token

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8815

BACKENDS: Mapping[str, Callable[[CatalogConfig, Limits], Catalog]] = {
    "memory": lambda _, limits: MemoryCatalog(
        spill_bytes=limits.spill_bytes, staged_bytes=limits.staged_bytes
    ),
}


def build_server(config: Config) -> Server:
    """The server of a checked configuration, not started yet."""
    catalogs = {
        name: BACKENDS[each.type](each, config.limits) for name, each in config.catalogs.items()
    }
    return Server(
        catalogs,
        host=config.server.host,
        port=config.server.port,
        tokens=config.credentials.tokens,
        tls=config.credentials.tls,
        limits=config.limits,
        transaction_seconds=config.server.transaction_seconds,
        seal_key=config.credentials.seal_key,
    )


def serve(
    catalogs: Mapping[str, Catalog],
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    tokens: Sequence[Token] = (),
    tls: tuple[bytes, bytes] | None = None,
    limits: Limits | None = None,
) -> Server:
    """Starts a server of these catalogs, by name; `with serve(...) as server:` also stops it.

    Port 0 picks a free one; `server.location` tells which. `tls` is certificate and key, in PEM.
    A host that others can reach needs tokens, and names must be printable ASCII: else ValueError.
    """
    server = Server(
        catalogs, host=host, port=port, tokens=tokens, tls=tls, limits=limits or Limits()
    )
    server.start()
    return server
