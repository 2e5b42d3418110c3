"""The operators of numbers and strings, with the types that T-SQL gives their results."""

from dataclasses import replace

from sqlglot import exp

from standins.tds.engine.errors import error, raised, unknown
from standins.tds.engine.expressions.convert import cast_to
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.types import (
    DATETIME,
    MAX_DIGITS,
    as_decimal,
    family,
    is_unicode,
    precision,
    scale,
    storage,
    unified,
)
from standins.tds.values import SqlType

SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip
NAMES = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "modulo"}
LONGEST = {True: 4000, False: 8000}


def combined(sign: str, left: Expr, right: Expr) -> Expr:
    if left.null and not right.null:
        left = replace(left, type=right.type)
    if right.null and not left.null:
        right = replace(right, type=left.type)
    families = {family(left.type), family(right.type)}
    if sign == "+" and families <= {"string"}:
        return concatenated(left, right)
    if sign == "+" and families == {"binary"}:
        return _made(f"({left.sql} || {right.sql})", SqlType("varbinary"), left, right)
    if families & {"datetime"} and sign in "+-":
        return _moved(sign, left, right)
    target = unified(left.type, right.type)
    if family(target) not in ("int", "decimal", "float", "bit"):
        raise error(8117, target.name, NAMES.get(sign, "'" + sign + "'"))
    return NUMBERS[family(target)](sign, left, right, target)


def concatenated(left: Expr, right: Expr) -> Expr:
    unicode = is_unicode(left.type) or is_unicode(right.type)
    length: int | None = None
    if left.type.length is not None and right.type.length is not None:
        length = min(LONGEST[unicode], left.type.length + right.type.length)
    sql_type = SqlType("nvarchar" if unicode else "varchar", length)
    return _made(f"({left.sql} || {right.sql})", sql_type, left, right)


def _made(sql: str, sql_type: SqlType, left: Expr, right: Expr) -> Expr:
    return Expr(
        sql,
        sql_type,
        nullable=left.nullable or right.nullable,
        collation=left.collation or right.collation,
        constant=left.constant and right.constant,
    )


def _moved(sign: str, left: Expr, right: Expr) -> Expr:
    """datetime + 1 is a day later; no other type of a moment can do that."""
    if "datetime" not in (left.type.name, right.type.name):
        raise error(206, left.type.name, right.type.name)
    moment, days = (left, right) if left.type.name == "datetime" else (right, left)
    if family(days.type) not in ("int", "decimal", "float"):
        raise unknown(f"{left.type.name} {sign} {right.type.name}")
    step = f"to_microseconds(CAST({days.sql} * 86400000000 AS BIGINT))"
    return _made(f"_ticks({moment.sql} {sign} {step})", DATETIME, left, right)


def _integers(sign: str, left: Expr, right: Expr, target: SqlType) -> Expr:
    if family(target) == "bit":
        target = SqlType("int") if sign not in "&|^" else target
        if sign in "&|^":
            word = {"&": "AND", "|": "OR", "^": "<>"}[sign]
            return _made(f"({left.sql} {word} {right.sql})", target, left, right)
    one, two = cast_to(left, target), cast_to(right, target)
    overflow = raised(8115, "'expression'", f"'{target.name}'")
    if sign in "/%":
        operator = "//" if sign == "/" else "%"
        sql = f"(CASE WHEN {two} = 0 THEN {raised(8134)} ELSE {one} {operator} {two} END)"
        return _made(sql, target, left, right)
    if sign in "&|^":
        sql = f"xor({one}, {two})" if sign == "^" else f"({one} {sign} {two})"
        return _made(sql, target, left, right)
    wide = f"({one}::HUGEINT {sign} {two}::HUGEINT)"
    if target.name == "bigint" and sign == "*":
        return _made(f"({one} * {two})", target, left, right)
    made = f"TRY_CAST({wide} AS {storage(target)})"
    if left.nullable or right.nullable:
        sql = f"(CASE WHEN {wide} IS NULL THEN NULL ELSE coalesce({made}, {overflow}) END)"
    else:
        sql = f"coalesce({made}, {overflow})"
    return _made(sql, target, left, right)


def _decimals(sign: str, left: Expr, right: Expr, target: SqlType) -> Expr:
    one, two = as_decimal(left.type), as_decimal(right.type)
    result = _money(target) or decimal_result(sign, one, two)
    first, second = cast_to(left, one), cast_to(right, two)
    overflow = raised(8115, "'expression'", "'numeric'")
    if sign in "/%":
        divided = f"{first} % {second}"
        if sign == "/":
            divided = f"CAST({first} AS DOUBLE) / CAST({second} AS DOUBLE)"
        sql = (
            f"(CASE WHEN {second} = 0 THEN {raised(8134)}"
            f" ELSE CAST({divided} AS {storage(result)}) END)"
        )
        return _made(sql, result, left, right)
    if precision(one) + precision(two) > MAX_DIGITS - 1:
        wide = f"(CAST({first} AS DOUBLE) {sign} CAST({second} AS DOUBLE))"
        if sign != "*":
            wide = (
                f"(CAST({first} AS {storage(result)}) {sign} CAST({second} AS {storage(result)}))"
            )
    else:
        wide = f"({first} {sign} {second})"
    made = f"coalesce(TRY_CAST({wide} AS {storage(result)}), {overflow})"
    sql = f"(CASE WHEN {wide} IS NULL THEN NULL ELSE {made} END)"
    return _made(sql, result, left, right)


def _money(target: SqlType) -> SqlType | None:
    return target if target.name in ("money", "smallmoney") else None


def decimal_result(sign: str, one: SqlType, two: SqlType) -> SqlType:
    """Precision and scale, as the documentation of SQL Server has them."""
    p1, s1, p2, s2 = precision(one), scale(one), precision(two), scale(two)
    whole = max(p1 - s1, p2 - s2)
    digits, fraction = {
        "+": (whole + max(s1, s2) + 1, max(s1, s2)),
        "-": (whole + max(s1, s2) + 1, max(s1, s2)),
        "*": (p1 + p2 + 1, s1 + s2),
        "/": (p1 - s1 + s2 + max(6, s1 + p2 + 1), max(6, s1 + p2 + 1)),
        "%": (min(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2)),
    }[sign]
    if digits > MAX_DIGITS and sign in "+-":
        fraction, digits = min(fraction, MAX_DIGITS - whole), MAX_DIGITS
    elif digits > MAX_DIGITS:
        fraction = max(min(fraction, 6), fraction - (digits - MAX_DIGITS))
        digits = MAX_DIGITS
    return SqlType("numeric", precision=max(1, digits), scale=fraction)


def _floats(sign: str, left: Expr, right: Expr, target: SqlType) -> Expr:
    one, two = cast_to(left, target), cast_to(right, target)
    if sign == "/":
        sql = f"(CASE WHEN {two} = 0 THEN {raised(8134)} ELSE {one} / {two} END)"
        return _made(sql, target, left, right)
    if sign not in "+-*":
        raise error(8117, target.name, NAMES.get(sign, "'" + sign + "'"))
    return _made(f"({one} {sign} {two})", target, left, right)


NUMBERS = {"int": _integers, "bit": _integers, "decimal": _decimals, "float": _floats}
