"""The messages between the server and the process of a session.

The server sends a `WorkerCall` and reads until the `Answer`, `ResultPage` or `Failure`. Before
these, the process may send `Pull`, to which the server answers with `PulledRows`. The server checks
what it receives as data of somebody else: sizes are limited, types are checked, and Arrow data is
validated by the reader that it passes in.
"""

import socket
import struct
from typing import Any

import msgspec

from jetbridge.errors import LimitExceeded

# The most that an answer has: names and types, no rows.
ANSWER_BYTES = 4 * 1024 * 1024
# After the last rows.
NOTHING = memoryview(b"")
_LENGTH = struct.Struct("!Q")


class WorkerCall(msgspec.Struct, tag="call", array_like=True):
    """Call a function of the process; `target` is the number of a database or connection."""

    function: str
    target: int
    arguments: list[Any]


class PulledRows(msgspec.Struct, tag="rows", array_like=True):
    """Hold the next rows of registered data as an Arrow stream; `NOTHING` after the last ones."""

    data: memoryview
    failed: bool = False


class Answer(msgspec.Struct, tag="answer", array_like=True):
    """Hold the result of a call, encoded again so that its size and type are checked."""

    value: msgspec.Raw


class ResultPage(msgspec.Struct, tag="page", array_like=True):
    """Hold rows of a result, or a schema, as an Arrow stream; `NOTHING` after the last ones."""

    data: memoryview


class Failure(msgspec.Struct, tag="failure", array_like=True):
    """Hold an error: the class of DuckDB's exception, or "" and a record of a ServerError."""

    name: str
    message: str


class Pull(msgspec.Struct, tag="pull", array_like=True):
    """Ask for the next rows of registered data."""

    name: str


Reply = Answer | ResultPage | Failure | Pull
Request = WorkerCall | PulledRows


def send(channel: socket.socket, message: Request | Reply) -> None:
    """Send one message; raise OSError if the other side has ended."""
    body = msgspec.msgpack.encode(message)
    channel.sendall(_LENGTH.pack(len(body)))
    channel.sendall(body)


def receive(channel: socket.socket, most_bytes: int) -> bytearray:
    """Return the next message, not decoded.

    Raises EOFError or OSError if the other side has ended, and LimitExceeded for a message that is
    too long.
    """
    (size,) = _LENGTH.unpack(_read(channel, _LENGTH.size))
    if size > most_bytes:
        raise LimitExceeded(f"an answer of DuckDB has {size} bytes, and may have {most_bytes}")
    return _read(channel, size)


def _read(channel: socket.socket, size: int) -> bytearray:
    body = bytearray(size)
    rest = memoryview(body)
    while rest:
        count = channel.recv_into(rest)
        if not count:
            raise EOFError("the other side has ended")
        rest = rest[count:]
    return body
