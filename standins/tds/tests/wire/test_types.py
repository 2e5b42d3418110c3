"""Types and values, byte by byte; code pages; declarations of parameters."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from standins.tds import collation
from standins.tds.values import SqlError, SqlType
from standins.tds.wire.encoding.reader import Reader
from standins.tds.wire.encoding.wire_types import of_type, read_type, type_info
from standins.tds.wire.encoding.wire_values import encode_value, read_value
from standins.tds.wire.requests import declarations

INDIA = timezone(timedelta(hours=5, minutes=30))
# Value, type and the bytes that the protocol's examples or SQL Server's documents give for it.
KNOWN: list[tuple[SqlType, Any, str]] = [
    (SqlType("int"), 1, "26 04 04 01000000"),
    (SqlType("bit"), True, "68 01 01 01"),
    (SqlType("tinyint"), 200, "26 01 01 c8"),
    (SqlType("smallint"), -2, "26 02 02 feff"),
    (SqlType("bigint"), None, "26 08 00"),
    (SqlType("real"), 1.5, "6d 04 04 0000c03f"),
    (SqlType("float"), 1.5, "6d 08 08 000000000000f83f"),
    (SqlType("decimal", None, 9, 2), Decimal("-1.25"), "6a 05 09 02 05 00 7d000000"),
    (SqlType("numeric", None, 38, 0), Decimal(1), "6c 11 26 00 11 01 01" + "00" * 15),
    (SqlType("money"), Decimal("1.0000"), "6e 08 08 00000000 10270000"),
    (SqlType("money"), Decimal("-0.0001"), "6e 08 08 ffffffff ffffffff"),
    (SqlType("smallmoney"), Decimal("-1.0000"), "6e 04 04 f0d8ffff"),
    (SqlType("varchar", 10), "é", "a7 0a00 0904d00034 0100 e9"),
    (SqlType("char", 3), "a  ", "af 0300 0904d00034 0300 612020"),
    (SqlType("nvarchar", 10), "é", "e7 1400 0904d00034 0200 e900"),
    (SqlType("nvarchar", 10), None, "e7 1400 0904d00034 ffff"),
    (SqlType("nvarchar"), "é", "e7 ffff 0904d00034 0200000000000000 02000000 e900 00000000"),
    (SqlType("nvarchar"), "", "e7 ffff 0904d00034 0000000000000000 00000000"),
    (SqlType("nvarchar"), None, "e7 ffff 0904d00034 ffffffffffffffff"),
    (SqlType("varbinary", 4), b"\x01", "a5 0400 0100 01"),
    (SqlType("uniqueidentifier"), UUID("00112233-4455-6677-8899-aabbccddeeff"),
        "24 10 10 33221100 5544 7766 8899aabbccddeeff"),
    (SqlType("date"), date(1, 1, 2), "28 03 010000"),
    (SqlType("date"), date(2024, 2, 29), "28 03 80460b"),
    (SqlType("time", None, None, 0), time(0, 1), "29 00 03 3c0000"),
    (SqlType("time", None, None, 7), time(0, 0, 1), "29 07 05 8096980000"),
    (SqlType("datetime2", None, None, 3), datetime(1, 1, 2, 0, 0, 1), "2a 03 07 e8030000 010000"),
    (SqlType("datetimeoffset", None, None, 0), datetime(1, 1, 2, 5, 30, 1, tzinfo=INDIA),
        "2b 00 08 010000 010000 4a01"),
    (SqlType("datetime"), datetime(1900, 1, 2, 0, 0, 1), "6f 08 08 01000000 2c010000"),
    (SqlType("datetime"), datetime(1899, 12, 31), "6f 08 08 ffffffff 00000000"),
    (SqlType("smalldatetime"), datetime(1900, 1, 2, 0, 2), "6f 04 04 0100 0200"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "wanted"), KNOWN, ids=lambda each: str(each)[:40])
def test_type_and_value_have_their_known_bytes(kind, value, wanted):
    wire = of_type(kind)
    data = type_info(wire) + encode_value(wire, value)
    assert data.hex() == wanted.replace(" ", "")
    reader = Reader(data)
    assert read_type(reader) == wire
    assert read_value(wire, reader) == value
    assert reader.left == 0


def test_datetime_near_midnight_goes_to_the_next_day():
    wire = of_type(SqlType("datetime"))
    data = encode_value(wire, datetime(2024, 2, 28, 23, 59, 59, 999000))
    assert read_value(wire, Reader(data)) == datetime(2024, 2, 29)


@pytest.mark.parametrize(
    ("text", "data"), [("é€", b"\xe9\x80"), ("\x81", b"\x81"), ("☃", b"?"), ("😀x", b"?x")]
)
def test_code_page_is_that_of_windows(text, data):
    assert collation.encode(text, "cp1252") == data
    if b"?" not in data:
        assert collation.decode(data, "cp1252") == text


def test_collation_that_says_so_is_utf8():
    assert collation.codec_of(bytes.fromhex("0904d00400")) == "utf-8"
    assert collation.codec_of(collation.COLLATION) == "cp1252"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("@P1 int", [("@P1", SqlType("int"), False)]),
        (
            " @a decimal(18, 4) OUTPUT,@b nvarchar(max) , @c varchar(8000) out",
            [
                ("@a", SqlType("decimal", None, 18, 4), True),
                ("@b", SqlType("nvarchar"), False),
                ("@c", SqlType("varchar", 8000), True),
            ],
        ),
        (
            "@t time(3),@d datetime2,@n numeric,@s sysname,@f float(24),@g [float](53),@i sys.int",
            [
                ("@t", SqlType("time", None, None, 3), False),
                ("@d", SqlType("datetime2", None, None, 7), False),
                ("@n", SqlType("numeric", None, 18, 0), False),
                ("@s", SqlType("nvarchar", 128), False),
                ("@f", SqlType("real"), False),
                ("@g", SqlType("float"), False),
                ("@i", SqlType("int"), False),
            ],
        ),
    ],
)
def test_declarations_of_parameters(text, wanted):
    assert list(declarations.parse(text)) == wanted


def test_time_of_no_fraction_is_not_the_default_scale():
    assert declarations.parse("@t time(0)")[0].type.scale == 0


def test_declaration_that_is_none_is_a_syntax_error():
    with pytest.raises(SqlError, match="102: Incorrect syntax near 'P1 int'"):
        declarations.parse("P1 int")


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("63 00000080 0904d00034 04000000 61003226", "a☲"),
        ("23 00000080 0904d00034 02000000 e980", "é€"),
        ("22 00000080 01000000 ff", b"\xff"),
        ("63 00000080 0904d00034 ffffffff", None),
    ],
)
def test_old_long_types_are_read_of_parameters(data, wanted):
    """Microsoft's driver still sends ntext where a statement has no parameters to declare."""
    reader = Reader(bytes.fromhex(data))
    assert read_value(read_type(reader), reader) == wanted
    assert reader.left == 0


@pytest.mark.parametrize(("data", "number"), [("26 03", 8016), ("99", 8009), ("f1 00", 8009)])
def test_type_that_is_none_is_refused(data, number):
    with pytest.raises(SqlError, match=str(number)):
        read_type(Reader(bytes.fromhex(data)))
