"""What a server is told when it is made: limits and tokens as plain values, and their rules."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
HOUR = 3600

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True)
class Limits:
    """Where the server says RESOURCE_EXHAUSTED instead of running out of something.

    `exchanges` and `scans` are counted apart: an UPDATE holds its DoExchange while its scan runs,
    so scans must never wait for exchanges.
    """

    message_bytes: int = 64 * MIB
    request_bytes: int = 8 * MIB
    batch_rows: int = 1_048_576
    concurrent_calls: int = 512
    exchanges: int = 256
    scans: int = 256
    staged_bytes: int = 16 * GIB
    spill_bytes: int = 256 * MIB
    transactions: int = 100_000
    batch_rows_out: int = 65_536
    first_message_seconds: float = 30.0
    open_calls: int = 2
    statement_seconds: float = 21_600.0
    calls_per_token: int | None = None
    exchanges_per_token: int | None = None
    scans_per_token: int | None = None
    staged_bytes_per_token: int | None = None
    statement_seconds_per_token: float | None = None
    history_bytes: int = GIB


@dataclass(frozen=True)
class Shares:
    """What one token may have of what all share; None: all of it."""

    calls: int | None
    exchanges: int | None
    scans: int | None
    staged_bytes: int | None
    hourly_seconds: float | None

    @classmethod
    def of(cls, limits: Limits, tokens: int) -> "Shares":
        """As given; else the half where there are several tokens, for at least one call."""

        def share(value: Amount | None, all_of_it: int) -> Amount | int | None:
            return max(1, all_of_it // 2) if value is None and tokens > 1 else value

        return cls(
            share(limits.calls_per_token, limits.concurrent_calls),
            share(limits.exchanges_per_token, limits.exchanges),
            share(limits.scans_per_token, limits.scans),
            share(limits.staged_bytes_per_token, 4 * limits.staged_bytes),
            share(limits.statement_seconds_per_token, HOUR * limits.concurrent_calls),
        )


@dataclass(frozen=True)
class Token:
    """Who may call: `catalogs` is the allow-list, None allows all of them."""

    name: str
    secret: str = field(repr=False)
    catalogs: frozenset[str] | None = None


@dataclass(frozen=True)
class Openness:
    """What callers without a token may do; None: on loopback they may."""

    handshake: bool | None = None
    health: bool | None = None
    reflection: bool | None = None

    def on(self, host: str) -> "Openness":
        """The same, decided."""
        near = is_loopback(host)
        given = (self.handshake, self.health, self.reflection)
        return Openness(*(near if each is None else each for each in given))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. Names but `localhost` may resolve to anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def catalog_name_error(name: str, others: Iterable[str] = ()) -> str:
    """Why this cannot be a catalog's name, or nothing.

    The client sends it as a gRPC header: other characters abort the client's process. `/` and `?`
    end the name in an ATTACH path, `,` in an allow-list.
    """
    if not name or not name.isascii() or not name.isprintable() or name != name.strip():
        return "is not a catalog name: it must be printable ASCII, without blanks at its ends"
    if set(name) & set("/?,"):
        return "is not a catalog name: it must not contain '/', '?' or ','"
    if name.lower() in {other.lower() for other in others}:
        return "is there twice: names match without regard to case"
    return ""
