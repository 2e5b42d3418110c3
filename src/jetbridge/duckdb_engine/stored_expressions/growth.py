"""How much memory and time a stored expression can take, by the bytes of the row it reads.

DuckDB counts no memory that strings take while it computes, and looks up from its work only
between two vectors of 2,048 rows. So both are bounded before: by the tree of the expression, which
tells for each part how large it can be.
"""

from collections.abc import Iterator
from typing import Any

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.functions import SIZES, Size, name_set
from jetbridge.duckdb_engine.stored_expressions.call_growth import (
    IN_MEMORY,
    RULES,
    VALUE,
    Call,
    Growth,
    zones,
)
from jetbridge.errors import BadRequest

Tree = dict[str, Any]

_MOST_PARTS = 5000
_MOST_LEVELS = 200
# Of one value, made by constants alone.
_MOST_EXTRA = 4 * 1024 * 1024
_MOST_PER_BYTE = 1024 * 1024
_MOST_SLOTS = 10_000
_CLASSES = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "DEFAULT": "DEFAULT",
    "POSITIONAL_REFERENCE": "the number of a column",
}


def written_as(value: Growth, kind: str) -> Growth:
    """Return the work to cast a value to DuckDB's type of a column."""
    about = {"id": kind}
    return value.times(8, 64) + _cast_work(value, about)


def growth(tree: Tree) -> tuple[Growth, Growth, frozenset[str]]:
    """Measure a value, and all that is computed for it; raise BadRequest for what has no bound.

    The message goes on after the name of the expression. Last the columns in which DuckDB may look
    for a time zone.
    """
    meter = _Meter()
    value = meter.measure(tree)
    return value, meter.total, frozenset(meter.zoned)


class _Meter:
    def __init__(self) -> None:
        self.total = Growth()
        self.zoned: set[str] = set()
        self._parts = self._level = 0

    def measure(self, node: Tree) -> Growth:
        self._parts += 1
        self._level += 1
        if self._parts > _MOST_PARTS:
            raise BadRequest(f"has more than {_MOST_PARTS} parts")
        if self._level > _MOST_LEVELS:
            raise BadRequest("is nested too deeply")
        growth = self._value(node)
        self._level -= 1
        self._count(growth)
        return growth

    def _count(self, growth: Growth) -> None:
        self.total += growth
        if self.total.extra > _MOST_EXTRA:
            raise BadRequest(f"can make values of more than {_MOST_EXTRA} bytes of constants")
        if self.total.per_byte > _MOST_PER_BYTE:
            raise BadRequest(f"can make values of more than {_MOST_PER_BYTE} times the row")

    def _value(self, node: Tree) -> Growth:
        kind = node.get("class", "")
        if kind == "CONSTANT":
            return Growth(0, 16 + len(str(node["value"].get("value"))))
        if kind == "COLUMN_REF":
            return Growth(1, 16)
        if kind == "CAST":
            child = self.measure(node["child"])
            self._work(_cast_work(child, node["cast_type"]), [node["child"]])
            return _cast(child, node["cast_type"])
        operands = list(_operands(node))
        sizes = [self.measure(operand) for operand in operands]
        if kind not in ("FUNCTION", "LAMBDA"):
            return _composed(node, sum(sizes, Growth()))
        # There is no function here that takes a lambda, so that is an operator of JSON.
        return self._call(str(node.get("function_name", "->")).lower(), Call(operands, sizes))

    def _call(self, name: str, call: Call) -> Growth:
        # What changes from call to call is a number, a date or an id.
        size = SIZES.get(name, Size.PATH if name == "->" else Size.FIXED)
        try:
            result, work = RULES[size](call)
        except BadRequest as error:
            raise BadRequest(f"must call {name}() with {error}") from None
        self._work(work, call.arguments)
        return result

    def _work(self, work: Growth, arguments: list[Tree]) -> None:
        self._count(work)
        if work.zoned:
            self.zoned.update(name for tree in arguments for name in _columns(tree))


def _composed(node: Tree, whole: Growth) -> Growth:
    """Return the size of what is no function, of parts that have this size together."""
    match node["class"]:
        case "COMPARISON" | "CONJUNCTION" | "BETWEEN":
            return VALUE
        case "CASE":
            return whole
        case "COLLATE":
            return whole.times(8)
        case "OPERATOR":
            return _operator(node["type"], whole)
        case kind:
            raise BadRequest(f"must not contain {_CLASSES.get(kind, kind.lower())}")


def _operands(node: Tree) -> Iterator[Tree]:
    """Yield the expressions right below."""
    for value in node.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                if "class" in item:
                    yield item
                elif "when_expr" in item:
                    yield from (item["when_expr"], item["then_expr"])


def _columns(node: Tree) -> Iterator[str]:
    if node.get("class") == "COLUMN_REF":
        yield fold(node["column_names"][0])
    for operand in _operands(node):
        yield from _columns(operand)


_ANSWERS = name_set("OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_NOT COMPARE_IN COMPARE_NOT_IN")
_CHOICES = name_set(
    "OPERATOR_COALESCE OPERATOR_TRY ARRAY_EXTRACT ARRAY_SLICE STRUCT_EXTRACT ARRAY_CONSTRUCTOR"
)


def _operator(kind: str, whole: Growth) -> Growth:
    if kind in _ANSWERS:
        return VALUE
    if kind not in _CHOICES:
        raise BadRequest(f"must not contain {kind.lower()}")
    return whole.times(1)


_FIXED = name_set(
    """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT
    FLOAT DOUBLE DECIMAL DATE TIME TIMESTAMP INTERVAL UUID
    """
)


def _cast(child: Growth, kind: Tree) -> Growth:
    if kind["id"] in _FIXED or kind["id"].startswith(("TIME ", "TIMESTAMP")):
        return VALUE
    slots, names = _slots(kind)
    if slots > _MOST_SLOTS:
        raise BadRequest(f"must not have a type of more than {_MOST_SLOTS} values")
    if kind["id"] in ("LIST", "ARRAY", "STRUCT", "MAP", "UNION"):
        return Growth(child.per_byte, child.extra + 1).times(16 * slots, 16 * slots + names)
    return child.times(8, 64)


def _cast_work(value: Growth, kind: Tree) -> Growth:
    about = str(kind)
    if "WITH TIME ZONE" in about or "TIMESTAMPTZ" in about.upper():
        return zones(value)
    # JSON, or a type that there is not
    return value.times(IN_MEMORY) if "UNBOUND" in about else VALUE


def _slots(kind: Tree) -> tuple[int, int]:
    """Return how many values one of the type has at least, and the bytes of their names."""
    if kind["id"] == "VARIANT":
        raise BadRequest("must not have the type VARIANT")
    about = kind.get("type_info") or {}
    if "child_types" in about:
        inner = [_slots(child["second"]) for child in about["child_types"]]
        names = sum(len(child["first"]) for child in about["child_types"])
        return 1 + sum(slots for slots, _ in inner), names + sum(size for _, size in inner)
    if "child_type" in about:
        slots, names = _slots(about["child_type"])
        return 1 + slots * about.get("size", 1), names
    return 1, 0
