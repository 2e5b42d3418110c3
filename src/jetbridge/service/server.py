"""Serves Flight, health checks and reflection on one port."""

import ctypes
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import grpc
import pyarrow as pa

from jetbridge.catalog import Catalog
from jetbridge.config.model import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    TRANSACTION_SECONDS,
    Limits,
    Openness,
    Shares,
    Token,
    catalog_name_error,
    is_loopback,
)
from jetbridge.errors import Unavailable
from jetbridge.service.admission.authentication import Authenticator, FailedLogins
from jetbridge.service.admission.concurrency import ConcurrencyLimit, ShutdownGate, StagedBytes
from jetbridge.service.admission.entrance import Entrance, OpenCalls
from jetbridge.service.admission.time_limit import TimeLimit, TimeQuota
from jetbridge.service.call_context import Catalogs, input_limits
from jetbridge.service.do_action import ActionContext, DoAction, OwnAction
from jetbridge.service.do_exchange import DoExchange
from jetbridge.service.do_get import DoGet
from jetbridge.service.flight_info import FlightInfoBuilder, GetFlightInfo, ListFlights
from jetbridge.service.guard import Guard
from jetbridge.service.rpcs import Handlers, Health, Rpcs, about_methods, flight_methods
from jetbridge.service.table_lookup import TableLookup, Transactions
from jetbridge.wire.tickets import TicketSealer

_log = logging.getLogger(__name__)

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 * 1024 * 1024
_LARGE = 4 * 1024 * 1024


