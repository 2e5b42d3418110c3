"""Filter JSON → expr: the client's recordings, the rule of widening, and hostile input."""

import base64
import itertools
import json
import sys
from pathlib import Path
from random import Random

import duckdb
import msgpack
import pytest

from jetbridge.dialects.duckdb.predicates import render
from jetbridge.duckdb_syntax.filters import FUNCTIONS, OPERATORS, RENAMED, parse_filters
from jetbridge.errors import BadRequest
from jetbridge.expr import (
    And,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Function,
    In,
    IsNull,
    Not,
    Or,
    columns_of,
    walk,
)
from jetbridge.wire import flight_pb2

VECTORS = Path(__file__).parents[2] / "vectors" / "airport"


def recorded():
    for file in sorted(VECTORS.glob("*.jsonl")):
        sql = ""
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in sorted(lines, key=lambda line: line["n"]):
            sql = line.get("sql", sql)
            if not line.get("method", "").endswith("DoAction"):
                continue
            action = flight_pb2.Action.FromString(base64.b64decode(line["request"][0]))
            if action.type == "endpoints":
                body = msgpack.unpackb(action.body, raw=True)
                yield pytest.param(body[b"parameters"][b"json_filters"].decode(), id=sql)


@pytest.mark.parametrize("pushed", list(recorded()))
def test_every_recorded_filter_is_encoded_whole(pushed):
    filters = json.loads(pushed)["filters"] if pushed else []
    expr = parse_filters(pushed)
    if not filters:
        assert expr is None
        return
    assert expr is not None
    kept = expr.children if isinstance(expr, And) else (expr,)
    assert len(kept) == len(filters)
    # Binds against columns of the types the client knows.
    columns = {node.name: node.type for part in kept for node in _columns(part)}
    table = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in columns.items())
    assert duckdb.sql(f"SELECT * FROM (SELECT {table}) WHERE {render(expr)}").fetchall() == []


def _columns(node):
    return [part for part in walk(node) if isinstance(part, Column)]


# --- builders of the client's JSON -----------------------------------------------------------

NAMES = ["b", "i", "s", "tz", "rowid", "g"]
KINDS = ["BOOLEAN", "INTEGER", "VARCHAR", "TIMESTAMP WITH TIME ZONE", "BIGINT", "DOUBLE"]


def kind(name, **info):
    return {"id": name, "type_info": info or None}


def col(name, **changes):
    index = NAMES.index(name)
    return {
        "expression_class": "BOUND_COLUMN_REF",
        "type": "BOUND_COLUMN_REF",
        "return_type": kind(KINDS[index]),
        "binding": {"table_index": 0, "column_index": index},
        "depth": 0,
    } | changes


def const(value, name="INTEGER"):
    return {
        "expression_class": "BOUND_CONSTANT",
        "type": "VALUE_CONSTANT",
        "value": {"type": kind(name), "is_null": False, "value": value},
    }


def compare(left, right, op="EQUAL"):
    return {
        "expression_class": "BOUND_COMPARISON",
        "type": f"COMPARE_{op}",
        "left": left,
        "right": right,
    }


def junction(op, *children):
    return {
        "expression_class": "BOUND_CONJUNCTION",
        "type": f"CONJUNCTION_{op}",
        "children": list(children),
    }


def operator(op, *children, returns="BOOLEAN"):
    return {
        "expression_class": "BOUND_OPERATOR",
        "type": op,
        "return_type": kind(returns),
        "children": list(children),
    }


def call(name, *children, returns="INTEGER", catalog="system"):
    return {
        "expression_class": "BOUND_FUNCTION",
        "type": "BOUND_FUNCTION",
        "return_type": kind(returns),
        "children": list(children),
        "name": name,
        "catalog_name": catalog,
    }


