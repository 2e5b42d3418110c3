"""Conversions between T-SQL types, as DuckDB SQL that raises SQL Server's errors.

Lost here: the seventh digit of a second, and the offset of a datetimeoffset (the moment is kept).
"""

from collections.abc import Callable
from dataclasses import dataclass

from standins.tds.collation import LATIN_PAGE, UTF8_PAGE
from standins.tds.engine.errors import error, quoted, raised, unknown
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.text_values import MICROSECONDS, text_of
from standins.tds.engine.types import INTEGER_RANGES, family, is_unicode, kind, scale, storage
from standins.tds.values import SqlType

TRUNCATE, TRY, ASSIGN = "truncate", "try", "assign"
WHOLE = "[+-]?[0-9]+"
FIXED = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)"
FIRST_DATETIME = "TIMESTAMP '1753-01-01'"


@dataclass(frozen=True)
class Goal:
    """What a value is converted to, how, and into which column (for the words of an error)."""

    type: SqlType
    how: str = TRUNCATE
    table: str = ""
    column: str = ""
    style: int | None = None
    page: int = LATIN_PAGE

    def fails(self, number: int, *parts: str) -> str:
        return "NULL" if self.how == TRY else raised(number, *parts)


Rule = Callable[[Expr, Goal], str]


def converted(expr: Expr, goal: Goal) -> str:
    """DuckDB SQL of the goal's storage type."""
    if expr.null:
        return f"CAST(NULL AS {storage(goal.type)})"
    rule = RULES.get((family(expr.type), family(goal.type)))
    if rule is None:
        raise clash(expr.type, goal.type)
    return rule(expr, goal)


def cast_to(expr: Expr, sql_type: SqlType) -> str:
    """For comparing and combining; the same type again costs nothing."""
    if expr.type == sql_type and not expr.null:
        return expr.sql
    if family(expr.type) == family(sql_type) == "string" and not expr.null:
        return expr.sql
    return converted(expr, Goal(sql_type))


def clash(source: SqlType, target: SqlType) -> Exception:
    if family(source) == "string" and family(target) == "binary":
        return error(257, source.name, target.name)
    return error(206, source.name, target.name)


def _same(expr: Expr, goal: Goal) -> str:
    return expr.sql


def _to_int(expr: Expr, goal: Goal) -> str:
    target, sql = goal.type.name, expr.sql
    low, high = INTEGER_RANGES[target]
    if family(expr.type) == "bit":
        return f"CAST({sql} AS {storage(goal.type)})"
    if family(expr.type) != "int":
        sql = f"trunc({sql})"
    elif kind(expr.type).rank <= kind(goal.type).rank:
        return f"CAST({sql} AS {storage(goal.type)})"
    if family(expr.type) == "int" and target in ("tinyint", "smallint"):
        failure = goal.fails(220, quoted(target), f"CAST({sql} AS VARCHAR)")
    else:
        failure = goal.fails(8115, "'expression'", quoted(target))
    return (
        f"(CASE WHEN {sql} < {low} OR {sql} > {high} THEN {failure}"
        f" ELSE TRY_CAST({sql} AS {storage(goal.type)}) END)"
    )


def _text_to_int(expr: Expr, goal: Goal) -> str:
    text, target = f"trim({expr.sql})", goal.type.name
    source = quoted(expr.type.name)
    if target == "bigint":
        wrong = goal.fails(8114, source, "'bigint'")
        large = goal.fails(8115, "'expression'", "'bigint'")
    else:
        wrong = goal.fails(245, source, expr.sql, quoted(target))
        large = goal.fails(248, source, expr.sql)
        if target in ("tinyint", "smallint"):
            named = {"tinyint": "INT1", "smallint": "INT2"}[target]
            large = goal.fails(244, source, expr.sql, quoted(named))
    return (
        f"(CASE WHEN {expr.sql} IS NULL THEN NULL WHEN {text} = '' THEN 0"
        f" WHEN NOT regexp_full_match({text}, '{WHOLE}') THEN {wrong}"
        f" ELSE coalesce(TRY_CAST({text} AS {storage(goal.type)}), {large}) END)"
    )