def keep_freed_memory() -> None:
    """Keep some of the memory that this process frees.

    glibc returns large blocks to the system at once and takes new ones for the next message. The
    page faults of an INSERT then cost more than the rest of it (measured: 0.12 s of system time for
    1M rows, 0.04 s with this). Other C libraries have no such settings.

    Arrow then takes its memory from the same heap: with a heap of its own, neither could use what
    the other frees (measured: 90 MiB less for 10M rows).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        _log.debug("the C library has no mallopt: freed memory is returned to the system")
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE)
    mallopt(_M_TRIM_THRESHOLD, _KEPT)
    pa.set_memory_pool(pa.system_memory_pool())


# Threads beyond the number of calls that gRPC admits, so that no call waits for a thread.
_SPARE_THREADS = 16
# How long a caller without a token may take to send its request.
_OPEN_SECONDS = 5.0
# How long the last answer of an ended call may take to be sent when the server stops.
_SENDING_SECONDS = 1.0


class Server:
    """Serve catalogs by name to Airport clients.

    Call `start`, then read `location`. `stop` lets running calls finish. As a context manager, the
    server stops at the end of the block without waiting for them.
    """

    def __init__(  # noqa: PLR0913
        self,
        catalogs: Mapping[str, Catalog],
        *,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        tokens: Sequence[Token] = (),
        tls: tuple[bytes, bytes] | None = None,
        limits: Limits | None = None,
        transaction_seconds: float = TRANSACTION_SECONDS,
        seal_keys: Callable[[], Sequence[bytes]] | None = None,
        actions: Mapping[str, OwnAction] | None = None,
        openness: Openness | None = None,
    ) -> None:
        """Create a server that does not listen yet.

        `tls` is a certificate and its key, both as PEM. Tickets stay valid over a restart if
        `seal_keys` returns the same keys. `actions` are functions of yours that clients call by
        airport_action(); they see neither catalogs nor tokens. `openness` defines what callers
        without a token may do; the default depends on the host. Raises ValueError for a name that
        no catalog may have, and for a host that others can reach if there are no tokens.
        """
        _check_names(catalogs)
        if not tokens and not is_loopback(host):
            raise ValueError(
                f"host {host!r} is reachable from other machines: "
                "configure tokens, or listen on 127.0.0.1"
            )
        self._host, self._port, self._tls = host, port, tls
        limits = limits or Limits()
        self.transactions = Transactions(transaction_seconds, limits.transactions)
        self._health = Health()
        self._failed_logins = FailedLogins()
        self._shutdown = ShutdownGate()
        self._server = _grpc_server(limits)
        self._limits, self._shares = limits, Shares.of(limits, len(tokens))
        openness = (openness or Openness()).on(host)
        seconds = min(limits.first_message_seconds, _OPEN_SECONDS)
        self._authenticator = Authenticator(tokens, self._failed_logins, openness, seconds)
        own_key = secrets.token_bytes(32)
        sealer = TicketSealer(seal_keys or (lambda: [own_key]))
        self._serve(Catalogs(catalogs), self._handlers(sealer, actions or {}), openness)

    @property
    def location(self) -> str:
        """Return the URL of the server, such as `grpc://127.0.0.1:8815`."""
        scheme = "grpc+tls" if self._tls else "grpc"
        return f"{scheme}://{self._address}"

    @property
    def _address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def start(self) -> None:
        """Listen and answer calls. Raises Unavailable if the address cannot be used."""
        keep_freed_memory()
        address = self._address
        try:
            if self._tls:
                certificate, key = self._tls
                credentials = grpc.ssl_server_credentials([(key, certificate)])
                self._port = self._server.add_secure_port(address, credentials)
            else:
                self._port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}; is the port in use?") from error
        self._server.start()
        self._health.serving = True

    def stop(self, grace: float = 30) -> None:
        """Refuse new calls, let running ones finish for `grace` seconds, then cut them off."""
        end = time.monotonic() + grace
        self._health.serving = False
        self._failed_logins.end()
        self._shutdown.close(grace)
        left = max(0.0, end - time.monotonic())
        stopped: threading.Event = self._server.stop(min(left, _SENDING_SECONDS))
        stopped.wait()

    def wait(self) -> None:
        """Wait until the server has stopped."""
        self._server.wait_for_termination()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(grace=0)

    def _handlers(self, sealer: TicketSealer, own: Mapping[str, OwnAction]) -> Handlers:
        limits, shares = self._limits, self._shares
        locator = TableLookup(sealer, self.transactions)
        flights = FlightInfoBuilder(sealer)
        scans = ConcurrencyLimit("scans", limits.scans, shares.scans)
        exchanges = ConcurrencyLimit("exchanges", limits.exchanges, shares.exchanges)
        return Handlers(
            self._authenticator,
            ListFlights(flights),
            GetFlightInfo(locator, flights),
            DoGet(sealer, self.transactions, scans, limits),
            DoExchange(locator, exchanges, StagedBytes(shares.staged_bytes), limits),
            DoAction(ActionContext(flights, locator, self.transactions, input_limits(limits)), own),
        )

    def _serve(self, catalogs: Catalogs, handlers: Handlers, openness: Openness) -> None:
        limits, authenticator = self._limits, self._authenticator
        calls = ConcurrencyLimit("calls", limits.concurrent_calls, self._shares.calls)
        time_limit = TimeLimit(limits.statement_seconds, TimeQuota(self._shares.hourly_seconds))
        guard = Guard(catalogs, authenticator, self._shutdown, calls, time_limit)
        pool = OpenCalls(limits.open_calls)
        about = about_methods(guard, authenticator, openness, self._health, pool)
        rpcs = Rpcs(guard, authenticator, limits.first_message_seconds)
        find = flight_methods(rpcs, handlers, pool, about)
        self._server.add_generic_rpc_handlers((Entrance(find, self._failed_logins),))


def _grpc_server(limits: Limits) -> grpc.Server:
    return grpc.server(
        ThreadPoolExecutor(limits.concurrent_calls + _SPARE_THREADS, "jetbridge-call"),
        maximum_concurrent_rpcs=limits.concurrent_calls,
        options=_channel_options(limits),
    )


def _channel_options(limits: Limits) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        # Do not unpack compressed messages: 62 KiB can become 62 MiB.
        ("grpc.per_message_decompression", 0),
        # A connection that sends nothing holds a file descriptor until this time is over.
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.so_reuseport", 0),
        # End the calls of a peer that has vanished within two minutes.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    )


def _check_names(catalogs: Mapping[str, Catalog]) -> None:
    names = list(catalogs)
    for position, name in enumerate(names):
        if error := catalog_name_error(name, names[:position]):
            raise ValueError(f"{name!r} {error}")
