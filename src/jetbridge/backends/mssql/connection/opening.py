"""Opens connections, and explains why one could not be opened.

The driver cannot be interrupted while it connects, and with `encrypt = strict` it may wait for
ever. So a separate thread connects: the caller can log a warning, give up, or be cancelled.
"""

import logging
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

import mssql_py_core

from jetbridge.backends.mssql.connection.address import (
    CONNECT_SECONDS,
    MAX_CONNECT_SECONDS,
    Address,
)
from jetbridge.backends.mssql.connection.sql_connection import DriverSocket
from jetbridge.backends.mssql.errors import (
    LOGIN_FAILED,
    mark_connecting,
    message_of,
    number_of,
    translate_error,
)
from jetbridge.errors import FailedPrecondition, ServerError, Unavailable
from jetbridge.runtime.cancellation import current

log = logging.getLogger(__name__)
# Show the warnings on a terminal, too: the command reports errors only at its end.
log.setLevel(logging.WARNING)
_STRICT = (
    'encrypt = "strict" needs SQL Server 2022 or later and a certificate that this machine trusts; '
    'use encrypt = "yes" for other servers'
)
_CERTIFICATE = re.compile(r"certificate", re.IGNORECASE)


class _CanClose(Protocol):
    def close(self) -> None: ...


_T = TypeVar("_T", bound=_CanClose)
_Connect = Callable[[Address, DriverSocket], _T]


def connect_in_thread(address: Address, connect: _Connect[_T]) -> _T:
    """Connect in a thread. Log a warning for a slow login, and abandon it after a while."""
    connection: Future[_T] = Future()
    driver_socket = DriverSocket(address.host_and_port())
    arguments = (connection, address, driver_socket, connect)
    threading.Thread(target=_connect, args=arguments, name="mssql-connect", daemon=True).start()
    try:
        _wait_for(connection, address)
        return connection.result()
    except BaseException:
        connection.add_done_callback(_close)
        # A driver that still waits would prevent the process from ending.
        driver_socket.find(connected=False)
        driver_socket.cut()
        raise


def _connect(
    connection: Future[_T], address: Address, driver_socket: DriverSocket, connect: _Connect[_T]
) -> None:
    try:
        connection.set_result(connect(address, driver_socket))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        driver_socket.close()
        connection.set_exception(error)


def _wait_for(connection: Future[_T], address: Address) -> None:
    ended = threading.Event()
    connection.add_done_callback(lambda _: ended.set())
    with current().on_cancel(ended.set):
        if not ended.wait(CONNECT_SECONDS):
            log.warning(
                "%s: no answer to the login for %d seconds; giving up after %d",
                address.title(),
                CONNECT_SECONDS,
                MAX_CONNECT_SECONDS,
            )
            ended.wait(MAX_CONNECT_SECONDS - CONNECT_SECONDS)
    current().check()
    if not connection.done():
        raise login_timeout(address)


def _close(connection: Future[_T]) -> None:
    """Close a connection that arrived after the caller has given up."""
    if connection.exception() is None:
        connection.result().close()


def check_listening(address: Address) -> None:
    """Raise an error at once if no server listens; the driver would retry for 15 seconds."""
    host_and_port = address.host_and_port()
    if host_and_port is None:
        return
    try:
        socket.create_connection(host_and_port, CONNECT_SECONDS).close()
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise connection_error(error, None, address) from error
    except OSError:
        return  # the driver may connect in another way, or explain better


def translate_refusal(address: Address, error: BaseException) -> ServerError:
    """Return the error for a connection that the driver could not open."""
    number = number_of(error) or _login_number(error)
    if number in (None, LOGIN_FAILED) and not address.password:
        return missing_password(address, error)
    return connection_error(error, number, address)


def find_reason(address: Address, error: BaseException) -> BaseException:
    """Return the core's reason for a refused login; the ODBC half reports none."""
    if _login_number(error) is not None:
        try:
            # With retries the core waits ten seconds for a database that does not exist.
            options = {**address.for_core(), "connect_retry_count": 0}
            mssql_py_core.PyCoreConnection(options).close()
        except RuntimeError as other:
            return other
    return error


def connection_error(error: BaseException, number: int | None, address: Address) -> ServerError:
    """Return the error for a connection that could not be opened, with a remedy."""
    title = address.title()
    refusal = translate_error(error, number, title)
    if number is None and _CERTIFICATE.search(str(error)):
        refusal = FailedPrecondition(
            f"{title}: this machine does not trust the server's certificate: {message_of(error)}; "
            "install the certificate of its authority, or accept any certificate with "
            "TrustServerCertificate=yes (trust_server_certificate = true in the file)"
        )
    elif number is None and address.encrypt == "strict":
        refusal = Unavailable(f"{refusal}; {_STRICT}")
    return mark_connecting(refusal)


def login_timeout(address: Address) -> ServerError:
    """Return the error for a login that the server does not answer."""
    remedy = _STRICT if address.encrypt == "strict" else "check server and port"
    return mark_connecting(
        Unavailable(
            f"{address.title()}: SQL Server did not answer the login within "
            f"{MAX_CONNECT_SECONDS} seconds; {remedy}"
        )
    )


def missing_password(address: Address, error: BaseException) -> ServerError:
    """Return the error for a refused login without a password; the driver's is unclear."""
    return mark_connecting(
        FailedPrecondition(
            f"{address.title()}: the password of user {address.user!r} is empty; set the variable "
            "that password_env names in the file, or MSSQL_PASSWORD for ATTACH; the server says: "
            f"{message_of(error)}"
        )
    )


def _login_number(error: BaseException) -> int | None:
    """Return the number for a message of the ODBC half about a refused login."""
    text = str(error)
    if "Login failed" in text or "Invalid authorization" in text:
        return LOGIN_FAILED
    return 4060 if "Cannot open database" in text or "rejected the connection" in text else None
