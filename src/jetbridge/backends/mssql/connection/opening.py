"""New connections to one database, and why there is none.

The driver cannot be interrupted while it connects, and with `encrypt = strict` it may wait for
ever. So a thread of its own connects, and whoever waits can be told so, give up, or be cancelled.
"""

import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

import mssql_py_core

from jetbridge.backends.mssql.connection.address import (
    CONNECT_SECONDS,
    MOST_CONNECT_SECONDS,
    Address,
)
from jetbridge.backends.mssql.connection.sockets import DriverSocket
from jetbridge.backends.mssql.errors import (
    LOGIN_FAILED,
    not_answered,
    not_connected,
    number_of,
    without_password,
)
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current

log = logging.getLogger(__name__)
# Who waits at a terminal reads it, too, though the command tells of errors only at its end.
log.setLevel(logging.WARNING)


class _CanClose(Protocol):
    def close(self) -> None: ...


_T = TypeVar("_T", bound=_CanClose)


_Make = Callable[[Address, DriverSocket], _T]


def connected(address: Address, make: _Make[_T]) -> _T:
    """What `make` connects; the log tells who waits for long, and after a while it is given up."""
    made: Future[_T] = Future()
    used = DriverSocket(address.place())
    work = (made, address, used, make)
    threading.Thread(target=_make, args=work, name="mssql-connect", daemon=True).start()
    try:
        _await(made, address)
        return made.result()
    except BaseException:
        made.add_done_callback(_close)
        # Else the driver might wait on, and a process cannot end before it.
        used.find(connected=False)
        used.cut()
        raise


def _make(made: Future[_T], address: Address, used: DriverSocket, make: _Make[_T]) -> None:
    try:
        made.set_result(make(address, used))
    except BaseException as error:  # noqa: BLE001 - it is raised again where one waits for it
        used.close()
        made.set_exception(error)


def _await(made: Future[_T], address: Address) -> None:
    ended = threading.Event()
    made.add_done_callback(lambda _: ended.set())
    with current().on_cancel(ended.set):
        if not ended.wait(CONNECT_SECONDS):
            log.warning(
                "%s: waiting for an answer to the login for %d seconds; it is given up after %d",
                address.title(),
                CONNECT_SECONDS,
                MOST_CONNECT_SECONDS,
            )
            ended.wait(MOST_CONNECT_SECONDS - CONNECT_SECONDS)
    current().check()
    if not made.done():
        raise not_answered(address)


def _close(made: Future[_T]) -> None:
    """Nobody waits for it any more."""
    if made.exception() is None:
        made.result().close()


def knock(address: Address) -> None:
    """Where nobody listens, that is said at once; the driver would try for 15 seconds."""
    place = address.place()
    if place is None:
        return
    try:
        socket.create_connection(place, CONNECT_SECONDS).close()
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise not_connected(error, None, address) from error
    except OSError:
        return  # the driver may know another way, or better words


def refused(address: Address, error: BaseException) -> ServerError:
    """The driver's error in our words."""
    number = number_of(error) or _login_number(error)
    if number in (None, LOGIN_FAILED) and not address.password:
        return without_password(address, error)
    return not_connected(error, number, address)


def reason(address: Address, error: BaseException) -> BaseException:
    """Of a refused login the ODBC half tells that it was refused; the core also tells why."""
    if _login_number(error) is not None:
        try:
            # The core would wait ten seconds for a database that is not there.
            at_once = {**address.for_core(), "connect_retry_count": 0}
            mssql_py_core.PyCoreConnection(at_once).close()
        except RuntimeError as other:
            return other
    return error


def _login_number(error: BaseException) -> int | None:
    """The ODBC half tells the number of a refused login by its words only."""
    text = str(error)
    if "Login failed" in text or "Invalid authorization" in text:
        return LOGIN_FAILED
    return 4060 if "Cannot open database" in text or "rejected the connection" in text else None
