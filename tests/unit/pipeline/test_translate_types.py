"""Types of DuckDB, and what Spark calls them."""

import pytest

from jetbridge.pipeline.translate import Untranslatable, kind, spark_type


@pytest.mark.parametrize(
    ("duckdb_type", "expected"),
    [
        ("BIGINT", "BIGINT"),
        ("INTEGER", "INT"),
        ("DECIMAL(9,2)", "DECIMAL(9,2)"),
        ("VARCHAR", "STRING"),
        ("BLOB", "BINARY"),
        ("TIMESTAMP", "TIMESTAMP_NTZ"),
        ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP"),
        ("HUGEINT", "DECIMAL(38,0)"),
        ("INTEGER[]", "ARRAY<INT>"),
        ("DECIMAL(9,2)[][]", "ARRAY<ARRAY<DECIMAL(9,2)>>"),
        ("STRUCT(a INTEGER)", "STRUCT<a: INT>"),
        (
            'STRUCT(a INTEGER, "b, (c" VARCHAR[], "d""e" STRUCT(x DATE))',
            'STRUCT<a: INT, `b, (c`: ARRAY<STRING>, `d"e`: STRUCT<x: DATE>>',
        ),
    ],
)
def test_spark_has_a_type_for_it(duckdb_type: str, expected: str) -> None:
    assert spark_type(duckdb_type) == expected


@pytest.mark.parametrize(
    "duckdb_type",
    [
        *("UTINYINT", "UBIGINT", "UHUGEINT", "TIME", "INTERVAL", "UUID", "BIT", "TIMESTAMP_NS"),
        *("MAP(INTEGER, VARCHAR)", "INTEGER[3]", "ENUM('a', 'b')", "JSON", "STRUCT(a TIME)"),
    ],
)
def test_a_type_that_spark_has_not_is_refused(duckdb_type: str) -> None:
    with pytest.raises(Untranslatable, match="the type"):
        spark_type(duckdb_type)


@pytest.mark.parametrize(
    ("duckdb_type", "expected"),
    [
        ("DECIMAL(9,2)", "DECIMAL"),
        ("INTEGER[]", "LIST"),
        ("STRUCT(a INTEGER)[]", "LIST"),
        ("STRUCT(a INTEGER[])", "STRUCT"),
        ("INTEGER[3]", "ARRAY"),
        ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
    ],
)
def test_the_kind_is_the_type_without_its_parameters(duckdb_type: str, expected: str) -> None:
    assert kind(duckdb_type) == expected
