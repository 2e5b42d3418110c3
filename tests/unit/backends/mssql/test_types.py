"""Which types of SQL Server columns get, and what its columns are here."""

from functools import cache

import duckdb
import pyarrow as pa
import pytest

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, column_types
from jetbridge.errors import BadRequest

# As the document has it.
DOCUMENT = {
    "BOOLEAN": "bit",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "float",
    "DECIMAL(9,2)": "decimal(9,2)",
    "DECIMAL(38,38)": "decimal(38,38)",
    "VARCHAR": "nvarchar(max)",
    "ENUM('a', 'b')": "nvarchar(max)",
    "UUID": "uniqueidentifier",
    "BLOB": "varbinary(max)",
    "DATE": "date",
    "TIME": "time(7)",
    "TIMESTAMP": "datetime2(7)",
    "TIMESTAMP WITH TIME ZONE": "datetimeoffset(7)",
}
EXTENDED = {
    "UTINYINT": "tinyint",
    "USMALLINT": "int",
    "UINTEGER": "bigint",
    "UBIGINT": "decimal(20,0)",
    "HUGEINT": "decimal(38,0)",
    "JSON": "nvarchar(max)",
}


def schema(*types: str) -> pa.Schema:
    """As DuckDB gives it, with what Arrow itself has no types for."""
    listed = ", ".join(f'CAST(NULL AS {kind}) AS "c{at}"' for at, kind in enumerate(types))
    return lossless().execute(f"SELECT {listed}").to_arrow_table().schema


@cache
def lossless() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"arrow_lossless_conversion": True})


@pytest.mark.parametrize(("duckdb_type", "expected"), DOCUMENT.items())
def test_type_of_the_document(duckdb_type, expected):
    assert column_types(schema(duckdb_type), MssqlSettings()) == [expected]


@pytest.mark.parametrize(("duckdb_type", "expected"), EXTENDED.items())
def test_extended_type(duckdb_type, expected):
    extended = MssqlSettings(ctas_extended_types=True)
    assert column_types(schema(duckdb_type), extended) == [expected]
    with pytest.raises(BadRequest, match="SET mssql_ctas_extended_types = true"):
        column_types(schema(duckdb_type), MssqlSettings())


def test_all_columns_without_a_type_are_named_at_once():
    with pytest.raises(BadRequest) as caught:
        column_types(schema("INTEGER[]", "INTEGER", "INTERVAL"), MssqlSettings())
    assert "'c0' (INTEGER[])" in str(caught.value)
    assert "'c2' (INTERVAL)" in str(caught.value)
    assert "'c1'" not in str(caught.value)
    assert "extended_types" not in str(caught.value)


def test_the_setting_is_named_only_where_it_helps_all_columns():
    with pytest.raises(BadRequest) as caught:
        column_types(schema("UBIGINT", "TIMESTAMP_NS"), MssqlSettings())
    assert "extended_types" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"ctas_text_type": "VARCHAR"}, "varchar(max)"),
        ({"ctas_text_length": "200"}, "nvarchar(200)"),
        ({"default_string_length": 50}, "nvarchar(50)"),
        ({"ctas_text_length": "auto"}, "nvarchar(max)"),
    ],
)
def test_text_is_what_the_settings_say(changed, expected):
    assert column_types(schema("VARCHAR"), MssqlSettings(**changed)) == [expected]


def test_tinyint_may_be_a_smallint():
    assert column_types(schema("TINYINT"), MssqlSettings(ctas_tinyint="SMALLINT")) == ["smallint"]


def test_columns_of_the_server_as_arrow():
    columns = [
        ServerColumn("a", "tinyint", 1, 3, 0, nullable=False),
        ServerColumn("b", "decimal", 9, 18, 4, nullable=True),
        ServerColumn("c", "nvarchar", -1, 0, 0, nullable=True),
        ServerColumn("d", "datetimeoffset", 10, 34, 7, nullable=True),
        ServerColumn("e", "geography", -1, 0, 0, nullable=True),
    ]
    found = TableDescription("dbo", "t", 1, "now", False, tuple(columns)).info(None).schema
    assert found.types == [
        pa.uint8(),
        pa.decimal128(18, 4),
        pa.string(),
        pa.timestamp("us", tz="UTC"),
        pa.string(),
    ]
    assert [field.nullable for field in found] == [False, True, True, True, True]
