"""Reads the filters of a scan, DuckDB's bound expressions as JSON, as one `Expr`.

The client filters again, so a filter may let too many rows through but never too few. An expression
without an exact equal in `expr` becomes TRUE: it disappears from an AND, makes an OR TRUE, and
under anything else (NOT, CASE, a comparison, a function) makes the whole boolean TRUE.

Exact means exact in every session. An expression that depends on the client's time zone or on its
setting for float division has no equal here, because the server does not know these.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from jetbridge.duckdb_syntax.types import (
    MAX_DEPTH,
    Node,
    UnsupportedFilter,
    member,
    members,
    text,
    type_name,
)
from jetbridge.duckdb_syntax.values import constant
from jetbridge.errors import BadRequest, LimitExceeded
from jetbridge.expr import (
    And,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    ComparisonOp,
    Constant,
    Expr,
    Function,
    In,
    IsNull,
    Not,
    Or,
    walk,
)

# The functions that a filter may call. All of them answer the same for the same arguments in every
# session: no clock, no randomness, no time zone, no setting. Left out on purpose are functions that
# make huge values of a small filter (`repeat`, `lpad`, `range`), that take a lambda, or that only
# the optimizer writes (`__internal_compress_…`, `optional_filter`).

# Operators stand between two arguments, or before one.
OPERATORS = frozenset(
    {"+", "-", "*", "/", "//", "%", "&", "|", "<<", ">>", "~"}
    | {"||", "^@", "~~", "!~~", "~~*", "!~~*", "~~~"}  # text; ~~ is LIKE, ~~* ILIKE, ~~~ GLOB
)

_NAMES = {
    "numbers": """
        abs add bit_count ceil ceiling divide even floor gcd greatest greatest_common_divisor
        isfinite isinf isnan lcm least least_common_multiple mod multiply round sign signbit
        subtract trunc xor""",
    # The names with like_escape are LIKE … ESCAPE; prefix and suffix are LIKE 'a%' and LIKE '%a'.
    "text and bytes": """
        ascii bit_length char_length character_length concat contains encode ends_with hex
        ilike_escape instr lcase left left_grapheme len length length_grapheme like_escape lower
        ltrim md5 nfc_normalize not_ilike_escape not_like_escape octet_length ord position prefix
        regexp_extract regexp_full_match regexp_matches regexp_replace replace reverse right rtrim
        sha256 split starts_with str_split string_split strip_accents strlen strpos substr
        substring substring_grapheme suffix translate trim ucase unicode upper""",
    "dates and times without a zone": """
        century date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day
        dayname dayofmonth dayofweek dayofyear decade epoch epoch_ms epoch_ns epoch_us era hour
        isodow isoyear julian last_day make_date microsecond millennium millisecond minute month
        monthname nanosecond normalized_interval quarter second strftime time_bucket to_days
        to_hours to_microseconds to_milliseconds to_minutes to_months to_seconds to_weeks to_years
        week weekday weekofyear year yearweek""",
    "nested values": """
        array_contains array_extract array_has array_has_all array_has_any array_length
        array_position array_slice cardinality element_at list_contains list_element list_extract
        list_has list_has_all list_has_any list_position list_slice map_contains map_extract
        map_extract_value map_keys map_values struct_extract struct_extract_at""",
    "JSON": "json_extract json_extract_string",
    # NULL if a later argument is NULL, else the first; the optimizer writes it for `x * 0`.
    "NULL": "constant_or_null",
}
FUNCTIONS = frozenset(name for names in _NAMES.values() for name in names.split())

# Operators with another name as a function: among arguments, `->` would begin a lambda.
RENAMED = {"->": "json_extract", "->>": "json_extract_string"}

# A division by zero gives NULL, NaN or infinity, as the client's `ieee_floating_point_ops` says.
FLOAT_DIVISIONS = frozenset({"/", "//", "%", "divide", "mod"})


COMPARISONS: dict[str, ComparisonOp] = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}

BUILT_IN = frozenset({"system", ""})  # "": written by the optimizer, or for a collation
CALLABLE = FUNCTIONS | OPERATORS
FLOATS = frozenset({"FLOAT", "DOUBLE"})
# The most lists and objects in the JSON of filters; an IN of 30,000 values has a third of that.
FILTER_ITEMS = 300_000


class _Pushed(msgspec.Struct):
    """Hold the JSON that the client sends."""

    filters: list[dict[str, Any]]
    column_binding_names_by_index: list[str]


class _Typed(NamedTuple):
    """Hold an expression and the name of its type."""

    expr: Expr
    type: str


def parse_filters(json_text: str) -> Expr | None:
    """Return the conjunction of the filters; None if every row must be sent.

    Raise BadRequest for text that is not the client's JSON, and LimitExceeded.
    """
    if not json_text:  # the client had no filter to push
        return None
    if json_text.count("{") + json_text.count("[") > FILTER_ITEMS:
        raise LimitExceeded(f"json_filters has more than {FILTER_ITEMS} lists and objects")
    try:
        pushed = msgspec.convert(json.loads(json_text), _Pushed)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise BadRequest(f"json_filters cannot be read: {_reason(error)}") from None
    reader = _FilterParser(pushed.column_binding_names_by_index)
    return reader.conjunction(pushed.filters, 0)


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]


class _FilterParser:
    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def conjunction(self, nodes: Sequence[Node], depth: int) -> Expr | None:
        widened = [self.widen(node, depth) for node in nodes]
        kept = tuple(expr for expr in widened if expr is not None)
        return And(kept) if len(kept) > 1 else (kept[0] if kept else None)

    def _disjunction(self, nodes: Sequence[Node], depth: int) -> Expr | None:
        kept: list[Expr] = []
        for node in nodes:
            expr = self.widen(node, depth)
            if expr is None:
                return None
            kept.append(expr)
        return Or(tuple(kept)) if kept else None

    def widen(self, node: Node, depth: int) -> Expr | None:
        """Return the boolean, or a weaker one; None is TRUE."""
        junction = {
            "CONJUNCTION_AND": self.conjunction,
            "CONJUNCTION_OR": self._disjunction,
        }.get(str(node.get("type")))
        try:
            if junction and depth < MAX_DEPTH:
                return junction(members(node, "children"), depth + 1)
            exact = self.exact(node, depth)
        except UnsupportedFilter:
            return None
        return exact.expr if exact.type == "BOOLEAN" else None

    def exact(self, node: Node, depth: int) -> _Typed:
        """Return an exact equal of the expression; raise UnsupportedFilter if there is none."""
        read = READERS.get(member(node, "expression_class", str))
        if not read or depth > MAX_DEPTH:
            raise UnsupportedFilter(str(node["expression_class"]))
        return read(self, node, depth + 1)

    def all_exact(self, nodes: Sequence[Node], depth: int) -> list[_Typed]:
        return [self.exact(node, depth) for node in nodes]

    def column(self, node: Node, _depth: int) -> _Typed:
        index = member(member(node, "binding", dict), "column_index", int)
        if node.get("depth") != 0 or not 0 <= index < len(self._columns):
            raise UnsupportedFilter("column")
        column_type = _return_type(node)
        # The client sees a dictionary column as VARCHAR. If it ever came as ENUM, the server would
        # sort by text where the ENUM sorts by position.
        if "ENUM(" in column_type:
            raise UnsupportedFilter("ENUM")
        return _Typed(Column(text(self._columns[index]), column_type), column_type)


def _return_type(node: Node) -> str:
    return type_name(member(node, "return_type", dict))


def _is_zoned(name: str) -> bool:
    return "TIME ZONE" in name


def _constant(_reader: _FilterParser, node: Node, depth: int) -> _Typed:
    value = constant(member(node, "value", dict), depth)
    return _Typed(value, value.type)


def _same(parts: Sequence[_Typed]) -> list[Expr]:
    """Return operands that are compared with each other, converted to one type.

    DuckDB's binder has cast them already. Its optimizer has not: for a regular expression with a
    prefix, it compares the VARCHAR with BLOB bounds, byte by byte.
    """
    kinds = frozenset(part.type for part in parts)
    if len(kinds) == 1:
        return [part.expr for part in parts]
    if kinds == {"VARCHAR", "BLOB"}:
        return [p.expr if p.type == "BLOB" else Function("encode", (p.expr,)) for p in parts]
    if kinds == {"VARCHAR", "JSON"}:
        return [p.expr if p.type == "VARCHAR" else Cast(p.expr, "VARCHAR") for p in parts]
    raise UnsupportedFilter("operands of several types")


def _comparison(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    op = COMPARISONS.get(member(node, "type", str))
    if not op:
        raise UnsupportedFilter("comparison")
    sides = reader.all_exact([member(node, side, dict) for side in ("left", "right")], depth)
    return _Typed(Comparison(op, *_same(sides)), "BOOLEAN")


def _between(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    parts = [member(node, part, dict) for part in ("input", "lower", "upper")]
    child, lower, upper = _same(reader.all_exact(parts, depth))
    # Dialects write the child twice if a bound is exclusive. Nested, every level would double it.
    if any(isinstance(part, Between) for part in walk(child)):
        raise UnsupportedFilter("BETWEEN within BETWEEN")
    bounds = [member(node, key, bool) for key in ("lower_inclusive", "upper_inclusive")]
    return _Typed(Between(child, lower, upper, *bounds), "BOOLEAN")


JUNCTIONS: dict[str, type[And] | type[Or]] = {"CONJUNCTION_AND": And, "CONJUNCTION_OR": Or}


def _conjunction(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    junction = JUNCTIONS.get(member(node, "type", str))
    parts = reader.all_exact(members(node, "children"), depth)
    if not junction or not parts:
        raise UnsupportedFilter("conjunction")
    return _Typed(junction(tuple(_booleans(parts))), "BOOLEAN")


def _operator(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    build = OPERATIONS.get(member(node, "type", str))
    parts = reader.all_exact(members(node, "children"), depth)
    if not build or not parts:
        raise UnsupportedFilter("operator")
    return _Typed(build(parts), _return_type(node))


def _booleans(parts: Sequence[_Typed]) -> list[Expr]:
    if any(part.type != "BOOLEAN" for part in parts):
        raise UnsupportedFilter("not a boolean")
    return [part.expr for part in parts]


def _only(parts: list[_Typed], required: str = "") -> Expr:
    if len(parts) != 1 or (required and parts[0].type != required):
        raise UnsupportedFilter("operands")
    return parts[0].expr


def _in(parts: list[_Typed], negated: bool) -> Expr:
    child, *items = _same(parts)
    if not items:
        raise UnsupportedFilter("IN without items")
    return In(child, tuple(items), negated)


OPERATIONS: dict[str, Callable[[list[_Typed]], Expr]] = {
    "OPERATOR_NOT": lambda parts: Not(_only(parts, "BOOLEAN")),
    "OPERATOR_IS_NULL": lambda parts: IsNull(_only(parts)),
    "OPERATOR_IS_NOT_NULL": lambda parts: IsNull(_only(parts), negated=True),
    "OPERATOR_COALESCE": lambda parts: Coalesce(tuple(_same(parts))),
    "COMPARE_IN": lambda parts: _in(parts, negated=False),
    "COMPARE_NOT_IN": lambda parts: _in(parts, negated=True),
}


def _case(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    checks = members(node, "case_checks")
    tests = reader.all_exact([member(check, "when_expr", dict) for check in checks], depth)
    answers = [member(check, "then_expr", dict) for check in checks]
    *thens, otherwise = _same(reader.all_exact([*answers, member(node, "else_expr", dict)], depth))
    if not thens:
        raise UnsupportedFilter("CASE")
    whens = zip(_booleans(tests), thens, strict=True)
    return _Typed(Case(tuple(whens), otherwise), _return_type(node))


def _cast(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    child, target = reader.exact(member(node, "child", dict), depth), _return_type(node)
    # A cast to or from a type with a time zone uses the time zone of the session.
    if _is_zoned(child.type + target) or target == "NULL":
        raise UnsupportedFilter("CAST")
    return _Typed(Cast(child.expr, target, member(node, "try_cast", bool)), target)


def _function(reader: _FilterParser, node: Node, depth: int) -> _Typed:
    name = member(node, "name", str)
    name = RENAMED.get(name, name)
    if member(node, "catalog_name", str) not in BUILT_IN or name not in CALLABLE:
        raise UnsupportedFilter(name)
    parts, result = reader.all_exact(members(node, "children"), depth), _return_type(node)
    if not parts or _is_zoned(result + "".join(part.type for part in parts)):
        raise UnsupportedFilter(name)
    if name in FLOAT_DIVISIONS and not _divides_alike(name, parts):
        raise UnsupportedFilter(name)
    return _Typed(Function(name, tuple(part.expr for part in parts), name in OPERATORS), result)


def _divides_alike(name: str, parts: list[_Typed]) -> bool:
    divisor = parts[-1].expr
    if FLOATS.isdisjoint(part.type for part in parts):
        return name != "/"  # of integers only under the client's `integer_division`
    return isinstance(divisor, Constant) and bool(divisor.value)


READERS: dict[str, Callable[[_FilterParser, Node, int], _Typed]] = {
    "BOUND_COLUMN_REF": _FilterParser.column,
    "BOUND_CONSTANT": _constant,
    "BOUND_COMPARISON": _comparison,
    "BOUND_BETWEEN": _between,
    "BOUND_CONJUNCTION": _conjunction,
    "BOUND_OPERATOR": _operator,
    "BOUND_CASE": _case,
    "BOUND_CAST": _cast,
    "BOUND_FUNCTION": _function,
}
