"""Rows in columns: what a bulk load reads and a result set writes, against the slow way."""

import random
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from standins.tds.arrow_types import OFFSET_TIME, arrow_type
from standins.tds.values import Column, Row, SqlError, SqlType
from standins.tds.wire.encoding import row_scanner, tokens
from standins.tds.wire.encoding.columns_out import batch_encoder
from standins.tds.wire.encoding.columns_python import python_rows
from standins.tds.wire.encoding.wire_types import of_type
from standins.tds.wire.encoding.wire_values import row_encoder
from standins.tds.wire.requests.bulk import Load

INDIA = timezone(timedelta(hours=5, minutes=30))
CASES: list[tuple[SqlType, list[Any]]] = [
    (SqlType("bit"), [True, False]),
    (SqlType("tinyint"), [0, 255]),
    (SqlType("smallint"), [-32768, 32767]),
    (SqlType("int"), [-(2**31), 2**31 - 1]),
    (SqlType("bigint"), [-(2**63), 2**63 - 1]),
    (SqlType("real"), [1.5, -3.4028234663852886e38]),
    (SqlType("float"), [0.1, -1.7976931348623157e308]),
    (SqlType("decimal", None, 9, 2), [Decimal("-9999999.99"), Decimal("0.01"), Decimal("0.00")]),
    (SqlType("decimal", None, 19, 4), [Decimal("999999999999999.9999"), Decimal("-1.0000")]),
    (SqlType("numeric", None, 28, 0), [Decimal("-" + "9" * 28), Decimal(2**64)]),
    (SqlType("numeric", None, 38, 10), [Decimal("-" + "9" * 28 + "." + "9" * 10),
        Decimal("18446744073709551616.0000000000")]),
    (SqlType("money"), [Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")]),
    (SqlType("smallmoney"), [Decimal("-214748.3648"), Decimal("0.0001")]),
    (SqlType("char", 4), ["abcd", "é   "]),
    (SqlType("varchar", 30), ["", "grüße €", "\x81ÿ"]),
    (SqlType("varchar"), ["", "é" * 5000]),
    (SqlType("nchar", 4), ["abcd", "☃   "]),
    (SqlType("nvarchar", 30), ["", "☃\U0001f600é", "plain"]),
    (SqlType("nvarchar"), ["", "☃\U0001f600é" * 3000, "x"]),
    (SqlType("binary", 3), [b"abc", b"\0\0\0"]),
    (SqlType("varbinary", 30), [b"", b"\0\xff"]),
    (SqlType("varbinary"), [b"", bytes(range(256)) * 30]),
    (SqlType("uniqueidentifier"), [UUID("00112233-4455-6677-8899-aabbccddeeff"), UUID(int=0)]),
    (SqlType("date"), [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)]),
    (SqlType("time", None, None, 0), [time(0, 0), time(23, 59, 59)]),
    (SqlType("time", None, None, 4), [time(12, 0, 0, 100), time(23, 59, 59, 999900)]),
    (SqlType("time", None, None, 7), [time(12, 0, 0, 1), time(23, 59, 59, 999999)]),
    (SqlType("datetime2", None, None, 2), [datetime(1, 1, 1),
        datetime(2024, 2, 29, 1, 2, 3, 10000)]),
    (SqlType("datetime2", None, None, 7), [datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (SqlType("datetimeoffset", None, None, 7), [datetime(2024, 2, 29, 1, 2, 3, 456789, INDIA),
        datetime(1, 1, 2, tzinfo=UTC)]),
    (SqlType("datetime"), [datetime(1753, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 997000),
        datetime(1899, 12, 31, 0, 0, 0, 3000)]),
    (SqlType("smalldatetime"), [datetime(1900, 1, 1), datetime(2079, 6, 6, 23, 59)]),
]  # fmt: skip
COLUMNS = tuple(Column(f"c{i}", kind) for i, (kind, _) in enumerate(CASES))
DONE = bytes([0xFD]) + bytes(8)


def rows_of(count: int, seed: int, nulls: bool = True) -> list[Row]:
    dice = random.Random(seed)
    return [
        tuple(None if nulls and dice.random() < 0.3 else dice.choice(v) for _, v in CASES)
        for _ in range(count)
    ]


def message(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    return tokens.columns(columns) + row_encoder(columns)(rows) + DONE


class Kept:
    """A load that keeps what it is given."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self.rows: list[Row] = []
        self.calls = 0

    def append(self, rows: Sequence[Row]) -> None:
        self.calls += 1
        self.rows += rows

    def finish(self) -> int:
        return len(self.rows)

    def abort(self) -> None:
        self.rows.clear()


class KeptColumns(Kept):
    def append_columns(self, batch: pa.RecordBatch) -> None:
        batch.validate(full=True)
        assert batch.schema.types == [arrow_type(each.type) for each in self.columns]
        self.append(python_rows(batch))


def load(columns: Sequence[Column], pieces: Sequence[bytes], kept: type[Kept] = Kept) -> Kept:
    bulk = kept(columns)
    loading = Load(bulk)
    count = sum(loading.feed(piece) for piece in pieces) + loading.finish()
    assert count == len(bulk.rows)
    return bulk


@pytest.mark.parametrize("kept", [Kept, KeptColumns])
def test_every_type_is_read_as_it_was_written(kept):
    rows = [*rows_of(200, 1), (None,) * len(CASES)]
    assert load(COLUMNS, [message(COLUMNS, rows)], kept).rows == rows


def test_columns_that_are_not_null_have_no_lengths():
    columns = [Column(each.name, each.type, nullable=False) for each in COLUMNS]
    rows = rows_of(50, 2, nulls=False)
    sent = message(columns, rows)
    assert len(sent) < len(message(COLUMNS, rows))
    assert load(columns, [sent]).rows == rows


def test_message_may_be_cut_at_any_byte(monkeypatch):
    monkeypatch.setattr("standins.tds.wire.requests.bulk._BLOCK", 1)
    columns = [
        Column("a", SqlType("bigint")),
        Column("b", SqlType("nvarchar", 9)),
        Column("c", SqlType("nvarchar")),
        Column("d", SqlType("bit"), nullable=False),
        Column("e", SqlType("varbinary")),
    ]
    rows = [
        (1, "one", "☃ eins", True, b""),
        (None, None, None, False, None),
        (3, "", "", True, b"x"),
    ]
    sent = message(columns, rows)
    for at in range(1, len(sent)):
        assert load(columns, [sent[:at], sent[at:]]).rows == rows
    assert load(columns, [bytes([each]) for each in sent]).rows == rows


def test_rows_are_given_while_they_come():
    columns = [Column("i", SqlType("bigint")), Column("v", SqlType("nvarchar"))]
    rows = [(i, "x" * 100) for i in range(30_000)]
    sent = message(columns, rows)
    pieces = [sent[i : i + 50_000] for i in range(0, len(sent), 50_000)]
    got = load(columns, pieces)
    assert got.rows == rows
    assert got.calls > 5


def in_parts(value: bytes, size: int) -> bytes:
    """Of unknown length, cut into parts of some size."""
    parts = [value[i : i + size] for i in range(0, len(value), size)]
    return b"\xfe" + b"\xff" * 7 + b"".join(struct.pack("<I", len(p)) + p for p in parts) + bytes(4)


def test_values_in_several_parts_are_put_together():
    columns = [Column("a", SqlType("nvarchar")), Column("b", SqlType("varbinary"))]
    rows = [("☃é" * 40, b"abc" * 33), ("x", b""), ("", b"1234"), ("\U0001f600" * 9, b"z" * 7)]
    body = b"".join(b"\xd1" + in_parts(a.encode("utf-16-le"), 6) + in_parts(b, 5) for a, b in rows)
    assert load(columns, [tokens.columns(columns) + body + DONE]).rows == rows


def test_half_a_surrogate_pair_becomes_a_replacement():
    columns = [Column("a", SqlType("nvarchar", 9))]
    body = b"".join(
        b"\xd1" + struct.pack("<H", len(each)) + each
        for each in (b"\x3d\xd8", b"\x00\xde", "ok é".encode("utf-16-le"))
    )
    got = load(columns, [tokens.columns(columns) + body + DONE])
    assert got.rows == [("\ufffd",), ("\ufffd",), ("ok é",)]


@pytest.mark.parametrize("end", [b"", DONE, bytes([0xFD]) + bytes(12)])
def test_message_ends_with_a_short_done_a_long_one_or_none(end):
    columns = [Column("i", SqlType("int"))]
    sent = tokens.columns(columns) + row_encoder(columns)([(1,), (2,)]) + end
    assert load(columns, [sent]).rows == [(1,), (2,)]


@pytest.mark.parametrize("cut", [1, 3, 5, 9, 10, 12, 16])
def test_message_that_ends_too_soon_is_refused(cut):
    columns = [Column("i", SqlType("bigint")), Column("v", SqlType("nvarchar", 9))]
    sent = message(columns, [(1, "one"), (2, "two")])[: -len(DONE)]
    with pytest.raises(SqlError, match="4804: While reading current row from host"):
        load(columns, [sent[:-cut]])


def test_message_without_columns_is_refused():
    with pytest.raises(SqlError, match="4804"):
        load([Column("i", SqlType("int"))], [DONE])


def test_value_of_a_wrong_size_is_refused():
    columns = [Column("i", SqlType("int"))]
    with pytest.raises(SqlError, match="4815: Received an invalid column length from the bcp"):
        load(columns, [tokens.columns(columns) + b"\xd1\x03abc" + DONE])


@pytest.mark.parametrize("name", ["char", "varchar", "nchar", "nvarchar", "binary", "varbinary"])
@pytest.mark.parametrize("length", [5, None])
def test_value_longer_than_its_column_is_refused(name, length):
    """Whatever length the client says that its values have at most."""
    value: Any = b"12345" if "binary" in name else "12345"
    kind = "varbinary" if "binary" in name else "nvarchar" if name[0] == "n" else "varchar"
    sent = [Column("a", SqlType("int")), Column("b", SqlType(kind, length))]
    four, five = ([sent[0], Column("b", SqlType(name, n))] for n in (4, 5))
    with pytest.raises(SqlError, match=r"4815: .* for colid 2"):
        load(four, [message(sent, [(1, value[:4]), (2, value)])])
    assert load(five, [message(sent, [(1, value)])]).rows == [(1, value)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (SqlType("date"), b"\x03\xff\xff\xff"),
        (SqlType("time", None, None, 7), b"\x05\xff\xff\xff\xff\xff"),
        (SqlType("datetime2", None, None, 0), b"\x06\x80\x51\x01\x00\x00\x00"),
    ],
)
def test_moment_that_does_not_exist_is_refused(kind, data):
    columns = [Column("m", kind)]
    with pytest.raises(SqlError, match=f'9803: Invalid data for type "{kind.name}"'):
        load(columns, [tokens.columns(columns) + b"\xd1" + data + DONE])


NAMES = sorted({kind.name for kind, _ in CASES})
FAMILIES = [{"decimal", "numeric"}, {"char", "varchar"}, {"nchar", "nvarchar"},
    {"binary", "varbinary"}]  # fmt: skip


@pytest.mark.parametrize("sent", NAMES)
def test_wire_type_that_does_not_fit_the_column_is_refused(sent):
    by_name = {kind.name: kind for kind, _ in reversed(CASES)}
    fitting = next((family for family in FAMILIES if sent in family), {sent})
    head = tokens.columns([Column("a", SqlType("int")), Column("b", by_name[sent])])
    for name in NAMES:
        columns = [Column("a", SqlType("int")), Column("b", by_name[name])]
        if name in fitting:
            assert load(columns, [head + DONE]).rows == []
            continue
        with pytest.raises(SqlError, match="4816: Invalid column type from bcp client for colid 2"):
            load(columns, [head + DONE])


def test_number_of_columns_has_to_fit():
    columns = [Column("a", SqlType("int")), Column("b", SqlType("int"))]
    with pytest.raises(SqlError, match="4804"):
        load(columns[:1], [tokens.columns(columns) + DONE])


def test_other_scale_than_the_column_has_is_rounded():
    sent = [Column("d", SqlType("decimal", None, 38, 6))]
    rows = [(Decimal("1.234500"),), (Decimal("-1.234500"),), (None,)]
    table = [Column("d", SqlType("decimal", None, 18, 3))]
    got = load(table, [message(sent, rows)])
    assert got.rows == [(Decimal("1.235"),), (Decimal("-1.235"),), (None,)]


def test_length_byte_of_a_decimal_may_be_nonsense():
    """Microsoft's bulk load repeats the token there."""
    columns = [Column("d", SqlType("numeric", None, 9, 2))]
    sent = message(columns, [(Decimal("-1.25"),)]).replace(b"\x6c\x05\x09\x02", b"\x6c\x6c\x09\x02")
    assert load(columns, [sent]).rows == [(Decimal("-1.25"),)]


def arrow(columns: Sequence[Column], rows: Sequence[Row]) -> pa.RecordBatch:
    """The other way round; Arrow knows nothing of offsets."""

    def value(found: Any, kind: pa.DataType) -> Any:
        if found is None or kind != OFFSET_TIME:
            return found.bytes if isinstance(found, UUID) else found
        minutes = found.utcoffset() // timedelta(minutes=1)
        return {"utc": found.astimezone(UTC), "minutes": minutes}

    kinds = [arrow_type(column.type) for column in columns]
    arrays = [pa.array([value(row[i], kind) for row in rows], kind) for i, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in columns])


@pytest.mark.parametrize("nulls", [True, False])
def test_batches_are_written_as_rows_are(nulls):
    rows = rows_of(300, 4, nulls)
    batch = arrow(COLUMNS, rows)
    assert batch_encoder(COLUMNS)(batch) == row_encoder(COLUMNS)(rows)


def test_part_of_a_batch_is_written_as_its_rows_are():
    rows = rows_of(100, 5)
    batch = arrow(COLUMNS, rows)
    encode = batch_encoder(COLUMNS)
    for start, count in [(1, 1), (7, 33), (99, 1), (50, 0), (0, 100)]:
        wanted = row_encoder(COLUMNS)(rows[start : start + count])
        assert encode(batch.slice(start, count)) == wanted


def test_batches_of_not_null_columns_have_no_lengths():
    columns = [Column(each.name, each.type, nullable=False) for each in COLUMNS]
    rows = rows_of(40, 6, nulls=False)
    assert batch_encoder(columns)(arrow(columns, rows)) == row_encoder(columns)(rows)


def test_batch_of_other_arrow_types_is_cast():
    columns = [Column("i", SqlType("int")), Column("v", SqlType("nvarchar"))]
    batch = pa.record_batch({"i": pa.array([1, None], pa.int64()), "v": pa.array(["x", "é"],
        pa.large_string())})  # fmt: skip
    assert batch_encoder(columns)(batch) == row_encoder(columns)([(1, "x"), (None, "é")])


def test_scanner_finds_no_row_in_half_a_one():
    scan = row_scanner.scanner([of_type(SqlType("int")), of_type(SqlType("nvarchar"))])
    columns = [Column("i", SqlType("int")), Column("v", SqlType("nvarchar"))]
    data = row_encoder(columns)([(1, "one")])
    for size in range(len(data)):
        found = scan(data[:size], 0)
        assert (found.rows, found.end) == (0, 0)
    # The last value is known to be whole only when something follows.
    assert scan(data + DONE, 0).rows == 1
