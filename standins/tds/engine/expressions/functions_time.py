"""Functions of dates and times. The clock of the stand-in is UTC."""

from collections.abc import Callable

from sqlglot import exp

from standins.tds.engine.errors import error, raised, unknown
from standins.tds.engine.expressions.compiler import Expressions
from standins.tds.engine.expressions.convert import Goal, cast_to, converted
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.types import DATE, DATETIME, INT, family
from standins.tds.values import SqlType

Function = Callable[[Expressions, list[exp.Expr], Scope], Expr]
NOW = "(now() AT TIME ZONE 'UTC')"
DATETIME2 = SqlType("datetime2", scale=7)
OFFSET = SqlType("datetimeoffset", scale=7)
PARTS = {
    "year": "year", "yy": "year", "yyyy": "year", "quarter": "quarter", "qq": "quarter",
    "q": "quarter", "month": "month", "mm": "month", "m": "month", "day": "day", "dd": "day",
    "d": "day", "dayofyear": "doy", "dy": "doy", "y": "doy", "week": "week", "wk": "week",
    "ww": "week", "weekday": "weekday", "dw": "weekday", "hour": "hour", "hh": "hour",
    "minute": "minute", "mi": "minute", "n": "minute", "second": "second", "ss": "second",
    "s": "second", "millisecond": "millisecond", "ms": "millisecond",
    "microsecond": "microsecond", "mcs": "microsecond", "nanosecond": "nanosecond",
    "ns": "nanosecond",
}  # fmt: skip
# What a part of DATEADD is as an interval of DuckDB.
INTERVALS = {
    "year": "to_years({})", "quarter": "to_months(3 * {})", "month": "to_months({})",
    "day": "to_days({})", "doy": "to_days({})", "weekday": "to_days({})", "week": "to_days(7 * {})",
    "hour": "to_hours({})", "minute": "to_minutes({})", "second": "to_seconds({})",
    "millisecond": "to_microseconds(1000 * CAST({} AS BIGINT))",
    "microsecond": "to_microseconds({})", "nanosecond": "to_microseconds({} // 1000)",
}  # fmt: skip
EXTRACTED = {
    "year": "year({})", "quarter": "quarter({})", "month": "month({})", "day": "day({})",
    "doy": "dayofyear({})", "weekday": "dayofweek({}) + 1", "hour": "hour({})",
    "minute": "minute({})", "second": "second({})", "week": "week({})",
    "millisecond": "microsecond({}) % 1000000 // 1000", "microsecond": "microsecond({}) % 1000000",
    "nanosecond": "microsecond({}) % 1000000 * 1000",
}  # fmt: skip


def _now(sql: str, sql_type: SqlType) -> Function:
    return lambda compiler, nodes, scope: Expr(sql, sql_type, False, constant=True)


def part_of(node: exp.Expr) -> str:
    found = PARTS.get(node.name.lower())
    if found is None:
        raise error(102, node.name)
    return found


def moment(expr: Expr) -> Expr:
    """A string is read as datetime2 where a moment is asked for."""
    if family(expr.type) == "string":
        return Expr(cast_to(expr, DATETIME2), DATETIME2, expr.nullable, constant=expr.constant)
    if family(expr.type) not in ("date", "time", "datetime", "offset"):
        raise error(206, expr.type.name, "datetime2")
    return expr


def _dateadd(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    part = part_of(nodes[0])
    number = compiler.value(nodes[1], scope)
    given = moment(compiler.value(nodes[2], scope))
    count = converted(number, Goal(INT)) if number.type.name != "bigint" else number.sql
    moved = f"({given.sql} + {INTERVALS[part].format(count)})"
    if family(given.type) == "date":
        moved = f"CAST({moved} AS DATE)"
    if given.type.name == "datetime":
        moved = f"_ticks({moved})"
    return Expr(moved, given.type, given.nullable or number.nullable,
                constant=given.constant and number.constant)  # fmt: skip


def _datediff(big: bool) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        part = part_of(nodes[0])
        one, two = (cast_to(moment(compiler.value(each, scope)), DATETIME2) for each in nodes[1:3])
        unit = {"doy": "day", "weekday": "day", "nanosecond": "microsecond"}.get(part, part)
        found = f"datediff('{unit}', {one}, {two})"
        if part == "nanosecond":
            found = f"(1000 * {found})"
        if big:
            return Expr(found, SqlType("bigint"))
        name = "'datediff'"
        overflow = raised(535, name, name)
        sql = (
            f"(CASE WHEN abs({found}) > 2147483647 THEN {overflow}"
            f" ELSE CAST({found} AS INTEGER) END)"
        )
        return Expr(sql, INT)

    return made


def _datepart(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    return _extracted(part_of(nodes[0]), compiler.value(nodes[1], scope))


def _extracted(part: str, value: Expr) -> Expr:
    given = moment(value)
    sql = given.sql if family(given.type) != "offset" else f"({given.sql} AT TIME ZONE 'UTC')"
    return Expr(f"CAST({EXTRACTED[part].format(sql)} AS INTEGER)", INT, given.nullable)


def _part(part: str) -> Function:
    return lambda compiler, nodes, scope: _extracted(part, compiler.value(nodes[0], scope))


def _datename(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    part = part_of(nodes[0])
    given = moment(compiler.value(nodes[1], scope))
    name = {"month": "monthname({})", "weekday": "dayname({})"}.get(part)
    sql = (
        name.format(given.sql) if name else f"CAST({EXTRACTED[part].format(given.sql)} AS VARCHAR)"
    )
    return Expr(sql, SqlType("nvarchar", 30))


def _eomonth(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    if len(nodes) != 1:
        raise unknown("EOMONTH with an offset")
    given = moment(compiler.value(nodes[0], scope))
    return Expr(f"last_day({cast_to(given, DATE)})", DATE)


def _from_parts(template: str, sql_type: SqlType) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given = [cast_to(compiler.value(each, scope), SqlType("bigint")) for each in nodes]
        return Expr(template.format(*given), sql_type)

    return made


def _switchoffset(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    """The moment stays; its offset is not kept here anyhow."""
    given = compiler.value(nodes[0], scope)
    return Expr(cast_to(given, OFFSET), OFFSET, given.nullable)


TIME_FUNCTIONS: dict[str, Function] = {
    "GETDATE": _now(f"_ticks({NOW})", DATETIME),
    "GETUTCDATE": _now(f"_ticks({NOW})", DATETIME),
    "CURRENT_TIMESTAMP": _now(f"_ticks({NOW})", DATETIME),
    "SYSDATETIME": _now(NOW, DATETIME2),
    "SYSUTCDATETIME": _now(NOW, DATETIME2),
    "SYSDATETIMEOFFSET": _now("now()", OFFSET),
    "DATEADD": _dateadd,
    "DATEDIFF": _datediff(big=False),
    "DATEDIFF_BIG": _datediff(big=True),
    "DATEPART": _datepart,
    "DATENAME": _datename,
    "YEAR": _part("year"),
    "MONTH": _part("month"),
    "DAY": _part("day"),
    "EOMONTH": _eomonth,
    "DATEFROMPARTS": _from_parts("make_date({}, {}, {})", DATE),
    "SWITCHOFFSET": _switchoffset,
    "TODATETIMEOFFSET": _switchoffset,
}
