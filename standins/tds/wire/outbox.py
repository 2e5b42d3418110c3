"""The answer under way: tokens gathered, sent in packets of the agreed size."""

from standins.tds.faults import Faults, When
from standins.tds.wire.link import Link
from standins.tds.wire.packets import DEFAULT_SIZE, HEADER_SIZE, Kind, Status, packet

_ENOUGH = 64 * 1024


class Outbox:
    def __init__(self, link: Link, faults: Faults, spid: int) -> None:
        self._link, self._faults, self._spid = link, faults, spid
        self._buffer = bytearray()
        self._number = 0
        self.size = DEFAULT_SIZE

    def write(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= _ENOUGH:
            self._send(last=False)

    def forget(self) -> None:
        """What is not sent yet will not be."""
        self._buffer.clear()

    def finish(self) -> None:
        """The answer is complete."""
        self._send(last=True)
        self._number = 0

    def _send(self, last: bool) -> None:
        """Full packets; one of them stays behind, since the last must say that it is."""
        body = self.size - HEADER_SIZE
        total = len(self._buffer)
        count = max((total + body - 1) // body, 1)
        data = bytes(self._buffer)
        view = memoryview(data)
        made: list[bytes] = []
        sent = count if last else count - 1
        for index in range(sent):
            self._number += 1
            status = Status.END if last and index == count - 1 else 0
            part = view[index * body : (index + 1) * body]
            made.append(packet(Kind.ANSWER, status, part, self._number, self._spid))
        self._buffer = bytearray(data[sent * body :])
        self._out(made)

    def _out(self, made: list[bytes]) -> None:
        if not self._faults.watch(When.SENT):
            self._link.send(b"".join(made))
            return
        for each in made:
            self._faults.meet(When.SENT)
            self._link.send(each)
