"""What the client encodes, the server reads back as the same predicate."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from jetbridge.client.filters import duckdb_type, encode_filter
from jetbridge.duckdb_syntax.filters import parse_filters
from jetbridge.errors import NotSupported
from jetbridge.expr import (
    And,
    Between,
    Column,
    Comparison,
    Constant,
    Function,
    In,
    IsNull,
    Not,
    Or,
)

TYPES = {"id": pa.int32(), "name": pa.string(), "rowid": pa.int64()}
ID, NAME = Column("id", "INTEGER"), Column("name", "VARCHAR")
ONE, THREE = Constant("INTEGER", 1), Constant("INTEGER", 3)
BOB = Constant("VARCHAR", "é'☃")

PREDICATES = [
    *(
        Comparison(op, ID, ONE)
        for op in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
    ),
    And((Comparison(">", ID, ONE), Comparison("=", NAME, BOB))),
    Or((Comparison(">", ID, ONE), And((IsNull(NAME), Comparison("<", ID, THREE))))),
    Not(Or((Comparison("=", ID, ONE), IsNull(NAME, negated=True)))),
    In(ID, (ONE, THREE)),
    In(ID, (ONE, THREE), negated=True),
    Between(ID, ONE, THREE),
    Between(ID, ONE, THREE, lower_inclusive=False, upper_inclusive=False),
    Comparison("<", Column("rowid", "BIGINT"), Constant("BIGINT", 3)),
    Comparison("=", ID, Constant("INTEGER", None)),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=repr)
def test_server_reads_back_the_same_predicate(predicate):
    text = encode_filter(predicate, ["rowid", "id", "name"], TYPES)
    assert parse_filters(text) == predicate


@pytest.mark.parametrize(
    ("type_name", "value", "decoded"),
    [
        ("BOOLEAN", True, True),
        ("DOUBLE", 2, 2.0),
        ("DATE", date(2026, 1, 2), 20455),
        ("TIME", time(1), 3_600_000_000),
        ("TIME_NS", time(1), 3_600_000_000_000),
        ("TIMESTAMP", datetime(2026, 1, 1), 1767225600000000),  # noqa: DTZ001
        ("TIMESTAMP_S", datetime(2026, 1, 1), 1767225600),  # noqa: DTZ001
        ("TIMESTAMP_MS", datetime(2026, 1, 1), 1767225600000),  # noqa: DTZ001
        ("TIMESTAMP_NS", datetime(2026, 1, 1), 1767225600000000000),  # noqa: DTZ001
        ("TIMESTAMP WITH TIME ZONE", datetime(2026, 1, 1, tzinfo=UTC), 1767225600000000),
        ("DECIMAL(12,2)", Decimal("10.25"), 1025),
        ("DECIMAL(12,2)", 1025, 1025),
        ("DECIMAL(38,10)", Decimal("-1"), -(10**10)),
        ("HUGEINT", -(2**100), -(2**100)),
        ("BLOB", b"\xaa\x00x", b"\xaa\x00x"),
        (
            "UUID",
            UUID("12345678-1234-5678-1234-567812345678"),
            "12345678-1234-5678-1234-567812345678",
        ),
        ("UUID", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
        ("INTERVAL", (1, 2, 3), (1, 2, 3)),
    ],
)
def test_constants_are_written_as_duckdb_stores_them(type_name, value, decoded):
    column = Column("c", type_name)
    text = encode_filter(Comparison("=", column, Constant(type_name, value)), ["c"], {})
    assert parse_filters(text) == Comparison("=", column, Constant(type_name, decoded))


def test_comparison_is_what_duckdb_sends():
    text = encode_filter(Comparison("=", Column("id"), Constant("INTEGER", 2)), ["id"], TYPES)
    nowhere = 18446744073709551615
    integer = {"id": "INTEGER", "type_info": None}
    assert json.loads(text) == {
        "filters": [
            {
                "expression_class": "BOUND_COMPARISON",
                "type": "COMPARE_EQUAL",
                "alias": "",
                "query_location": nowhere,
                "left": {
                    "expression_class": "BOUND_COLUMN_REF",
                    "type": "BOUND_COLUMN_REF",
                    "alias": "id",
                    "query_location": nowhere,
                    "return_type": integer,
                    "binding": {"table_index": 0, "column_index": 0},
                    "depth": 0,
                },
                "right": {
                    "expression_class": "BOUND_CONSTANT",
                    "type": "VALUE_CONSTANT",
                    "alias": "",
                    "query_location": nowhere,
                    "value": {"type": integer, "is_null": False, "value": 2},
                },
            }
        ],
        "column_binding_names_by_index": ["id"],
    }


def test_function_cannot_be_encoded():
    with pytest.raises(NotSupported, match="Function"):
        encode_filter(Function("upper", (NAME,)), ["name"], TYPES)


def test_decimal_that_does_not_fit_its_type_is_refused():
    predicate = Comparison(
        "=", Column("d", "DECIMAL(5,1)"), Constant("DECIMAL(5,1)", Decimal("0.25"))
    )
    with pytest.raises(ValueError, match="does not fit"):
        encode_filter(predicate, ["d"], {})


@pytest.mark.parametrize(
    ("data_type", "name"),
    [
        (pa.decimal128(12, 2), "DECIMAL(12,2)"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP WITH TIME ZONE"),
        (pa.uuid(), "UUID"),
        (pa.large_string(), "VARCHAR"),
        (pa.list_(pa.int8()), "UNKNOWN"),
    ],
)
def test_type_of_a_column_follows_its_arrow_type(data_type, name):
    assert duckdb_type(data_type) == name
