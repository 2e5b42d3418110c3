"""Decodes msgpack bodies to message structs, and encodes answers.

msgpack-c packs every `std::string` as text, even if it holds binary data. So text is decoded with
surrogate escapes: a `Blob` field turns them back into bytes, and a text field that has some was not
UTF-8 and is refused.

A body is checked before it is decoded, because one byte may stand for a list or a map that takes 64
bytes and more. The check limits its depth and the number of items, and finds strings and containers
that do not fit into the body.
"""

import re
from typing import Any, NamedTuple, TypeVar

import msgpack
import msgspec

from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits

T = TypeVar("T", bound=msgspec.Struct)

_MISSING = re.compile(r"missing required field `(\w+)`")
_UNREADABLE = (
    ValueError,
    TypeError,
    RecursionError,
    OverflowError,
    msgpack.UnpackException,
)
_EMPTY = re.compile(r"Expected `str` of length >= 1 - at `\$\.([\w.\[\]]+)`")


class Blob(bytes):
    """Hold binary data, however the sender packed it."""


def decode(
    message_type: type[T], body: bytes, title: str, limits: InputLimits = REQUEST_LIMITS
) -> T:
    """Decode one msgpack map. Raises BadRequest or LimitExceeded; messages begin with `title`."""
    try:
        check_packed(body, title, limits)
        value, all_text = _unpack(body)
        message = msgspec.convert(value, message_type, dec_hook=_dec_hook)
        if not all_text:
            _refuse_broken_text(message)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{title}: {_explain(str(error))}") from error
    except UnicodeEncodeError as error:
        raise BadRequest(f"{title}: a string is not valid UTF-8") from error
    except _UNREADABLE as error:
        raise BadRequest(f"{title}: the body is not the expected msgpack map") from error
    return message


def decode_text(
    message_type: type[T], body: bytes, title: str, limits: InputLimits = REQUEST_LIMITS
) -> T:
    """Decode one JSON object, the form that people can type. Raises the errors of `decode`."""
    refuse_large(body, title, limits)
    try:
        return msgspec.json.decode(body, type=message_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{title}: {_explain(str(error))}") from error


def is_text(body: bytes) -> bool:
    """Return whether the body is a JSON object: no msgpack map begins with `{`."""
    return body.lstrip()[:1] == b"{"


def _unpack(body: bytes) -> tuple[Any, bool]:
    """Return the value, and whether every text in it is valid UTF-8."""
    try:
        return msgpack.unpackb(body), True
    except UnicodeDecodeError:
        return msgpack.unpackb(body, unicode_errors="surrogateescape"), False


def unpack(body: bytes, title: str, limits: InputLimits) -> Any:
    """Decode any msgpack value, with text as bytes. Raises LimitExceeded and msgpack's errors."""
    check_packed(body, title, limits)
    return msgpack.unpackb(body, raw=True)


def encode(value: Any) -> bytes:
    """Encode a value with msgpack."""
    return msgpack.packb(value, use_bin_type=True)  # type: ignore[no-any-return]


def _dec_hook(field_type: type, value: Any) -> Any:
    if field_type is not Blob:
        raise NotImplementedError
    if isinstance(value, str):
        return Blob(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return Blob(value)
    raise ValueError(f"Expected `bytes`, got `{type(value).__name__}`")


def _refuse_broken_text(value: Any) -> None:
    match value:
        case str():
            value.encode("utf-8")
        case list():
            for item in value:
                _refuse_broken_text(item)
        case dict():
            for key, item in value.items():
                _refuse_broken_text(key)
                _refuse_broken_text(item)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _refuse_broken_text(getattr(value, name))


def _explain(text: str) -> str:
    if missing := _MISSING.search(text):
        return f"field {missing[1]!r} is required"
    if empty := _EMPTY.search(text):
        return f"field {empty[1]!r} must not be empty"
    return text.replace("`", "'")[:300]


# First bytes by their meaning, from the section "Formats" of msgpack's specification.
_FIXMAP, _FIXARRAY, _FIXSTR, _NIL, _NEGATIVE = 0x80, 0x90, 0xA0, 0xC0, 0xE0
_NEVER_USED = 0xC1


class _Form(NamedTuple):
    """Describe what follows a first byte.

    A size of `size_bytes` follows: the number of bytes, or for containers the number of entries of
    `items` items each. Then follow `extra` bytes: the value of a number, the type of an extension.
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


def check_packed(body: bytes, title: str, limits: InputLimits) -> None:
    """Check that a body is one msgpack value. Raises ValueError, or LimitExceeded if large."""
    refuse_large(body, title, limits)
    left: list[int] = [1]  # items still to come in each open container
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
            _refuse_many(items, len(left), title, limits)
            if at + inside > len(body):
                raise ValueError("the body is cut short")
    if at != len(body):
        raise ValueError("the body has bytes after its value, or is cut short")


def _refuse_many(items: int, depth: int, title: str, limits: InputLimits) -> None:
    if items > limits.request_items:
        raise LimitExceeded(
            f"{title}: the body has more than {limits.request_items} items; send fewer"
        )
    if depth > limits.request_depth + 1:
        raise ValueError("the body is nested too deeply")


def refuse_large(body: bytes, title: str, limits: InputLimits) -> None:
    """Raise LimitExceeded if the body has more bytes than the limit."""
    if len(body) > limits.request_bytes:
        raise LimitExceeded(
            f"{title}: the body of {len(body)} bytes is over limits.request_bytes "
            f"({limits.request_bytes}); send less, or raise the limit"
        )


def _value(body: bytes, at: int) -> tuple[int, int, bool]:
    """Return the size of a value without its items, their number, and whether it is a container."""
    if at >= len(body):
        raise ValueError("the body is cut short")
    first = body[at]
    if first < _FIXMAP or first >= _NEGATIVE:
        return 1, 0, False
    if first >= _NIL:
        return _read_size(body, at, first)
    if first >= _FIXSTR:
        return 1 + (first & 0x1F), 0, False
    if first >= _FIXARRAY:
        return 1, first & 0x0F, True
    return 1, 2 * (first & 0x0F), True


def _read_size(body: bytes, at: int, first: int) -> tuple[int, int, bool]:
    if first == _NEVER_USED:
        raise ValueError("0xc1 is not used in msgpack")
    size_bytes, items, extra = _FORMS[first]
    start = 1 + size_bytes
    size = int.from_bytes(body[at + 1 : at + start], "big")
    if items:
        return start, items * size, True
    return start + size + extra, 0, False