def _to_decimal(expr: Expr, goal: Goal) -> str:
    made = f"TRY_CAST({_number(expr)} AS {storage(goal.type)})"
    failure = goal.fails(8115, quoted(_called(expr.type)), quoted(_called(goal.type)))
    return f"(CASE WHEN {expr.sql} IS NULL THEN NULL ELSE coalesce({made}, {failure}) END)"


def _called(sql_type: SqlType) -> str:
    """Messages say numeric for decimal."""
    return "numeric" if sql_type.name == "decimal" else sql_type.name


def _number(expr: Expr) -> str:
    return f"CAST({expr.sql} AS INTEGER)" if family(expr.type) == "bit" else expr.sql


def _text_to_decimal(expr: Expr, goal: Goal) -> str:
    text = f"trim({expr.sql})"
    wrong = goal.fails(8114, quoted(expr.type.name), quoted(_called(goal.type)))
    large = goal.fails(8115, quoted(expr.type.name), quoted(_called(goal.type)))
    return (
        f"(CASE WHEN {expr.sql} IS NULL THEN NULL"
        f" WHEN NOT regexp_full_match({text}, '{FIXED}') THEN {wrong}"
        f" ELSE coalesce(TRY_CAST({text} AS {storage(goal.type)}), {large}) END)"
    )


def _to_float(expr: Expr, goal: Goal) -> str:
    if family(expr.type) == "string":
        text = f"trim({expr.sql})"
        wrong = goal.fails(8114, quoted(expr.type.name), quoted(goal.type.name))
        made = f"TRY_CAST({text} AS DOUBLE)"
        return (
            f"(CASE WHEN {expr.sql} IS NULL THEN NULL WHEN {text} = '' THEN 0"
            f" WHEN {made} IS NULL OR NOT isfinite({made}) THEN {wrong}"
            f" ELSE CAST({made} AS {storage(goal.type)}) END)"
        )
    if goal.type.name == "real" and expr.type.name == "float":
        wrong = goal.fails(8115, "'expression'", "'real'")
        made = f"TRY_CAST({expr.sql} AS FLOAT)"
        return (
            f"(CASE WHEN {expr.sql} IS NOT NULL AND ({made} IS NULL OR isinf({made})) THEN {wrong}"
            f" ELSE {made} END)"
        )
    return f"CAST({_number(expr)} AS {storage(goal.type)})"


def _to_bit(expr: Expr, goal: Goal) -> str:
    if family(expr.type) == "bit":
        return expr.sql
    if family(expr.type) == "string":
        text = f"lower(trim({expr.sql}))"
        wrong = goal.fails(245, quoted(expr.type.name), expr.sql, "'bit'")
        return (
            f"(CASE WHEN {expr.sql} IS NULL THEN NULL WHEN {text} = 'true' THEN true"
            f" WHEN {text} IN ('false', '') THEN false"
            f" WHEN regexp_full_match({text}, '{WHOLE}') THEN TRY_CAST({text} AS HUGEINT) <> 0"
            f" ELSE {wrong} END)"
        )
    return f"({expr.sql} <> 0)"


def _to_text(expr: Expr, goal: Goal) -> str:
    text = text_of(expr, goal.style)
    if not is_unicode(goal.type) and is_unicode(expr.type) and goal.page == LATIN_PAGE:
        text = f"_latin({text})"
    length = goal.type.length
    if length is None:
        return text
    return _padded(_fitted(expr, goal, text, length), goal, length)


def _fitted(expr: Expr, goal: Goal, text: str, length: int) -> str:
    if family(expr.type) == "string" and _surely_fits(expr.type, goal):
        return text
    size = f"strlen({text})" if goal.page == UTF8_PAGE else f"_len16({text})"
    if family(expr.type) == "string":
        if goal.how != ASSIGN:
            return f"left({text}, {length})"
        trimmed = size.replace(text, f"rtrim({text}, ' ')")
        failure = goal.fails(
            2628, quoted(goal.table), quoted(goal.column), f"left({text}, {length})"
        )
        return (
            f"(CASE WHEN {text} IS NULL THEN NULL"
            f" WHEN strlen({text}) <= {length} OR {size} <= {length} THEN {text}"
            f" WHEN {trimmed} <= {length} THEN left({text}, {length}) ELSE {failure} END)"
        )
    failure = goal.fails(8115, "'expression'", quoted(goal.type.name))
    if family(expr.type) in ("date", "time", "datetime", "offset"):
        return f"left({text}, {length})"
    return f"(CASE WHEN {size} > {length} THEN {failure} ELSE {text} END)"


