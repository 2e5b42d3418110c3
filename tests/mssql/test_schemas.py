"""Comments and tags of schemas: extended properties, which other tools read and write, too."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.catalog import CreateTable, OnConflict, RenameTable, SchemaInfo
from jetbridge.errors import BadRequest, NotSupported
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql

PROPERTIES = (
    "SELECT SCHEMA_NAME(major_id), name, CONVERT(nvarchar(max), value) "
    "FROM sys.extended_properties WHERE class = 3 AND minor_id = 0 ORDER BY name"
)
LONGEST = 3750  # characters in the 7,500 bytes of a property
COMMENT_DBO = (
    "EXEC sp_addextendedproperty @name = N'MS_Description', @value = N'the old tables', "
    "@level0type = N'SCHEMA', @level0name = N'dbo'"
)


@pytest.fixture
def catalog() -> Iterator[MssqlCatalog]:
    if mssql_server.is_babelfish():
        pytest.skip("Babelfish keeps no comments of schemas")
    made = mssql_server.new_catalog()
    yield made
    made.close()


def run(catalog: MssqlCatalog, sql: str) -> list[tuple[object, ...]]:
    with catalog.database.server.borrow_core() as connection:
        return connection.run(sql)


def schemas(catalog: MssqlCatalog) -> list[SchemaInfo]:
    return [schema.info() for schema in catalog.list_schemas()]


def test_comment_is_the_description_that_other_tools_show(catalog):
    created = catalog.create_schema(SchemaInfo("Shop", "what we sell", {"owner": "sales"}))
    assert created.info() == SchemaInfo("Shop", "what we sell", {"owner": "sales"})
    assert run(catalog, PROPERTIES) == [
        ("Shop", "jetbridge.tag.owner", "sales"),
        ("Shop", "MS_Description", "what we sell"),
    ]


def test_description_that_others_give_later_is_listed(catalog):
    assert schemas(catalog) == [SchemaInfo("dbo")]
    before = catalog.version().number
    run(catalog, COMMENT_DBO)
    assert schemas(catalog) == [SchemaInfo("dbo", "the old tables")]
    assert catalog.snapshot().load_schema("dbo").info().comment == "the old tables"
    assert catalog.version().number > before


def test_other_properties_of_others_are_no_tags(catalog):
    run(catalog, COMMENT_DBO.replace("MS_Description", "reviewed"))
    assert schemas(catalog) == [SchemaInfo("dbo")]


def test_texts_of_the_longest_length_are_kept(catalog):
    info = SchemaInfo("s", "🦆" * (LONGEST // 2), {"k" * 114: "ä" * LONGEST})
    catalog.create_schema(info)
    assert catalog.load_schema("s").info() == info


@pytest.mark.parametrize(
    ("info", "problem"),
    [
        (SchemaInfo("s", "x" * (LONGEST + 1)), "the comment of schema 's' has 3,751 characters"),
        (SchemaInfo("s", "🦆" * LONGEST), "the comment of schema 's' has 7,500 characters"),
        (SchemaInfo("s", tags={"k": "x" * 4000}), "tag 'k' of schema 's' has 4,000 characters"),
        (SchemaInfo("s", tags={"k" * 115: ""}), "a tag of schema 's' is too long: 115 characters"),
        # The server takes these two for one name.
        (SchemaInfo("s", "c", {"k": "1", "k ": "2"}), "SQL Server says 15233: .*names of tags"),
    ],
)
def test_what_a_property_cannot_hold_is_refused_and_nothing_is_created(catalog, info, problem):
    with pytest.raises(BadRequest, match=problem):
        catalog.create_schema(info)
    assert schemas(catalog) == [SchemaInfo("dbo")]
    assert run(catalog, PROPERTIES) == []


@pytest.mark.parametrize("info", [SchemaInfo("s", "c"), SchemaInfo("s", tags={"k": "v"})])
def test_babelfish_refuses_comments_and_tags(catalog, monkeypatch, info):
    monkeypatch.setattr(ConnectionPool, "is_babelfish", lambda _: True)
    with pytest.raises(NotSupported, match="Babelfish .*schema 's'"):
        catalog.create_schema(info)
    assert catalog.create_schema(SchemaInfo("s")).info() == SchemaInfo("s")


@pytest.mark.parametrize("name", ["#x", "##x"])
def test_names_of_temporary_tables_are_refused(catalog, name):
    refusal = rf"'{name}'.* begin with '#' are temporary tables of SQL Server; use another name"
    schema, columns = catalog.load_schema("dbo"), pa.schema([("a", pa.int32())])
    for on_conflict in OnConflict:
        request = CreateTable(name, columns, on_conflict)
        with pytest.raises(BadRequest, match=refusal):
            schema.create_table(request)
        with pytest.raises(BadRequest, match=refusal), schema.creating(request) as write:
            write(pa.record_batch({"a": pa.array([1], pa.int32())}))
    table = schema.create_table(CreateTable("plain", columns))
    with pytest.raises(BadRequest, match=refusal):
        table.alter(RenameTable(name))
    assert run(catalog, f"SELECT OBJECT_ID('tempdb..{name}')") == [(None,)]
