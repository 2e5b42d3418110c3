"""One RPC as the handlers see it: its headers, who calls, and which catalog is meant."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import grpc

from jetbridge.catalog import Catalog, fold
from jetbridge.config.limits import Limits, Token
from jetbridge.errors import NotFound, PermissionDenied
from jetbridge.wire.limits import InputLimits


def new_trace_id() -> str:
    """16 hexadecimal digits; short enough to read out on the telephone."""
    return secrets.token_hex(8)


def input_limits(limits: Limits) -> InputLimits:
    """Return the limits of the decoders: a message unpacks to no more than it may have packed."""
    return InputLimits(limits.message_bytes, limits.batch_rows, limits.request_bytes)


_MAX_TRANSACTION_ID = 256


@dataclass(frozen=True)
class ServedCatalog:
    """A catalog under the name it is served as, and as this caller spells it.

    The client compares the `catalog` of every item with the spelling of its ATTACH.
    """

    name: str
    spelling: str
    catalog: Catalog


class Catalogs:
    """The served catalogs, found without regard to case.

    The mapping is read anew each time, so its owner may add and remove catalogs.
    """

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self._catalogs = catalogs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._catalogs)

    def find(self, name: str) -> ServedCatalog | None:
        for served_as, catalog in list(self._catalogs.items()):
            if fold(served_as) == fold(name):
                return ServedCatalog(served_as, name, catalog)
        return None


@dataclass(frozen=True)
class Call:
    context: grpc.ServicerContext
    headers: Mapping[str, str]
    catalogs: Catalogs
    token: Token | None = None
    trace_id: str = field(default_factory=new_trace_id)

    @property
    def is_airport(self) -> bool:
        return "airport-user-agent" in self.headers

    @property
    def is_duckdb(self) -> bool:
        """Whether DuckDB's own extension calls, with the bugs it has."""
        return self.headers.get("airport-user-agent", "").startswith("airport/")

    @property
    def transaction_id(self) -> str:
        return self.headers.get("airport-transaction-id", "")[:_MAX_TRANSACTION_ID]

    @property
    def owner(self) -> str:
        return self.token.name if self.token else ""

    def catalog(self, name: str = "") -> ServedCatalog:
        """The catalog a request names, else that of the header, else the first allowed.

        After ATTACH '' the client names none, and expects items of a catalog without a name.
        """
        wanted = name or self.headers.get("airport-catalog", "")
        if not wanted:
            first = self.meant_catalogs()[0]
            return replace(first, spelling="") if self.is_airport else first
        if not self._may_use(wanted):
            raise PermissionDenied(
                f"token {self.owner!r} may not use catalog {wanted[:100]!r}; it is limited to "
                f"{', '.join(self.allowed_names()) or 'none that is served'}"
            )
        served = self.catalogs.find(wanted)
        if served is None:
            names = ", ".join(self.allowed_names())
            raise NotFound("catalog", wanted[:100], f"served here: {names or 'none'}")
        return served

    def meant_catalogs(self) -> list[ServedCatalog]:
        """That of the header; without one all that the caller may use, and there are some."""
        if self.headers.get("airport-catalog"):
            return [self.catalog()]
        found = [self.catalogs.find(name) for name in self.allowed_names()]
        if not found:
            raise PermissionDenied("there is no catalog that this caller may use")
        return [served for served in found if served]

    def allowed_names(self) -> list[str]:
        """Return the names of the catalogs that the caller may use."""
        return [name for name in self.catalogs.names if self._may_use(name)]

    def _may_use(self, name: str) -> bool:
        allowed = self.token.catalogs if self.token else None
        return allowed is None or fold(name) in {fold(each) for each in allowed}


def read_headers(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else value.decode("latin-1") for key, value in metadata
    }
