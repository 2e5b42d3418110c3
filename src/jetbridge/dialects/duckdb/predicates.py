"""Renders predicates as DuckDB SQL.

Every constant has its type and every node its parentheses, so that DuckDB binds the text to the
functions of the expression, whatever surrounds it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.expr import (
    And,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    IsNull,
    Not,
    Or,
)

INFINITE_DATE = 2**31 - 1
INFINITE_TIMESTAMP = 2**63 - 1
# The offset is stored as 57599 (15:59:59) minus itself, so that packed values sort by instant.
TIMETZ_OFFSET = 57599

# Type: units per second, digits after the point, what follows the text.
TIMESTAMPS = {
    "TIMESTAMP_S": (1, 0, ""),
    "TIMESTAMP_MS": (10**3, 3, ""),
    "TIMESTAMP": (10**6, 6, ""),
    "TIMESTAMP_NS": (10**9, 9, ""),
    "TIMESTAMP WITH TIME ZONE": (10**6, 6, "+00"),  # never read in the session's time zone
}


def render(expr: Expr) -> str:
    """Render an expression in parentheses; raises BadRequest for a name that no SQL can contain."""
    return _NODES[type(expr)](expr)


def _list(exprs: Iterable[Expr], separator: str = ", ") -> str:
    return separator.join([render(expr) for expr in exprs])


def _in(node: In) -> str:
    negation = "NOT " if node.negated else ""
    return f"({render(node.child)} {negation}IN ({_list(node.items)}))"


def _between(node: Between) -> str:
    child, lower, upper = render(node.child), render(node.lower), render(node.upper)
    if node.lower_inclusive and node.upper_inclusive:
        return f"({child} BETWEEN {lower} AND {upper})"
    above = ">=" if node.lower_inclusive else ">"
    below = "<=" if node.upper_inclusive else "<"
    return f"(({child} {above} {lower}) AND ({child} {below} {upper}))"


def _case(node: Case) -> str:
    whens = " ".join([f"WHEN {render(test)} THEN {render(then)}" for test, then in node.whens])
    return f"(CASE {whens} ELSE {render(node.otherwise)} END)"


def _function(node: Function) -> str:
    if not node.operator:
        return f"{identifier(node.name)}({_list(node.arguments)})"
    if len(node.arguments) == 1:
        return f"({node.name} {render(node.arguments[0])})"
    return "(" + _list(node.arguments, f" {node.name} ") + ")"


def _constant(node: Constant) -> str:
    if node.value is None:
        return "NULL" if node.type == "NULL" else f"CAST(NULL AS {node.type})"
    build = _BUILT.get(kind_of(node.type))
    if build:
        return build(node)
    spell = _TEXTS.get(kind_of(node.type), _plain)
    return f"CAST({literal(spell(node))} AS {node.type})"


def _plain(node: Constant) -> str:
    return str(node.value)


def _civil(days: int) -> str:
    """Format days since 1970 as a proleptic Gregorian date of any year, which Python cannot."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153  # 0 is March
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9  # noqa: PLR2004
    year = year_of_era + era * 400 + (month <= 2)  # noqa: PLR2004
    suffix = "" if year > 0 else " (BC)"
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}{suffix}"


def _clock(units: int, per_second: int, digits: int) -> str:
    seconds, fraction = divmod(units, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}" if digits else text


def _date(node: Constant) -> str:
    infinite = _infinity(node.value, INFINITE_DATE)
    return infinite or _civil(node.value)


def _infinity(value: int, largest: int) -> str:
    return {largest: "infinity", -largest: "-infinity"}.get(value, "")


def _timestamp(node: Constant) -> str:
    infinite = _infinity(node.value, INFINITE_TIMESTAMP)
    if infinite:
        return infinite
    per_second, digits, suffix = TIMESTAMPS[node.type]
    days, rest = divmod(node.value, 86400 * per_second)
    return f"{_civil(days)} {_clock(rest, per_second, digits)}{suffix}"


def _timetz(node: Constant) -> str:
    micros, packed = node.value >> 24, node.value & 0xFFFFFF
    offset = TIMETZ_OFFSET - packed
    sign = "-" if offset < 0 else "+"
    return f"{_clock(micros, 10**6, 6)}{sign}{_clock(abs(offset), 1, 0)}"


def _decimal(node: Constant) -> str:
    scale = int(node.type.rstrip(")").rpartition(",")[2])
    digits = f"{abs(node.value):0{scale + 1}d}"
    point = len(digits) - scale
    return f"{'-' if node.value < 0 else ''}{digits[:point]}.{digits[point:]}"


def _interval(node: Constant) -> str:
    months, days, micros = node.value
    return f"{months} months {days} days {micros} microseconds"


def _elements(node: Constant) -> str:
    return f"CAST([{_list(node.value)}] AS {node.type})"


def _struct(node: Constant) -> str:
    return "struct_pack(" + ", ".join(
        [f"{identifier(name)} := {render(value)}" for name, value in node.value]
    ) + ")"  # fmt: skip


def _map(node: Constant) -> str:
    keys, values = _list([key for key, _ in node.value]), _list([value for _, value in node.value])
    return f"CAST(map([{keys}], [{values}]) AS {node.type})"


# Constants that are more than a cast of their text.
_BUILT: dict[str, Callable[[Constant], str]] = {
    "BOOLEAN": lambda node: literal(bool(node.value)),
    "BLOB": lambda node: literal(bytes(node.value)),
    "LIST": _elements,
    "STRUCT": _struct,
    "MAP": _map,
}

# The text DuckDB casts to the exact value; all other types take Python's own text of the value.
_TEXTS: dict[str, Callable[[Constant], str]] = {
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIME": lambda node: _clock(node.value, 10**6, 6),
    "TIME_NS": lambda node: _clock(node.value, 10**9, 9),
    "TIME WITH TIME ZONE": _timetz,
    "INTERVAL": _interval,
    **dict.fromkeys(TIMESTAMPS, _timestamp),
}

_NODES: dict[type[Any], Callable[[Any], str]] = {
    Column: lambda node: identifier(node.name),
    Constant: _constant,
    Comparison: lambda node: f"({render(node.left)} {node.op} {render(node.right)})",
    And: lambda node: f"({_list(node.children, ' AND ')})",
    Or: lambda node: f"({_list(node.children, ' OR ')})",
    Not: lambda node: f"(NOT {render(node.child)})",
    IsNull: lambda node: f"({render(node.child)} IS {'NOT ' if node.negated else ''}NULL)",
    In: _in,
    Between: _between,
    Coalesce: lambda node: f"COALESCE({_list(node.children)})",
    Case: _case,
    Cast: lambda node: f"{'TRY_' if node.attempt else ''}CAST({render(node.child)} AS {node.type})",
    Function: _function,
}