def _surely_fits(source: SqlType, goal: Goal) -> bool:
    if source.length is None or goal.type.length is None or goal.page == UTF8_PAGE:
        return False
    return source.length <= goal.type.length and not (goal.how == ASSIGN and not source.length)


def _padded(sql: str, goal: Goal, length: int) -> str:
    return f"rpad({sql}, {length}, ' ')" if goal.type.name in ("char", "nchar") else sql


def _to_binary(expr: Expr, goal: Goal) -> str:
    sql, length = _bytes_of(expr, goal), goal.type.length
    if length is None:
        return sql
    if goal.how == ASSIGN:
        failure = goal.fails(
            2628,
            quoted(goal.table),
            quoted(goal.column),
            f"'0x' || left(hex({sql}), {length * 2})",
        )
        sql = f"(CASE WHEN octet_length({sql}) > {length} THEN {failure} ELSE {sql} END)"
    else:
        sql = f"array_slice({sql}, 1, {length})"
    if goal.type.name == "binary":
        sql = f"({sql} || repeat('\\x00'::BLOB, CAST({length} - octet_length({sql}) AS BIGINT)))"
    return sql


def _bytes_of(expr: Expr, goal: Goal) -> str:
    source = family(expr.type)
    if source == "binary":
        return expr.sql
    if source == "int" and goal.how != ASSIGN:
        digits = kind(expr.type).size * 2
        return f"unhex(lpad(to_hex({expr.sql}), {digits}, '0'))"
    if source == "guid" and goal.how != ASSIGN:
        raise unknown("the bytes of a uniqueidentifier")
    if source == "string" and goal.style in (1, 2):
        return f"unhex(substr({expr.sql}, {3 if goal.style == 1 else 1}))"
    if source == "string" and goal.how != ASSIGN:
        return f"_utf16({expr.sql})" if is_unicode(expr.type) else f"_latin1({expr.sql})"
    raise clash(expr.type, goal.type)


def _binary_to_text(expr: Expr, goal: Goal) -> str:
    if goal.style in (1, 2):
        text = f"'0x' || hex({expr.sql})" if goal.style == 1 else f"hex({expr.sql})"
        return f"({text})"
    return f"_of_utf16({expr.sql})" if is_unicode(goal.type) else f"_of_latin1({expr.sql})"


def _text_to_guid(expr: Expr, goal: Goal) -> str:
    made = f"TRY_CAST(regexp_replace(left({expr.sql}, 38), '[{{}}]', '', 'g') AS UUID)"
    return f"(CASE WHEN {expr.sql} IS NULL THEN NULL ELSE coalesce({made}, {goal.fails(8169)}) END)"


def _to_moment(expr: Expr, goal: Goal) -> str:
    source, target = family(expr.type), family(goal.type)
    if source == "string":
        made = MOMENTS_OF_TEXT[target].format(f"_iso({expr.sql})")
        sql = (
            f"(CASE WHEN {expr.sql} IS NULL THEN NULL WHEN trim({expr.sql}) = ''"
            f" THEN TIMESTAMP '1900-01-01'::{storage(goal.type)}"
            f" ELSE coalesce({made}, {goal.fails(241)}) END)"
        )
        if target == "offset":
            sql = sql.replace("'1900-01-01'::TIMESTAMPTZ", "'1900-01-01' AT TIME ZONE 'UTC'")
        if target == "time":
            sql = sql.replace("TIMESTAMP '1900-01-01'::TIME", "TIME '00:00'")
    else:
        sql = MOMENTS.get((source, target), "{}").format(expr.sql)
    return _limited(sql, expr, goal)