def between(child, lower, upper, **changes):
    return {
        "expression_class": "BOUND_BETWEEN",
        "type": "COMPARE_BETWEEN",
        "input": child,
        "lower": lower,
        "upper": upper,
        "lower_inclusive": True,
        "upper_inclusive": False,
    } | changes


def case(*whens, otherwise, returns="BOOLEAN"):
    return {
        "expression_class": "BOUND_CASE",
        "type": "CASE_EXPR",
        "return_type": kind(returns),
        "case_checks": [{"when_expr": test, "then_expr": then} for test, then in whens],
        "else_expr": otherwise,
    }


def cast(child, name, attempt=False):
    return {
        "expression_class": "BOUND_CAST",
        "type": "OPERATOR_CAST",
        "child": child,
        "return_type": kind(name),
        "try_cast": attempt,
    }


def parse(*filters):
    pushed = {"filters": list(filters), "column_binding_names_by_index": NAMES}
    return parse_filters(json.dumps(pushed))


BOOL, INT, TEXT, REAL = (Column(NAMES[at], KINDS[at]) for at in (0, 1, 2, 5))
ONE = Constant("INTEGER", 1)
I_IS_1 = compare(col("i"), const(1))
I1 = Comparison("=", INT, ONE)
SUBQUERY = {"expression_class": "BOUND_SUBQUERY", "type": "SUBQUERY"}
TEN = const(10.0, "DOUBLE")

ENCODED = [
    ([], None),
    ([col("b")], BOOL),
    ([I_IS_1, col("b")], And((I1, BOOL))),
    ([compare(col("rowid"), const(3, "BIGINT"), "LESSTHAN")],
     Comparison("<", Column("rowid", "BIGINT"), Constant("BIGINT", 3))),
    ([operator("OPERATOR_NOT", I_IS_1)], Not(I1)),
    ([operator("OPERATOR_IS_NULL", col("i"))], IsNull(INT)),
    ([operator("OPERATOR_IS_NOT_NULL", col("i"))], IsNull(INT, negated=True)),
    ([operator("COMPARE_IN", col("i"), const(1))], In(INT, (ONE,))),
    ([operator("COMPARE_NOT_IN", col("i"), const(1))], In(INT, (ONE,), negated=True)),
    ([operator("OPERATOR_COALESCE", col("b"), I_IS_1)], Coalesce((BOOL, I1))),
    ([between(col("i"), const(1), col("i"))], Between(INT, ONE, INT, True, False)),
    ([case((col("b"), I_IS_1), otherwise=col("b"))], Case(((BOOL, I1),), BOOL)),
    ([cast(col("i"), "BOOLEAN", True)], Cast(INT, "BOOLEAN", attempt=True)),
    ([operator("OPERATOR_NOT", junction("AND", col("b"), I_IS_1))], Not(And((BOOL, I1)))),
    ([compare(call("+", col("i"), const(1)), const(1))],
     Comparison("=", Function("+", (INT, ONE), operator=True), ONE)),
    ([compare(call("/", col("g"), TEN, returns="DOUBLE"), TEN)],
     Comparison("=", Function("/", (REAL, Constant("DOUBLE", 10.0)), operator=True),
                Constant("DOUBLE", 10.0))),
    # The optimizer compares text with the bytes of a range; `encode` makes bytes of the text.
    ([compare(col("s"), const("a\\xF4", "BLOB"), "LESSTHAN")],
     Comparison("<", Function("encode", (TEXT,)), Constant("BLOB", b"a\xf4"))),
    ([compare(col("s"), cast(col("s"), "JSON_"))], None),
    ([compare(col("s"), {"expression_class": "BOUND_CONSTANT", "value": {
        "type": kind("VARCHAR", alias="JSON"), "is_null": False, "value": "{}"}})],
     Comparison("=", TEXT, Cast(Constant("JSON", "{}"), "VARCHAR"))),
    ([call("->>", col("s"), const("$.a", "VARCHAR"), returns="BOOLEAN")],
     Function("json_extract_string", (TEXT, Constant("VARCHAR", "$.a")))),
]  # fmt: skip


