"""One RPC as the handlers see it: its headers, who calls, and which catalog is meant."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import grpc

from jetbridge.catalog import Catalog
from jetbridge.errors import NotFound, PermissionDenied
from jetbridge.service.settings import Token

_MAX_TRANSACTION_ID = 256


@dataclass(frozen=True)
class Served:
    """A catalog under the name it is served as, and as this caller spells it.

    The client compares the `catalog` of every item with the spelling of its ATTACH.
    """

    name: str
    spelling: str
    catalog: Catalog


class Catalogs:
    """The served catalogs, found without regard to case; the first is the default.

    The mapping is read anew each time, so its owner may add and remove catalogs.
    """

    def __init__(self, catalogs: Mapping[str, Catalog]) -> None:
        self._catalogs = catalogs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._catalogs)

    def find(self, name: str) -> Served:
        names = self.names
        spelling = name or (names[0] if names else "")
        for served_as in names:
            if served_as.casefold() == spelling.casefold():
                return Served(served_as, spelling, self._catalogs[served_as])
        raise NotFound("catalog", spelling, f"served here: {', '.join(names) or 'none'}")


@dataclass(frozen=True)
class Call:
    context: grpc.ServicerContext
    headers: Mapping[str, str]
    catalogs: Catalogs
    token: Token | None = None
    trace_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def is_airport(self) -> bool:
        return "airport-user-agent" in self.headers

    @property
    def transaction_id(self) -> str:
        return self.headers.get("airport-transaction-id", "")[:_MAX_TRANSACTION_ID]

    @property
    def owner(self) -> str:
        return self.token.name if self.token else ""

    def catalog(self, name: str = "") -> Served:
        """The catalog a request names, else that of the header, else the default."""
        wanted = name or self.headers.get("airport-catalog", "")
        self.check_allowed(wanted)
        served = self.catalogs.find(wanted)
        self.check_allowed(served.name)
        return served

    def check_allowed(self, name: str) -> None:
        allowed = self.token.catalogs if self.token else None
        if name and allowed is not None and name.casefold() not in {a.casefold() for a in allowed}:
            raise PermissionDenied(
                f"token {self.owner!r} may not use catalog {name!r}; "
                f"it is limited to {', '.join(sorted(allowed))}"
            )


def read_headers(context: grpc.ServicerContext) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else value.decode("latin-1")
        for key, value in context.invocation_metadata()
    }
