"""The socket of a connection is found by its mark, and no other is ever cut."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from jetbridge.backends.mssql.connection import sql_connection
from jetbridge.backends.mssql.connection.sql_connection import DriverSocket

Place = tuple[str, int]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def listening(stack: ExitStack) -> Place:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return "127.0.0.1", listener.getsockname()[1]


def marked(stack: ExitStack, place: Place, used: DriverSocket) -> socket.socket:
    """Connected, with the same mark as the driver's would have."""
    made = stack.enter_context(socket.create_connection(place))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = used.for_core()["keep_alive"] // 1000
    made.setsockopt(socket.IPPROTO_TCP, sql_connection._IDLE, seconds)
    return made


def driver_socket(stack: ExitStack, place: Place | None) -> DriverSocket:
    used = DriverSocket(place)
    stack.callback(used.close)
    return used


def is_cut(one: socket.socket) -> bool:
    one.settimeout(0.1)
    with suppress(TimeoutError):
        return one.recv(1) == b""
    return False


def test_marks_are_no_numbers_that_others_use():
    assert not {45, 60, 75, 90, 120, 150, 180} & set(sql_connection._free)
    assert len(sql_connection._free) > 100


def test_a_socket_that_leads_elsewhere_is_not_cut_where_the_driver_may_have_none(stack):
    used = driver_socket(stack, listening(stack))
    other = marked(stack, listening(stack), used)
    used.find(connected=False)
    used.cut()
    assert not is_cut(other)


def test_of_two_with_the_mark_the_one_that_leads_to_the_server_is_cut(stack):
    place = listening(stack)
    used = driver_socket(stack, place)
    one, other = marked(stack, place, used), marked(stack, listening(stack), used)
    used.find()
    used.cut()
    assert (is_cut(one), is_cut(other)) == (True, False)


def test_a_server_may_send_the_driver_elsewhere(stack):
    used = driver_socket(stack, listening(stack))
    one = marked(stack, listening(stack), used)
    used.find()
    used.cut()
    assert is_cut(one)


def test_two_that_nothing_tells_apart_are_left_alone(stack):
    place = listening(stack)
    used = driver_socket(stack, place)
    found = [marked(stack, place, used) for _ in range(2)]
    used.find()
    used.cut()
    assert [is_cut(each) for each in found] == [False, False]


def test_a_copy_of_the_same_connection_is_no_other(stack):
    place = listening(stack)
    used = driver_socket(stack, place)
    one = marked(stack, place, used)
    stack.enter_context(one.dup())
    used.find()
    used.cut()
    assert is_cut(one)


def test_what_was_checked_is_kept_though_the_number_becomes_another(stack, monkeypatch):
    place = listening(stack)
    used = driver_socket(stack, place)
    one = marked(stack, place, used)
    other = stack.enter_context(socket.create_connection(place))
    check = sql_connection._keeps_alive

    def then_reused(found: object) -> int | None:
        seconds = check(found)  # type: ignore[arg-type]
        if seconds is not None:
            monkeypatch.undo()
            one.close()
            stack.enter_context(other.dup())  # gets the number that is free now
        return seconds

    monkeypatch.setattr(sql_connection, "_keeps_alive", then_reused)
    used.find()
    used.cut()
    assert not is_cut(other)


def test_the_garbage_collector_may_run_while_a_mark_is_taken():
    """In the same thread; a lock would wait for itself for ever."""
    assert not [
        each for each in vars(sql_connection).values() if isinstance(each, type(threading.Lock()))
    ]


@pytest.mark.parametrize(
    ("host", "name", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "sql.example", True),
    ],
)
def test_addresses_are_compared_and_names_may_be_any(host, name, expected):
    assert sql_connection._may_be(host, name) is expected