@pytest.mark.parametrize(("filters", "expr"), ENCODED)
def test_filter_is_encoded(filters, expr):
    assert parse(*filters) == expr


YEAR_OF_TZ = compare(call("year", col("tz"), returns="BIGINT"), const(2020, "BIGINT"))

UNENCODABLE = {
    "subquery": SUBQUERY,
    "parameter": {"expression_class": "BOUND_PARAMETER", "type": "VALUE_PARAMETER"},
    "no class": {},
    "outer column": compare(col("i", depth=1), const(1)),
    "column out of range": col("b", binding={"column_index": 6}),
    "negative column": col("b", binding={"column_index": -1}),
    "column without binding": col("b", binding=None),
    "column of an unknown type": operator(
        "OPERATOR_IS_NULL", col("b", return_type=kind("GEOMETRY"))
    ),
    "ENUM column": operator(
        "OPERATOR_IS_NULL", col("b", return_type=kind("ENUM", values=["a"], values_count=1))
    ),
    "not a boolean": col("i"),
    "unknown comparison": compare(col("i"), const(1), "SOMEHOW"),
    "operands of two types": compare(col("i"), const(1, "BIGINT")),
    "unknown operator": operator("OPERATOR_TRY", col("b")),
    "NOT of nothing": operator("OPERATOR_NOT"),
    "NOT of two": operator("OPERATOR_NOT", col("b"), col("b")),
    "IN nothing": operator("COMPARE_IN", col("i")),
    "exact junction of nothing": operator("OPERATOR_NOT", junction("AND")),
    "unknown junction": junction("XOR", col("b")),
    "junction without children": junction("OR") | {"children": None},
    "OR of nothing": junction("OR"),
    "CASE without WHEN": case(otherwise=col("b")),
    "BETWEEN in BETWEEN": between(between(col("i"), const(1), const(1)), col("b"), col("b")),
    "BETWEEN without bounds": between(col("i"), const(1), const(1), lower_inclusive=None),
    "zoned cast": compare(cast(col("tz"), "DATE"), const(1, "DATE")),
    "cast to NULL": operator("OPERATOR_IS_NULL", cast(col("b"), "NULL")),
    "zoned function": YEAR_OF_TZ,
    "volatile function": compare(call("random", returns="DOUBLE"), TEN),
    "function of nothing": call("concat", returns="BOOLEAN"),
    "internal function": call("__internal_compress_x", col("b"), returns="BOOLEAN"),
    "someone's function": call("lower", col("b"), returns="BOOLEAN", catalog="mine"),
    "division by a column": compare(call("/", TEN, col("g"), returns="DOUBLE"), TEN),
    "division by zero": compare(call("/", TEN, const(0.0, "DOUBLE"), returns="DOUBLE"), TEN),
    "integer_division": compare(call("/", const(1), const(1)), const(1)),
    "junction of a number": operator("OPERATOR_NOT", junction("AND", col("i"))),
    "CASE of a number": case((col("i"), col("b")), otherwise=col("b")),
    "inside CASE": case((col("b"), SUBQUERY), otherwise=col("b")),
    "inside a function": compare(call("abs", SUBQUERY), const(1)),
    "constant out of range": compare(col("i"), const(2**40)),
}  # fmt: skip


@pytest.mark.parametrize("node", UNENCODABLE.values(), ids=UNENCODABLE)
def test_unencodable_boolean_is_true_and_drops_out_of_a_conjunction(node):
    assert parse(node) is None
    assert parse(I_IS_1, node) == I1
    assert parse(junction("AND", node, I_IS_1)) == I1


@pytest.mark.parametrize("node", UNENCODABLE.values(), ids=UNENCODABLE)
def test_unencodable_boolean_takes_or_and_not_with_it(node):
    assert parse(junction("OR", I_IS_1, node)) is None
    assert parse(operator("OPERATOR_NOT", node)) is None
    assert parse(operator("OPERATOR_NOT", junction("AND", I_IS_1, node))) is None


