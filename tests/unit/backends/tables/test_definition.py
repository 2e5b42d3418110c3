"""A definition is what CREATE TABLE asked for, as it is kept."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.errors import BadRequest

PRIMARY = UniqueKey(("ID",), True)


def test_new_definition_holds_what_is_kept_of_the_request():
    schema = pa.schema([("Id", pa.int64()), ("n", pa.dictionary(pa.int8(), pa.string()))])
    request = CreateTable("t", schema, comment="c", checks=("t.id>0",), keys=(PRIMARY,))
    assert define_table(request) == Definition(
        "t",
        pa.schema([pa.field("Id", pa.int64(), nullable=False), ("n", pa.string())]),
        "c",
        ("(id > 0)",),
        (UniqueKey(("Id",), True),),
    )


def test_position_is_found_in_any_case():
    definition = Definition("t", pa.schema([("a", pa.int8()), ("Über", pa.int8())]))
    assert [definition.position(name) for name in ("A", "ÜBER", "c")] == [0, 1, None]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CreateTable("", pa.schema([("a", pa.int8())])), "a table needs a name"),
        (CreateTable("t", pa.schema([])), "at least one column"),
        (CreateTable("t", pa.schema([("id", pa.int8())]), keys=(PRIMARY, PRIMARY)), "one primary"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(request_, message):
    with pytest.raises(BadRequest, match=message):
        define_table(request_)
