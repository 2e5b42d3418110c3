"""CREATE TABLE becomes a definition, with names and expressions as they are stored."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables.definition import Definition, define_table
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.errors import BadRequest

ID = pa.schema([("id", pa.int8())])
PRIMARY = UniqueKey(("ID",), True)


def test_a_definition_holds_stored_types_and_normalized_constraints():
    schema = pa.schema([("Id", pa.int64()), ("n", pa.dictionary(pa.int8(), pa.string()))])
    request = CreateTable("t", schema, comment="c", checks=("t.id>0",), keys=(PRIMARY,))
    assert define_table(request) == Definition(
        "t",
        pa.schema([pa.field("Id", pa.int64(), nullable=False), ("n", pa.string())]),
        "c",
        ("(id > 0)",),
        (UniqueKey(("Id",), True),),
    )


def test_columns_are_found_by_name_in_any_case():
    definition = Definition("t", pa.schema([("a", pa.int8()), ("Über", pa.int8())]))
    assert [definition.position(name) for name in ("A", "ÜBER", "c")] == [0, 1, None]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (CreateTable("", pa.schema([("a", pa.int8())])), "a table needs a name"),
        (CreateTable("t", pa.schema([])), "at least one column"),
        (
            CreateTable("t", pa.schema([("a", pa.int8()), ("A", pa.int8())])),
            "two columns are named",
        ),
        (CreateTable("t", pa.schema([("RowId", pa.int8())])), "cannot be named 'RowId'"),
        (CreateTable("t", ID, keys=(PRIMARY, PRIMARY)), "'t' can have only one primary key"),
        (CreateTable("t", ID, keys=(UniqueKey((), True),)), "primary key of table 't' needs"),
        (
            CreateTable("t", ID, keys=(UniqueKey(("z",), False),)),
            "unique key of table 't' names column 'z'",
        ),
        (CreateTable("t", ID, keys=(UniqueKey(("id", "ID"), True),)), "'t' names a column twice"),
    ],
)
def test_an_invalid_definition_is_refused(request_, message):
    with pytest.raises(BadRequest, match=message):
        define_table(request_)