def test_and_beneath_or_may_still_lose_a_child():
    weaker = parse(junction("OR", junction("AND", I_IS_1, SUBQUERY), col("b")))
    assert weaker == Or((I1, BOOL))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_column_name_that_no_sql_can_hold_widens(name):
    pushed = {"filters": [col("b")], "column_binding_names_by_index": [name]}
    assert parse_filters(json.dumps(pushed)) is None


MALFORMED = [
    "x",
    "null",
    "[]",
    "{}",
    '{"filters": []}',
    '{"filters": 1, "column_binding_names_by_index": []}',
    '{"filters": [1], "column_binding_names_by_index": []}',
    '{"filters": [], "column_binding_names_by_index": [1]}',
    '{"filters": [' + "9" * 5000 + '], "column_binding_names_by_index": []}',
    "[" * 200_000,
    '{"a":' * 200_000,
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:30])
def test_what_is_not_the_clients_json_is_a_bad_request(text):
    with pytest.raises(BadRequest) as caught:
        parse_filters(text)
    assert len(str(caught.value)) < 300


def test_no_filter_at_all_is_none():
    assert parse_filters("") is None


WRAPS = [
    lambda node: operator("OPERATOR_NOT", node),
    lambda node: junction("AND", node, I_IS_1),
    lambda node: junction("OR", node, I_IS_1),
    lambda node: case((node, col("b")), otherwise=col("b")),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_deep_nesting_is_cut_off_and_what_is_left_can_be_rendered(wrap):
    node = col("b")
    for _ in range(220):
        node = wrap(node)
    expr = parse(node)
    assert expr is None or columns_of(expr) == {"i"}
    if expr:
        render(expr)
    shallow = col("b")
    for _ in range(90):
        shallow = wrap(shallow)
    assert "b" in columns_of(parse(shallow))
    assert render(parse(shallow))


JUNK = [None, True, -1, 2**70, 1.5, "", "x", "\0", "\ud800", [], {}, [1], {"a": 1}]


def places(tree, path=()):
    if not isinstance(tree, dict | list):
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*path, key)
        yield from places(value, (*path, key))


def test_damaged_filters_widen_or_are_bad_requests():
    random = Random(5)
    for param in recorded():
        pushed = param.values[0] or '{"filters": [], "column_binding_names_by_index": []}'
        for path in random.choices(list(places(json.loads(pushed))), k=30):
            damaged = spot = json.loads(pushed)
            for key in path[:-1]:
                spot = spot[key]
            spot[path[-1]] = random.choice(JUNK)
            try:
                expr = parse_filters(json.dumps(damaged))
            except BadRequest:
                continue
            assert expr is None or render(expr)


def test_work_grows_with_the_input_only():
    """Counted in calls of Python functions: seconds depend on what else runs."""

    def calls(count):
        many = junction("OR", *[junction("AND", I_IS_1, SUBQUERY, col("b"))] * count)
        text = json.dumps({"filters": [many], "column_binding_names_by_index": NAMES})
        made = itertools.count()
        sys.setprofile(lambda _, event, __: next(made) if event == "call" else None)
        try:
            expr = parse_filters(text)
            assert expr is not None
            render(expr)
        finally:
            sys.setprofile(None)
        return next(made)

    assert calls(1000) < 5.5 * calls(200)


def test_every_function_is_deterministic_and_callable_by_its_name():
    known = dict(
        duckdb.sql(
            "SELECT function_name, list(DISTINCT stability) FROM duckdb_functions() "
            "WHERE function_type = 'scalar' GROUP BY ALL"
        ).fetchall()
    )
    names = FUNCTIONS | OPERATORS | set(RENAMED.values())
    assert {name: known.get(name) for name in names} == dict.fromkeys(names, ["CONSISTENT"])
