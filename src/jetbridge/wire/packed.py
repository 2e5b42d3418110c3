"""msgpack bodies, measured before any object is made of them.

One byte may stand for a list or a map of 64 bytes and more, so a body is counted first: its depth,
its items, and that each string and container fits into what is left of the body.
"""

from typing import NamedTuple

from jetbridge.errors import LimitExceeded
from jetbridge.wire.limits import InputLimits

# First bytes and what they mean: msgpack's specification, "Formats".
_FIXMAP, _FIXARRAY, _FIXSTR, _NIL, _NEGATIVE = 0x80, 0x90, 0xA0, 0xC0, 0xE0
_NEVER_USED = 0xC1


class _Form(NamedTuple):
    """`size_bytes` of a size follow the first byte; the size counts bytes, or `items` each.

    `extra` bytes come besides: the value of a number, the kind of an extension.
    """

    size_bytes: int = 0
    items: int = 0
    extra: int = 0


_FORMS: dict[int, _Form] = {
    **{0xC0 + n: _Form() for n in (0, 2, 3)},  # nil, false, true
    **{0xC4 + n: _Form(1 << n) for n in range(3)},  # bin
    **{0xC7 + n: _Form(1 << n, extra=1) for n in range(3)},  # ext
    0xCA: _Form(extra=4),
    0xCB: _Form(extra=8),
    **{0xCC + n: _Form(extra=1 << n) for n in range(4)},  # uint
    **{0xD0 + n: _Form(extra=1 << n) for n in range(4)},  # int
    **{0xD4 + n: _Form(extra=1 + (1 << n)) for n in range(5)},  # fixext
    **{0xD9 + n: _Form(1 << n) for n in range(3)},  # str
    **{0xDC + n: _Form(2 << n, items=1) for n in range(2)},  # array
    **{0xDE + n: _Form(2 << n, items=2) for n in range(2)},  # map
}


def check_packed(body: bytes, what: str, limits: InputLimits) -> None:
    """Raises LimitExceeded, and ValueError for a body that is not one msgpack value."""
    refuse_large(body, what, limits)
    left: list[int] = [1]  # items that are still to come, in each container that is open
    at = items = 0
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        size, inside, begins = _value(body, at)
        at += size
        if begins:
            items += inside
            left.append(inside)
            _refuse_many(items, len(left), what, limits)
            if at + inside > len(body):
                raise ValueError("the body is cut short")
    if at != len(body):
        raise ValueError("the body goes on after its end, or is cut short")


def _refuse_many(items: int, depth: int, what: str, limits: InputLimits) -> None:
    if items > limits.request_items:
        raise LimitExceeded(
            f"{what}: the body has more than {limits.request_items} items; send fewer"
        )
    if depth > limits.request_depth + 1:
        raise ValueError("the body is nested too deep for any message")


def refuse_large(body: bytes, what: str, limits: InputLimits) -> None:
    if len(body) > limits.request_bytes:
        raise LimitExceeded(
            f"{what}: the body of {len(body)} bytes is over limits.request_bytes "
            f"({limits.request_bytes}); send less, or raise the limit"
        )


def _value(body: bytes, at: int) -> tuple[int, int, bool]:
    """Bytes of a value without those inside a container, the items inside, whether it is one."""
    if at >= len(body):
        raise ValueError("the body is cut short")
    first = body[at]
    if first < _FIXMAP or first >= _NEGATIVE:
        return 1, 0, False
    if first >= _NIL:
        return _sized(body, at, first)
    if first >= _FIXSTR:
        return 1 + (first & 0x1F), 0, False
    if first >= _FIXARRAY:
        return 1, first & 0x0F, True
    return 1, 2 * (first & 0x0F), True


def _sized(body: bytes, at: int, first: int) -> tuple[int, int, bool]:
    if first == _NEVER_USED:
        raise ValueError("0xc1 is not used in msgpack")
    size_bytes, items, extra = _FORMS[first]
    start = 1 + size_bytes
    size = int.from_bytes(body[at + 1 : at + start], "big")
    if items:
        return start, items * size, True
    return start + size + extra, 0, False
