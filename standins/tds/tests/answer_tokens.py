"""The tokens of a server's answer, read as a client would."""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from standins.tds.wire.encoding.reader import Reader
from standins.tds.wire.encoding.tokens import Token
from standins.tds.wire.encoding.wire_types import WireType, read_type
from standins.tds.wire.encoding.wire_values import read_value

_ROW_WITH_BITMAP = 0xD2  # NBCROW: only the recorded server sends it


@dataclass(frozen=True)
class Described:
    """A column of COLMETADATA."""

    name: str
    wire: WireType
    flags: int
    user_type: int


@dataclass(frozen=True)
class Answered:
    """One token; `data` holds what it says, by name."""

    token: Token
    data: dict[str, Any] = field(default_factory=dict)
    raw: bytes = b""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


def read_columns(reader: Reader) -> tuple[Described, ...]:
    columns = []
    for _ in range(reader.u16()):
        user_type, flags = reader.u32(), reader.u16()
        wire = read_type(reader)
        columns.append(Described(reader.short_text(), wire, flags, user_type))
    return tuple(columns)


def _done(reader: Reader) -> dict[str, Any]:
    status, command, rows = struct.unpack("<HHQ", reader.take(12))
    return {"status": status, "command": command, "rows": rows}


def _notice(reader: Reader) -> dict[str, Any]:
    size = reader.u16()
    end = reader.at + size
    number, state, severity = struct.unpack("<iBB", reader.take(6))
    text, server, procedure = reader.long_text(), reader.short_text(), reader.short_text()
    line = reader.u32()
    assert reader.at == end
    return {"number": number, "state": state, "severity": severity, "text": text, "line": line,
        "server": server, "procedure": procedure}  # fmt: skip


def _env_change(reader: Reader) -> dict[str, Any]:
    inner = Reader(reader.take(reader.u16()))
    kind = inner.u8()
    if kind in (1, 2, 4):
        new, old = inner.short_text(), inner.short_text()
    else:
        new, old = inner.take(inner.u8()), inner.take(inner.u8())  # type: ignore[assignment]
    assert inner.left == 0
    return {"kind": kind, "new": new, "old": old}


def _login_ack(reader: Reader) -> dict[str, Any]:
    inner = Reader(reader.take(reader.u16()))
    interface, version, program = inner.u8(), inner.take(4), inner.short_text()
    return {"interface": interface, "version": version, "program": program, "build": inner.take(4)}


def _features(reader: Reader) -> dict[str, Any]:
    found = {}
    while (number := reader.u8()) != 0xFF:
        found[number] = reader.take(reader.u32())
    return {"features": found}


def _return_value(reader: Reader) -> dict[str, Any]:
    ordinal, name, status = reader.u16(), reader.short_text(), reader.u8()
    reader.take(6)
    wire = read_type(reader)
    value = read_value(wire, reader)
    return {"ordinal": ordinal, "name": name, "status": status, "wire": wire, "value": value}


_READERS: dict[Token, Callable[[Reader], dict[str, Any]]] = {
    Token.DONE: _done,
    Token.DONE_PROC: _done,
    Token.DONE_IN_PROC: _done,
    Token.ERROR: _notice,
    Token.INFO: _notice,
    Token.ENV_CHANGE: _env_change,
    Token.LOGIN_ACK: _login_ack,
    Token.FEATURES_ACK: _features,
    Token.RETURN_VALUE: _return_value,
    Token.RETURN_STATUS: lambda reader: {"value": struct.unpack("<i", reader.take(4))[0]},
    Token.COLUMNS: lambda reader: {"columns": read_columns(reader)},
}


def _values(reader: Reader, columns: Sequence[Described], bitmap: bool) -> tuple[Any, ...]:
    """NULLs of a row with a bitmap have their bit in it, and no bytes."""
    bits = int.from_bytes(reader.take((len(columns) + 7) // 8), "little") if bitmap else 0
    return tuple(
        None if bits >> i & 1 else read_value(each.wire, reader) for i, each in enumerate(columns)
    )


def read_answer(data: bytes) -> Iterator[Answered]:
    reader = Reader(data)
    columns: tuple[Described, ...] = ()
    while reader.left:
        start = reader.at
        number = reader.u8()
        token = Token.ROW if number == _ROW_WITH_BITMAP else Token(number)
        if token is Token.ROW:
            read = {"values": _values(reader, columns, number == _ROW_WITH_BITMAP)}
        else:
            read = _READERS[token](reader)
            columns = read.get("columns", columns)
        yield Answered(token, read, data[start : reader.at])
