"""CREATE TABLE for SQL Server."""

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.ddl.create_table import (
    create_table,
    render_default,
    shorten_keys,
)
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, declared_type
from jetbridge.catalog import CreateTable, UniqueKey
from jetbridge.errors import BadRequest, NotSupported

PLAIN = MssqlSettings()


def made(*fields, settings=PLAIN, name=None, by_query=False, **more):
    request = CreateTable("t", pa.schema(fields), **more)
    return create_table("dbo", request, settings, name=name, by_query=by_query)


def test_columns_keys_and_checks():
    sql = made(
        pa.field("id", pa.int64()),
        pa.field("a", pa.string(), metadata={"default": "'x' || 'y'"}),
        pa.field("n", pa.decimal128(10, 2), nullable=False),
        keys=(UniqueKey(("ID",), True), UniqueKey(("n",))),
        checks=("t.n > 0",),
    )
    assert sql == (
        "CREATE TABLE [dbo].[t] ([id] bigint NOT NULL, [a] nvarchar(max) NULL DEFAULT N'xy', "
        "[n] decimal(10,2) NOT NULL, PRIMARY KEY ([id]), UNIQUE ([n]), CHECK (([n] > 0)))"
    )


def test_a_staging_table_has_another_name():
    assert made(pa.field("a", pa.int32()), name="b").startswith("CREATE TABLE [dbo].[b] (")


def test_only_a_query_makes_a_columnstore():
    settings = MssqlSettings(ctas_table_kind="columnstore")
    fields, keys = [pa.field("a", pa.int32())], (UniqueKey(("a",), True),)
    assert "COLUMNSTORE" not in made(*fields, settings=settings, keys=keys)
    assert "COLUMNSTORE" not in made(*fields, by_query=True, keys=keys)
    assert made(*fields, settings=settings, by_query=True, keys=keys) == (
        "CREATE TABLE [dbo].[t] ([a] int NOT NULL, PRIMARY KEY NONCLUSTERED ([a]), "
        "INDEX [columnstore] CLUSTERED COLUMNSTORE)"
    )


@pytest.mark.parametrize(
    ("fields", "more", "words"),
    [
        ([], {}, "at least one column"),
        ([("rowid", pa.int32())], {}, "rowid"),
        ([("a", pa.int32()), ("A", pa.int32())], {}, "two columns are named"),
        ([("a", pa.int32())], {"keys": (UniqueKey(("b",)),)}, "'b'"),
        ([("a", pa.int32())], {"checks": ("b > 0",)}, "'b'"),
        ([("l", pa.list_(pa.int32())), ("s", pa.struct([("x", pa.int8())]))], {}, "'l'.*'s'"),
    ],
)
def test_what_is_wrong_is_told(fields, more, words):
    with pytest.raises(BadRequest, match=words):
        made(*(pa.field(*each) for each in fields), **more)


def test_a_check_without_a_translation_is_refused():
    with pytest.raises(NotSupported, match="LENGTH"):
        made(pa.field("a", pa.string()), checks=("length(a) > 1",))


@pytest.mark.parametrize(
    ("types", "columns", "found"),
    [
        ({"a": "nvarchar(max)"}, ("a",), ["nvarchar(450)"]),
        ({"a": "varchar(max)"}, ("a",), ["varchar(900)"]),
        ({"a": "nvarchar(4000)"}, ("a",), ["nvarchar(450)"]),
        ({"a": "nvarchar(20)"}, ("a",), ["nvarchar(20)"]),
        (
            {"a": "nvarchar(max)", "b": "varbinary(max)"},
            ("a", "b"),
            ["nvarchar(225)", "varbinary(450)"],
        ),
        ({"a": "nvarchar(max)", "b": "bigint"}, ("a", "b"), ["nvarchar(446)", "bigint"]),
        (
            {"a": "nvarchar(max)", "b": "decimal(9,2)"},
            ("a", "b"),
            ["nvarchar(441)", "decimal(9,2)"],
        ),
        ({"a": "nvarchar(max)", "b": "nvarchar(max)"}, ("a",), ["nvarchar(450)", "nvarchar(max)"]),
    ],
)
def test_key_columns_fit_in_900_bytes(types, columns, found):
    assert list(shorten_keys(types, [UniqueKey(columns)]).values()) == found


def test_a_column_of_two_keys_fits_in_both():
    types = dict.fromkeys("abc", "nvarchar(max)")
    found = shorten_keys(types, [UniqueKey(("a",)), UniqueKey(("b", "c"))])
    assert list(found.values()) == ["nvarchar(450)", "nvarchar(225)", "nvarchar(225)"]


def test_a_key_that_cannot_fit_is_refused():
    types = {"a": "nvarchar(400)", "b": "varbinary(100)", "c": "nvarchar(max)"}
    with pytest.raises(BadRequest, match=r"the key \(a, b, c\) is wider than 900 bytes"):
        shorten_keys(types, [UniqueKey(("a", "b", "c"))])
    with pytest.raises(BadRequest, match="wider"):
        shorten_keys({"a": "nvarchar(400)", "b": "nvarchar(400)"}, [UniqueKey(("a", "b"))])


@pytest.mark.parametrize(
    ("kind", "default", "written"),
    [
        (pa.int32(), None, ""),
        (pa.int32(), "NULL", ""),
        (pa.int32(), "40 + 2", "42"),
        (pa.bool_(), "true", "1"),
        (pa.string(), "upper('a')", "N'A'"),
        (pa.date32(), "DATE '2020-01-31' + 1", "N'2020-02-01'"),
        (pa.timestamp("us", tz="UTC"), "now()", "SYSDATETIMEOFFSET()"),
        (pa.timestamp("us", tz="UTC"), "current_timestamp", "SYSDATETIMEOFFSET()"),
    ],
)
def test_defaults(kind, default, written):
    field = pa.field("a", kind, metadata={"default": default} if default else None)
    declared_as = "datetimeoffset(7)" if kind == pa.timestamp("us", tz="UTC") else "int"
    assert render_default(field, declared_as) == written


def test_a_default_beyond_sql_server_is_refused():
    field = pa.field("a", pa.date32(), metadata={"default": "DATE '10000-01-01'"})
    with pytest.raises(BadRequest, match=r"cannot store the default .* 'a'"):
        render_default(field, "date")
    with pytest.raises(NotSupported, match=r"random\(\).*'a'"):
        render_default(pa.field("a", pa.float64(), metadata={"default": "random()"}), "float")


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (ServerColumn("a", "nvarchar", 100, 0, 0, True), "nvarchar(50)"),
        (ServerColumn("a", "varchar", -1, 0, 0, True), "varchar(max)"),
        (ServerColumn("a", "decimal", 9, 10, 2, True), "decimal(10,2)"),
        (ServerColumn("a", "time", 5, 16, 3, True), "time(3)"),
        (ServerColumn("a", "money", 8, 19, 4, True), "money"),
    ],
)
def test_types_as_they_are_declared(column, found):
    assert declared_type(column) == found
