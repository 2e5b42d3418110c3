"""Holds what handlers know of a call: its headers, its token and the catalogs it may use."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import grpc

from jetbridge.catalog import Catalog, fold
from jetbridge.config.model import Limits, Token
from jetbridge.errors import NotFound, PermissionDenied
from jetbridge.wire.limits import InputLimits

_MAX_TRANSACTION_ID = 256


def new_trace_id() -> str:
    """Return 16 random hexadecimal digits by which the server's log names a call."""
    return secrets.token_hex(8)


def input_limits(limits: Limits) -> InputLimits:
    """Return the limits of the decoders: a message unpacks to no more than it may have packed."""
    return InputLimits(limits.message_bytes, limits.batch_rows, limits.request_bytes)


@dataclass(frozen=True)
class ServedCatalog:
    """Hold a catalog, the name it is served under, and the spelling of this caller.

    The client compares the `catalog` of every item with the spelling in its ATTACH.
    """

    name: str
    spelling: str
    catalog: Catalog


class Catalogs:
    """Find served catalogs by name, without regard to case.

    The mapping is read again for each lookup, so its owner may add and remove catalogs.
    """

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self._catalogs = catalogs

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that the catalogs are served under."""
        return tuple(self._catalogs)

    def find(self, name: str) -> ServedCatalog | None:
        """Return the catalog with this name, or None."""
        for served_as, catalog in list(self._catalogs.items()):
            if fold(served_as) == fold(name):
                return ServedCatalog(served_as, name, catalog)
        return None


@dataclass(frozen=True)
class CallContext:
    """Hold one call: its gRPC context, headers and token, and the catalogs of the server."""

    context: grpc.ServicerContext
    headers: Mapping[str, str]
    catalogs: Catalogs
    token: Token | None = None
    trace_id: str = field(default_factory=new_trace_id)

    @property
    def is_airport(self) -> bool:
        """Return whether the caller is a client of the Airport protocol."""
        return "airport-user-agent" in self.headers

    @property
    def is_duckdb(self) -> bool:
        """Return whether the caller is DuckDB's Airport extension, which has known bugs."""
        return self.headers.get("airport-user-agent", "").startswith("airport/")

    @property
    def transaction_id(self) -> str:
        """Return the identifier that `create_transaction` gave the caller, or an empty string."""
        return self.headers.get("airport-transaction-id", "")[:_MAX_TRANSACTION_ID]

    @property
    def owner(self) -> str:
        """Return the name of the caller's token, or an empty string."""
        return self.token.name if self.token else ""

    def catalog(self, name: str = "") -> ServedCatalog:
        """Return the catalog that the request names, or the header, or else the first allowed one.

        After ATTACH '' the client names no catalog, and expects items of a catalog without a name.
        Raises PermissionDenied or NotFound.
        """
        name = name or self.headers.get("airport-catalog", "")
        if not name:
            first = self.requested_catalogs()[0]
            return replace(first, spelling="") if self.is_airport else first
        if not self._may_use(name):
            raise PermissionDenied(
                f"token {self.owner!r} may not use catalog {name[:100]!r}; it is limited to "
                f"{', '.join(self.allowed_names()) or 'no catalog of this server'}"
            )
        served = self.catalogs.find(name)
        if served is None:
            names = ", ".join(self.allowed_names())
            raise NotFound("catalog", name[:100], f"served here: {names or 'none'}")
        return served

    def requested_catalogs(self) -> list[ServedCatalog]:
        """Return the catalog of the header, or without one all that the caller may use.

        Raises PermissionDenied if the caller may use none.
        """
        if self.headers.get("airport-catalog"):
            return [self.catalog()]
        catalogs = [self.catalogs.find(name) for name in self.allowed_names()]
        if not catalogs:
            raise PermissionDenied(
                "no catalog of this server is open to this caller; use a token that may read one"
            )
        return [served for served in catalogs if served]

    def allowed_names(self) -> list[str]:
        """Return the names of the catalogs that the caller may use."""
        return [name for name in self.catalogs.names if self._may_use(name)]

    def _may_use(self, name: str) -> bool:
        allowed = self.token.catalogs if self.token else None
        return allowed is None or fold(name) in map(fold, allowed)


def read_headers(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Return the metadata of a call as text by key."""
    return {
        key: value if isinstance(value, str) else value.decode("latin-1") for key, value in metadata
    }
