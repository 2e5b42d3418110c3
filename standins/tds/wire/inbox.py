"""What a client sends after its login, read by a thread of its own.

So an attention is seen while a statement runs or rows are sent. What came waits in a short queue:
a client that sends more than is taken has to wait, too.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

from standins.tds.faults import Drop, Dropped, Faults, When
from standins.tds.wire.link import Link
from standins.tds.wire.packets import BadPacket, Kind, Packet, Status, Unpacker

_WAITING = 16
_PATIENCE = 0.2


class Interrupted(Exception):
    """What is under way is no longer wanted: an attention is next, or the client is gone."""


class Ignored(Exception):
    """The client took back the message it was sending."""


class Inbox:
    """Pieces of messages: packets of one message that came together are one piece."""

    def __init__(self, link: Link, unpacker: Unpacker, faults: Faults) -> None:
        self._link, self._unpacker, self._faults = link, unpacker, faults
        self._pieces: queue.Queue[Packet | None] = queue.Queue(_WAITING)
        self._seen = self._met = 0  # attentions; each number is changed by one thread only
        self._closed = self._stopped = False
        self._thread: threading.Thread | None = None
        self.drop = Drop.FIN

    def start(self, on_interrupt: Callable[[], None]) -> None:
        """`on_interrupt` is called in the thread of the inbox."""
        run = threading.Thread(target=self._read, args=(on_interrupt,), name="tds-in", daemon=True)
        self._thread = run
        run.start()

    def stop(self) -> None:
        self._stopped = True
        self._link.wake_reader()
        if self._thread is not None:
            self._thread.join()

    @property
    def attention_waits(self) -> bool:
        return self._seen > self._met

    @property
    def interrupted(self) -> bool:
        return self.attention_waits or self._closed

    def check(self) -> None:
        if self.interrupted:
            raise Interrupted

    def next(self) -> Packet | None:
        """The next piece; None when the client has gone."""
        piece = self._pieces.get()
        if piece is not None and piece.kind == Kind.ATTENTION:
            self._met += 1
        return piece

    def message(self, first: Packet) -> Iterator[bytes]:
        """The rest of a message, piece by piece."""
        piece = first
        while True:
            if piece.status & Status.IGNORE:
                raise Ignored
            yield piece.payload
            if piece.ends:
                return
            piece = self._follow(first.kind)

    def _follow(self, kind: int) -> Packet:
        """An attention in the midst of a message goes back to be met as one."""
        piece = self._pieces.get()
        if piece is None or piece.kind != kind:
            self._pushed(piece)
            raise Interrupted
        return piece

    def _pushed(self, piece: Packet | None) -> None:
        with self._pieces.mutex:
            self._pieces.queue.appendleft(piece)
            self._pieces.not_empty.notify()

    def _read(self, on_interrupt: Callable[[], None]) -> None:
        try:
            while data := self._link.receive():
                for piece in _joined(self._noticed(self._unpacker.feed(data))):
                    self._put(piece, on_interrupt)
        except Dropped as dropped:
            self.drop = dropped.how
        except (BadPacket, OSError):
            pass
        self._closed = True
        on_interrupt()
        self._put(None, on_interrupt)

    def _noticed(self, packets: list[Packet]) -> Iterator[Packet]:
        for each in packets:
            self._faults.meet(When.RECEIVED)
            yield each

    def _put(self, piece: Packet | None, on_interrupt: Callable[[], None]) -> None:
        if piece is not None and piece.kind == Kind.ATTENTION:
            self._seen += 1
            on_interrupt()
        while not self._stopped:
            with contextlib.suppress(queue.Full):
                self._pieces.put(piece, timeout=_PATIENCE)
                return


def _joined(packets: Iterator[Packet]) -> Iterator[Packet]:
    """Those of one message together; where the iteration fails, what came before is given first."""
    gathered: list[Packet] = []
    try:
        for each in packets:
            if gathered and (gathered[-1].ends or gathered[-1].kind != each.kind):
                yield _one(gathered)
                gathered = []
            gathered.append(each)
    except Dropped:
        if gathered:
            yield _one(gathered)
        raise
    if gathered:
        yield _one(gathered)


def _one(packets: list[Packet]) -> Packet:
    if len(packets) == 1:
        return packets[0]
    status = 0
    for each in packets:
        status |= each.status
    return Packet(packets[0].kind, status, b"".join([each.payload for each in packets]))
