import duckdb
import pytest

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.errors import BadRequest

TEXTS = ["", "a", "it's", "--", "a\nb", "\0", "a\0\0b'", 'q"q', "\\x41", "é☃😀", "\x7f"]


@pytest.mark.parametrize(
    "value", [*TEXTS, None, True, False, 0, -5, 2**70, 1.5, -1e300, b"", b"'\0\xff\\"]
)
def test_literal_is_read_back_as_the_same_value(value):
    assert duckdb.sql(f"SELECT {literal(value)}").fetchone() == (value,)


@pytest.mark.parametrize("name", ["a", "a b", 'a"b', "select", "é", "a;--"])
def test_identifier_is_read_back_as_the_same_name(name):
    assert duckdb.sql(f"SELECT 1 AS {identifier(name)}").columns == [name]


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_name_that_sql_cannot_hold_is_refused(name):
    with pytest.raises(BadRequest):
        identifier(name)


def test_lone_surrogate_is_refused():
    with pytest.raises(BadRequest, match="Unicode"):
        literal("\udc00")
