"""A bulk load: the rows of one message, given to the engine while they still come in."""

import struct
from collections.abc import Sequence

import pyarrow as pa

from standins.tds.values import Bulk, Column, SqlError
from standins.tds.wire.encoding import columns_in, row_scanner
from standins.tds.wire.encoding.columns_python import python_rows
from standins.tds.wire.encoding.reader import Reader, TooShort
from standins.tds.wire.encoding.tokens import Token
from standins.tds.wire.encoding.wire_types import Layout, WireType, read_type

_BLOCK = 1 << 20
# Clients of TDS 7.2 and later may still write the short DONE of older versions.
_DONE_SIZES = (9, 13)
# One name for those that a client may send for each other; all others stand for themselves.
_FAMILIES = {
    "numeric": "decimal",
    "char": "varchar",
    "nchar": "nvarchar",
    "binary": "varbinary",
}


class Load:
    """Fed with the payloads of a bulk-load message."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = 0
        self._layout: tuple[WireType, ...] | None = None
        self._scan: row_scanner.Scan | None = None

    def feed(self, data: bytes) -> int:
        """How many rows the engine was given; some wait until more has come."""
        self._parts.append(data)
        self._size += len(data)
        return self._work() if self._size >= self._wanted else 0

    def finish(self) -> int:
        """No more comes: what is left has to be rows and a DONE, which FreeTDS leaves out."""
        rows = self._work()
        rest = b"".join(self._parts)
        is_done = len(rest) in _DONE_SIZES and rest[0] == Token.DONE
        if self._layout is None or (rest and not is_done):
            raise _unexpected_end()
        return rows

    def _work(self) -> int:
        data = b"".join(self._parts)
        at = 0
        if self._layout is None:
            at = self._read_layout(data)
        rows = 0
        if self._scan is not None and self._layout is not None:
            rows, at = self._read_rows(data, at)
        self._parts = [data[at:]] if at < len(data) else []
        self._size = len(data) - at
        # A large value is not looked at anew for every packet of it.
        self._wanted = max(_BLOCK, 2 * self._size)
        return rows

    def _read_layout(self, data: bytes) -> int:
        try:
            layout, at = read_columns(data)
        except TooShort:
            return 0
        check(layout, self._bulk.columns)
        self._layout, self._scan = layout, row_scanner.scanner(layout)
        return at

    def _read_rows(self, data: bytes, at: int) -> tuple[int, int]:
        assert self._scan is not None
        assert self._layout is not None
        found = self._scan(data, at)
        if found.end < len(data) and data[found.end] not in (Token.ROW, Token.DONE):
            raise _unexpected_end()
        if found.rows:
            self._give(_batch(self._layout, self._bulk.columns, data, found))
        return found.rows, found.end

    def _give(self, batch: pa.RecordBatch) -> None:
        append_columns = getattr(self._bulk, "append_columns", None)
        if append_columns is not None:
            append_columns(batch)
        else:
            self._bulk.append(python_rows(batch))


def _batch(
    layout: Sequence[WireType], columns: Sequence[Column], data: bytes, found: row_scanner.Found
) -> pa.RecordBatch:
    raw = data + found.more if found.more else data
    located = columns_in.locate(layout, raw, found.places)
    arrays = []
    for number, (each, column) in enumerate(zip(located, columns, strict=True), 1):
        columns_in.check_lengths(each, column, number)
        arrays.append(columns_in.column(each, column))
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


def read_columns(data: bytes) -> tuple[tuple[WireType, ...], int]:
    """COLMETADATA as a client sends it: the types, and the place behind."""
    reader = Reader(data)
    if reader.u8() != Token.COLUMNS:
        raise _unexpected_end()
    layout: list[WireType] = []
    for _ in range(reader.u16()):
        reader.take(struct.calcsize("<IH"))  # user type and flags
        layout.append(read_type(reader))
        reader.short_text()
    return tuple(layout), reader.at


def check(layout: Sequence[WireType], columns: Sequence[Column]) -> None:
    """The bulk load converts nothing: what is sent has to be what the column is."""
    if len(layout) != len(columns):
        text = "The number of columns in the bulk load stream differs from that of the statement."
        raise SqlError(4804, text)
    for number, (wire, column) in enumerate(zip(layout, columns, strict=True), 1):
        differs = _family(wire.sql.name) != _family(column.type.name)
        if differs or wire.layout is Layout.LONG:
            raise SqlError(4816, f"Invalid column type from bcp client for colid {number}.")


def _family(name: str) -> str:
    return _FAMILIES.get(name, name)


def _unexpected_end() -> SqlError:
    return SqlError(4804, "While reading current row from host, a premature end-of-message was "
        "encountered--an incoming data stream was interrupted when the server expected to see "
        "more data. The host program may have terminated.")  # fmt: skip
