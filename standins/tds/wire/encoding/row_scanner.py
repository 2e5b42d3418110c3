"""Where the values of bulk-loaded rows are: a loop made for the layout of the message.

Only finding the places has to go byte by byte; what stands there is then read a column at a time
by numpy. The loop is generated, so that a row costs a few steps of Python for each column.
"""

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from standins.tds.wire.encoding.wire_types import Layout, WireType

_NULL = 0xFFFFFFFFFFFFFFFF


class Found(NamedTuple):
    """Places of complete rows, by group of columns; `end` is the place behind the last of them.

    A value in parts has its place behind a length of four bytes: 0 and -1 (NULL) have none, one
    that came in several parts was put together in `more`, whose places follow those of the buffer.
    """

    rows: int
    end: int
    places: list[list[int]]
    more: bytes


Scan = Callable[[bytes, int], Found]

_HEAD = """
def scan(buf, p):
    end = len(buf)
    places = [[] for _ in range({count})]
    {names} = [each.append for each in places]
    more = bytearray()
    rows, start = 0, p
    try:
        while buf[p] == 0xD1:
            p += 1
{body}
            if p > end:
                break
            rows += 1
            start = p
    except (IndexError, error):
        pass
    for column in places:
        del column[rows:]
    return Found(rows, start, places, bytes(more))
"""
_STEPS = {
    Layout.FIXED: "p += {width}",
    Layout.BYTE: "p += 1 + buf[p]",
    Layout.SHORT: "n = buf[p] | buf[p + 1] << 8; p += 2 if n == 65535 else 2 + n",
}
_PARTS = """\
total, n = head(buf, p)
if total == NULL: p += 8; at{i}(p)
else:
    p += 12
    if n == 0: at{i}(p)
    elif following(buf, p + n)[0] == 0: at{i}(p); p += n + 4
    else: q, p = gather(buf, p - 4, more); at{i}(q)"""


def groups(layout: Sequence[WireType]) -> list[list[int]]:
    """Columns whose values follow each other without parts, and those in parts one by one."""
    found: list[list[int]] = []
    open_group = False
    for index, wire in enumerate(layout):
        in_parts = wire.layout is Layout.PARTS
        if open_group and not in_parts:
            found[-1].append(index)
        else:
            found.append([index])
        open_group = not in_parts
    return found


def _gather(buf: bytes, p: int, more: bytearray) -> tuple[int, int]:
    """A value in several parts: its place behind the buffer, and where it ended."""
    parts = []
    while n := struct.unpack_from("<I", buf, p)[0]:
        if p + 4 + n > len(buf):
            raise IndexError
        parts.append(buf[p + 4 : p + 4 + n])
        p += 4 + n
    value = b"".join(parts)
    more += struct.pack("<I", len(value))
    place = len(buf) + len(more)
    more += value
    return place, p + 4


def _body(layout: Sequence[WireType], number: int, group: list[int]) -> list[str]:
    """For a run of columns only its beginning is kept: the rest follows from the lengths."""
    first = layout[group[0]]
    if first.layout is Layout.PARTS:
        return _PARTS.format(i=number).splitlines()
    steps = [_STEPS[layout[i].layout].format(width=layout[i].width) for i in group]
    return [f"at{number}(p)", *steps]


def scanner(layout: Sequence[WireType]) -> Scan:
    """`scan(buffer, place)` reads the rows that are complete and stops at any other token."""
    found = groups(layout)
    lines = [line for number, group in enumerate(found) for line in _body(layout, number, group)]
    source = _HEAD.format(
        count=len(found),
        names=", ".join(f"at{number}" for number in range(len(found))) + ",",
        body="\n".join(" " * 12 + line for line in lines),
    )
    space = {
        "Found": Found,
        "NULL": _NULL,
        "head": struct.Struct("<QI").unpack_from,
        "following": struct.Struct("<I").unpack_from,
        "error": struct.error,
        "gather": _gather,
    }
    exec(source, space)  # noqa: S102 - the text is made of the templates above and of numbers
    made: Scan = space["scan"]  # type: ignore[assignment]
    return made