# One moment from another; the date of a time is the first of 1900.
MOMENTS = {
    ("date", "datetime"): "CAST({} AS TIMESTAMP)",
    ("date", "offset"): "(CAST({} AS TIMESTAMP) AT TIME ZONE 'UTC')",
    ("time", "datetime"): "(DATE '1900-01-01' + {})",
    ("time", "offset"): "((DATE '1900-01-01' + {}) AT TIME ZONE 'UTC')",
    ("datetime", "date"): "CAST({} AS DATE)",
    ("datetime", "time"): "CAST({} AS TIME)",
    ("datetime", "offset"): "({} AT TIME ZONE 'UTC')",
    ("offset", "date"): "CAST({} AT TIME ZONE 'UTC' AS DATE)",
    ("offset", "time"): "CAST({} AT TIME ZONE 'UTC' AS TIME)",
    ("offset", "datetime"): "({} AT TIME ZONE 'UTC')",
}
MOMENTS_OF_TEXT = {
    "date": "TRY_CAST(TRY_CAST({} AS TIMESTAMP) AS DATE)",
    "datetime": "TRY_CAST({} AS TIMESTAMP)",
    "offset": "TRY_CAST({} AS TIMESTAMPTZ)",
    "time": "coalesce(TRY_CAST({0} AS TIME), TRY_CAST(TRY_CAST({0} AS TIMESTAMP) AS TIME))",
}


def _limited(sql: str, expr: Expr, goal: Goal) -> str:
    """Rounded to the digits that the type has, and refused before 1753 for datetime."""
    name, digits = goal.type.name, scale(goal.type)
    if name in ("datetime", "smalldatetime"):
        failure = goal.fails(242, quoted(expr.type.name), quoted(name))
        rounded = f"_ticks({sql})" if name == "datetime" else f"_rounded({sql}, 60000000)"
        if expr.type.name == name:
            return sql
        return f"(CASE WHEN {sql} < {FIRST_DATETIME} THEN {failure} ELSE {rounded} END)"
    if digits >= MICROSECONDS or name == "date" or _no_finer(expr.type, goal.type):
        return sql
    unit = 10 ** (MICROSECONDS - digits)
    if name == "datetimeoffset":
        return f"(_rounded({sql} AT TIME ZONE 'UTC', {unit}) AT TIME ZONE 'UTC')"
    if name == "time":
        return f"CAST(_rounded(DATE '1970-01-01' + {sql}, {unit}) AS TIME)"
    return f"_rounded({sql}, {unit})"


def _no_finer(source: SqlType, target: SqlType) -> bool:
    return source.name == target.name and scale(source) <= scale(target)


NUMBERS = ("int", "decimal", "float")
MOMENT_FAMILIES = ("date", "time", "datetime", "offset")
RULES: dict[tuple[str, str], Rule] = {
    ("bit", "int"): _to_int,
    ("string", "int"): _text_to_int,
    ("string", "decimal"): _text_to_decimal,
    ("bit", "decimal"): _to_decimal,
    ("string", "float"): _to_float,
    ("bit", "float"): _to_float,
    ("bit", "bit"): _same,
    ("string", "bit"): _to_bit,
    ("string", "string"): _to_text,
    ("bit", "string"): _to_text,
    ("guid", "string"): _to_text,
    ("binary", "string"): _binary_to_text,
    ("binary", "binary"): _to_binary,
    ("int", "binary"): _to_binary,
    ("guid", "binary"): _to_binary,
    ("string", "binary"): _to_binary,
    ("guid", "guid"): _same,
    ("string", "guid"): _text_to_guid,
    ("boolean", "boolean"): _same,
    ("variant", "string"): _to_text,
    ("variant", "variant"): _same,
    ("string", "variant"): _same,
    ("int", "variant"): lambda expr, goal: text_of(expr),
}
for _number_family in NUMBERS:
    RULES[(_number_family, "int")] = _to_int
    RULES[(_number_family, "decimal")] = _to_decimal
    RULES[(_number_family, "float")] = _to_float
    RULES[(_number_family, "bit")] = _to_bit
    RULES[(_number_family, "string")] = _to_text
for _moment in MOMENT_FAMILIES:
    RULES[(_moment, "string")] = _to_text
    RULES[("string", _moment)] = _to_moment
    for _other in MOMENT_FAMILIES:
        if {_moment, _other} != {"date", "time"}:
            RULES[(_moment, _other)] = _to_moment
