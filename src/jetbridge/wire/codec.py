"""Bytes of the Airport client to message structs, and answers to bytes.

msgpack-c packs every `std::string` as msgpack str, also those that hold binary. So text is
decoded with surrogate escapes; a `Blob` field turns them back into bytes, and a text field that
still has some was not UTF-8 and is refused.
"""

import re
from typing import Any, TypeVar

import msgpack
import msgspec

from jetbridge.errors import BadRequest
from jetbridge.wire.limits import REQUEST_LIMITS, InputLimits
from jetbridge.wire.packed import check_packed, refuse_large

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
    """Binary, however the sender packed it."""


def decode(kind: type[T], body: bytes, what: str, limits: InputLimits = REQUEST_LIMITS) -> T:
    """One msgpack map as a struct; raises BadRequest and LimitExceeded that begin with `what`."""
    try:
        check_packed(body, what, limits)
        value, all_text = _unpack(body)
        message = msgspec.convert(value, kind, dec_hook=_dec_hook)
        if not all_text:
            _refuse_broken_text(message)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {_explain(str(error))}") from error
    except UnicodeEncodeError as error:
        raise BadRequest(f"{what}: a text field is not valid UTF-8") from error
    except _UNREADABLE as error:
        raise BadRequest(f"{what}: the body is not the expected msgpack map") from error
    return message


def decode_text(kind: type[T], body: bytes, what: str, limits: InputLimits = REQUEST_LIMITS) -> T:
    """The same for JSON, which is what people can type."""
    refuse_large(body, what, limits)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{what}: {_explain(str(error))}") from error


def is_text(body: bytes) -> bool:
    """Whether it is JSON: no msgpack map begins so."""
    return body.lstrip()[:1] == b"{"


def _unpack(body: bytes) -> tuple[Any, bool]:
    """The value, and whether every str in it is text."""
    try:
        return msgpack.unpackb(body), True
    except UnicodeDecodeError:
        return msgpack.unpackb(body, unicode_errors="surrogateescape"), False


def unpack(body: bytes, what: str, limits: InputLimits) -> Any:
    """Any msgpack value, with str as bytes; raises LimitExceeded and what msgpack raises."""
    check_packed(body, what, limits)
    return msgpack.unpackb(body, raw=True)


def encode(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)  # type: ignore[no-any-return]


def _dec_hook(kind: type, value: Any) -> Any:
    if kind is not Blob:
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
