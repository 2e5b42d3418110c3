"""A TCP proxy that reads HTTP/2 frames, so that tests can break a connection at any frame."""

import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_FRAME_HEADER = 9
_DATA = 0
_END_STREAM = 1
_CHUNK = 256 * 1024


class Side(Enum):
    CLIENT = "client"
    SERVER = "server"


class Cut(Enum):
    """Name how a connection breaks."""

    RESET = "reset"
    FIN = "fin"


class Verdict(Enum):
    FORWARD = "forward"
    WITHOUT_END = "forward, but without its end-of-stream flag, then break"
    HALF = "forward the first half of the frame, then break"
    BREAK = "break instead"


class Frame(NamedTuple):
    kind: int
    flags: int
    payload: bytes

    @property
    def is_data(self) -> bool:
        return self.kind == _DATA

    @property
    def ends_stream(self) -> bool:
        return self.is_data and bool(self.flags & _END_STREAM)


Rule = Callable[[Side, Frame], Verdict]


def forward(_side: Side, _frame: Frame) -> Verdict:
    return Verdict.FORWARD


def before_half_close(side: Side, frame: Frame) -> Verdict:
    """Forward every byte but the end of the stream to the server."""
    ends = side is Side.CLIENT and frame.ends_stream
    return Verdict.WITHOUT_END if ends else Verdict.FORWARD


class _Pipe:
    """Forward one direction of one connection."""

    def __init__(self, side: Side, source: socket.socket, target: socket.socket) -> None:
        self.side, self.source, self.target = side, source, target
        self.buffer = bytearray()
        self.preface = _PREFACE if side is Side.CLIENT else 0

    def frames(self) -> list[tuple[bytes, Frame | None]]:
        """Return the complete frames so far; the preface is not a frame."""
        found: list[tuple[bytes, Frame | None]] = []
        if self.preface and len(self.buffer) >= self.preface:
            found.append((self._take(self.preface), None))
            self.preface = 0
        while not self.preface and len(self.buffer) >= _FRAME_HEADER:
            size = _FRAME_HEADER + int.from_bytes(self.buffer[:3], "big")
            if len(self.buffer) < size:
                break
            raw = self._take(size)
            found.append((raw, Frame(raw[3], raw[4], raw[_FRAME_HEADER:])))
        return found

    def _take(self, size: int) -> bytes:
        raw = bytes(self.buffer[:size])
        del self.buffer[:size]
        return raw


class Proxy:
    """Forward connections in one thread: a socket that another thread reads closes late."""

    def __init__(self, location: str, cut: Cut = Cut.RESET) -> None:
        url = urlsplit(location)
        self._target = (url.hostname, url.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._commands: deque[tuple[Cut | None, threading.Event]] = deque()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.cut_by = cut
        self.rule: Rule = forward
        self.cuts = 0
        self.client_bytes = 0  # of DATA frames
        self._running = True
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self, how: Cut) -> None:
        """Break all connections now; serve new ones."""
        self._tell(how)

    def close(self) -> None:
        self._tell(None)
        self._thread.join()
        for each in (self._listener, self._wake, self._waker):
            each.close()
        self._selector.close()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, command: Cut | None) -> None:
        done = threading.Event()
        self._commands.append((command, done))
        self._waker.send(b"!")
        assert done.wait(10)

    def _run(self) -> None:
        while self._running:
            for key, _ in self._selector.select():
                if key.fileobj is self._wake:
                    self._wake.recv(_CHUNK)
                    self._obey()
                    break
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data.source.fileno() >= 0:  # an earlier one may have closed it
                    self._move(key.data)

    def _obey(self) -> None:
        while self._commands:
            command, done = self._commands.popleft()
            self._break(command or Cut.FIN)
            self._running = self._running and command is not None
            done.set()

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        self._pairs.append((client, server))
        for side, source, target in (
            (Side.CLIENT, client, server),
            (Side.SERVER, server, client),
        ):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(source, selectors.EVENT_READ, _Pipe(side, source, target))

    def _move(self, pipe: _Pipe) -> None:
        try:
            data = pipe.source.recv(_CHUNK)
            if not data:
                self._drop(pipe.source)
                return
            pipe.buffer += data
            for raw, frame in pipe.frames():
                verdict = self.rule(pipe.side, frame) if frame else Verdict.FORWARD
                pipe.target.sendall(_outgoing(raw, verdict))
                if verdict is not Verdict.FORWARD:
                    self.rule = forward
                    self._break(self.cut_by)
                    return
                if frame and frame.is_data and pipe.side is Side.CLIENT:
                    self.client_bytes += len(frame.payload)
        except OSError:
            self._drop(pipe.source)

    def _drop(self, source: socket.socket) -> None:
        for pair in [pair for pair in self._pairs if source in pair]:
            self._close_pair(pair, Cut.FIN)

    def _break(self, how: Cut) -> None:
        self.cuts += bool(self._pairs)
        for pair in list(self._pairs):
            self._close_pair(pair, how)

    def _close_pair(self, pair: tuple[socket.socket, socket.socket], how: Cut) -> None:
        self._pairs.remove(pair)
        for each in pair:
            self._selector.unregister(each)
            if how is Cut.RESET:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.close()


def _outgoing(raw: bytes, verdict: Verdict) -> bytes:
    match verdict:
        case Verdict.FORWARD:
            return raw
        case Verdict.HALF:
            return raw[: len(raw) // 2]
        case Verdict.WITHOUT_END:
            return raw[:4] + bytes([raw[4] & ~_END_STREAM]) + raw[5:]
        case Verdict.BREAK:
            return b""
