"""Recorded connections of real clients, and their client side played again to a server."""

import base64
import json
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from standins.tds.tests.answer_tokens import Answered, read_answer
from standins.tds.values import Column
from standins.tds.wire.encoding.tokens import Token
from standins.tds.wire.packets import DEFAULT_SIZE, HEADER_SIZE, Kind, Packet, Unpacker, cut
from standins.tds.wire.requests import declarations

FOLDER = Path(__file__).resolve().parent / "vectors"
_DESCRIPTOR = slice(10, 18)  # in the headers of a request, behind two lengths and a type
_WITH_HEADERS = (Kind.BATCH, Kind.RPC, Kind.TRANSACTION)
_BEGUN, _COMMITTED, _ROLLED_BACK = 8, 9, 10
_SECONDS = 60


class Recorded(NamedTuple):
    """A packet as it was on the wire."""

    connection: int
    by_client: bool
    data: bytes

    @property
    def packet(self) -> Packet:
        return Packet(self.data[0], self.data[1], self.data[HEADER_SIZE:])


@dataclass(frozen=True)
class Recording:
    name: str
    header: dict[str, Any]
    packets: tuple[Recorded, ...]

    def connections(self) -> list[int]:
        return sorted({each.connection for each in self.packets})

    def requests(self, connection: int) -> Iterator["Request"]:
        """What the client sent, message by message; an attention ends an unfinished one."""
        sent: list[Recorded] = []
        for each in self.packets:
            if each.connection != connection or not each.by_client:
                continue
            if sent and each.packet.kind == Kind.ATTENTION:
                yield Request(sent)
                sent = []
            sent.append(each)
            if each.packet.ends:
                yield Request(sent)
                sent = []

    def answers(self) -> Iterator[bytes]:
        """What the recorded server said, message by message; without that of the PRELOGIN."""
        for connection in self.connections():
            own = [p for p in self.packets if p.connection == connection and not p.by_client]
            parts: list[bytes] = []
            for each in own[1:]:
                parts.append(each.packet.payload)
                if each.packet.ends:
                    yield b"".join(parts)
                    parts = []


class Request(list[Recorded]):
    @property
    def kind(self) -> int:
        return self[0].packet.kind

    @property
    def ends(self) -> bool:
        return self[-1].packet.ends

    @property
    def payload(self) -> bytes:
        return b"".join(each.packet.payload for each in self)

    def with_descriptor(self, descriptor: bytes) -> bytes:
        """As the client would have sent it, had this server told it of its transactions."""
        data = bytearray(b"".join(each.data for each in self))
        if self.kind in _WITH_HEADERS:
            place = slice(HEADER_SIZE + _DESCRIPTOR.start, HEADER_SIZE + _DESCRIPTOR.stop)
            data[place] = descriptor
        return bytes(data)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def load(name: str) -> Recording:
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    packets = [json.loads(line) for line in lines[1:]]
    return Recording(
        name,
        json.loads(lines[0]),
        tuple(
            Recorded(each["conn"], each["dir"] == "client", base64.b64decode(each["b64"]))
            for each in packets
        ),
    )


def tables(recording: Recording) -> dict[str, tuple[Column, ...]]:
    """Those that were made before the recording began."""
    found = {}
    setup = recording.header.get("setup_not_recorded", "")
    for name, inside in re.findall(r"CREATE TABLE dbo\.(\w+) \((.*)\)", setup):
        found[name] = tuple(_columns(inside))
    return found


def _columns(text: str) -> Iterator[Column]:
    for name, kind, rest in re.findall(r"(\w+) (\w+(?:\([\w, ]*\))?)([^,()]*)(?:,|$)", text):
        (declared,) = declarations.parse(f"@{name} {kind}")
        yield Column(name, declared.type, "NOT NULL" not in rest, "IDENTITY" in rest)


class Exchange(NamedTuple):
    request: Request
    answer: bytes
    tokens: tuple[Answered, ...]


class Player:
    """Plays one connection of a recording, and keeps the transaction descriptor as clients do."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        self._unpacker = Unpacker()
        self._descriptor = bytes(8)

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def log_in(self, recording: Recording) -> None:
        """PRELOGIN and LOGIN7 of a recording; the rest is for the test to say."""
        playing = self.play(recording, 1)
        next(playing)
        next(playing)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_batch(self, text: str) -> None:
        head = struct.pack("<IIHQI", 22, 18, 2, int.from_bytes(self._descriptor, "little"), 1)
        self.send(b"".join(cut(Kind.BATCH, head + text.encode("utf-16-le"), DEFAULT_SIZE)))

    def read(self) -> tuple[Answered, ...]:
        """The next answer."""
        return tuple(read_answer(self._answer()))

    def end(self) -> str:
        """How the connection ends, which it has to do now."""
        try:
            return "more" if self._socket.recv(1) else "end"
        except ConnectionResetError:
            return "reset"

    def play(self, recording: Recording, connection: int) -> Iterator[Exchange]:
        for request in recording.requests(connection):
            self._socket.sendall(request.with_descriptor(self._descriptor))
            if not request.ends:
                continue
            answer = self._answer()
            is_tokens = request.kind != Kind.PRELOGIN
            read = tuple(read_answer(answer)) if is_tokens else ()
            self._heed(read)
            yield Exchange(request, answer, read)

    def _answer(self) -> bytes:
        parts: list[bytes] = []
        while True:
            data = self._socket.recv(1 << 16)
            assert data, "the server closed the connection"
            for each in self._unpacker.feed(data):
                assert each.kind == Kind.ANSWER
                parts.append(each.payload)
                if each.ends:
                    assert not self._unpacker.within
                    return b"".join(parts)

    def _heed(self, tokens: tuple[Answered, ...]) -> None:
        for each in tokens:
            if each.token is not Token.ENV_CHANGE:
                continue
            if each.kind == _BEGUN:
                self._descriptor = each.new
            elif each.kind in (_COMMITTED, _ROLLED_BACK):
                assert each.old == self._descriptor
                self._descriptor = struct.pack("<Q", 0)
