"""What a scan of a lake pushes down of a filter."""

import json

import pytest

from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.table_state import TableState, read_state
from jetbridge.backends.lake.read.scan import safe_condition
from jetbridge.expr import And, Column, Comparison, Constant, Expr, Function, IsNull, Not, Or

ABOVE = Comparison(">", Column("a"), Constant("BIGINT", 5))
PUSHED = "(\"a\" > CAST('5' AS BIGINT))"
# SQL has no words for the type of `z`.
UNPUSHED = IsNull(Column("z"))
REFUSED = Comparison("=", Function("getenv", (Column("b"),)), Constant("VARCHAR", "x"))


@pytest.fixture(scope="module")
def state() -> TableState:
    inner = [
        {"id": n, "name": name, "type": "int", "required": False}
        for n, name in ((4, "x"), (5, "X"))
    ]
    types = {"a": "long", "b": "string", "z": {"type": "struct", "fields": inner}}
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(types.items(), 1)
    ]
    raw = {
        "format-version": 3,
        "location": "t",
        "last-column-id": 5,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "snapshots": [],
    }
    return read_state(MetadataPointer("s", "t", "t.json"), json.dumps(raw).encode())


def test_an_and_pushes_the_parts_that_it_can(state):
    assert safe_condition(state, ABOVE) == f"({PUSHED})"
    for part in (UNPUSHED, REFUSED):
        assert safe_condition(state, part) == ""
        assert safe_condition(state, And((ABOVE, part))) == f"({PUSHED})"


@pytest.mark.parametrize("part", [UNPUSHED, REFUSED, And((ABOVE, UNPUSHED))])
def test_an_or_is_not_narrowed_by_one_of_its_sides(state, part: Expr):
    for either in (Or((ABOVE, part)), Or((part, ABOVE)), Not(And((Not(ABOVE), Not(part))))):
        assert safe_condition(state, either) == ""
        assert safe_condition(state, And((either, ABOVE))) == f"({PUSHED})"
