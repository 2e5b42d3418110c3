"""Expressions and predicates of T-SQL, compiled into DuckDB's SQL."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from standins.tds.engine.errors import error, quoted, unknown
from standins.tds.engine.expressions import arithmetic
from standins.tds.engine.expressions.compare import compared
from standins.tds.engine.expressions.convert import TRY, Goal, cast_to, converted
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.predicates import PREDICATES
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.parse.dialect import type_of
from standins.tds.engine.types import BOOLEAN, FLOAT, family, storage, unified
from standins.tds.values import SqlType

LONGEST_INLINE = 100
LONGEST = {True: 4000, False: 8000}
INT_MAX = 2**31 - 1


class Surroundings(Protocol):
    """What a session tells the compiler."""

    def variable(self, name: str) -> tuple[SqlType, Any]:
        """Raises 137."""
        ...

    def system_variable(self, name: str) -> Expr: ...

    def evaluate(self, expr: Expr, parameters: dict[str, Any]) -> Any:
        """The value of a constant expression."""
        ...

    @property
    def undeclared(self) -> dict[str, SqlType | None] | None:
        """Where the types of parameters are asked for, what is known of them."""
        ...


class Expressions:
    """`parameters` and `arrows` are what DuckDB has to be given with the text."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.parameters: dict[str, Any] = {}
        self.arrows: dict[str, pa.Table] = {}
        self._numbers = itertools.count()
        self.functions: dict[str, Callable[[Any, list[exp.Expr], Scope], Expr]] = {}

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def evaluate(self, expr: Expr) -> Any:
        return self.around.evaluate(expr, self.parameters)

    def expr(self, node: exp.Expr, scope: Scope) -> Expr:
        """A value; what is grouped by is replaced by what stands for its group."""
        rule = RULES.get(type(node))
        if rule is None:
            raise unknown(f"{type(node).__name__} in {node.sql(dialect='tsql')[:200]}")
        made = rule(self, node, scope)
        stands = scope.groups.get(made.sql) if not scope.aggregating else None
        return replace(made, sql=stands) if stands is not None else made

    def value(self, node: exp.Expr, scope: Scope) -> Expr:
        made = self.expr(node, scope)
        if made.type == BOOLEAN:
            raise error(102, "=")
        return made

    def predicate(self, node: exp.Expr, scope: Scope) -> str:
        made = self.expr(node, scope)
        if made.type != BOOLEAN:
            raise error(102, node.sql(dialect="tsql")[:40])
        return made.sql

    def string(self, text: str, unicode: bool) -> Expr:
        length: int | None = max(1, len(text.encode("utf-16-le")) // 2)
        if length is not None and length > LONGEST[unicode]:
            length = None
        sql_type = SqlType("nvarchar" if unicode else "varchar", length)
        sql = (
            quoted(text)
            if len(text) <= LONGEST_INLINE and "\0" not in text
            else self.bind(text, sql_type)
        )
        if not unicode and not text.isascii():
            sql = f"_latin({sql})"
        return Expr(sql, sql_type, nullable=False, constant=True, literal=text)

    def bind(self, value: Any, sql_type: SqlType) -> str:
        name = self.fresh("p")
        self.parameters[name] = value
        if family(sql_type) == "offset" and value is not None:
            return f"CAST(${name} AS TIMESTAMPTZ)"
        return f"CAST(${name} AS {storage(sql_type)})"

    def infer(self, one: Expr, two: Expr) -> tuple[Expr, Expr]:
        """The parameter whose type nobody said has that of what it is compared with."""
        known = self.around.undeclared
        if known is not None:
            if one.untyped and not two.untyped:
                known[one.untyped] = two.type
            if two.untyped and not one.untyped:
                known[two.untyped] = one.type
        if one.untyped and not two.untyped:
            one = replace(one, type=two.type)
        elif two.untyped and not one.untyped:
            two = replace(two, type=one.type)
        return one, two


def _literal(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    text = node.name
    if node.is_string:
        return compiler.string(text, unicode=False)
    if "e" in text.lower():
        return Expr(f"{text}::DOUBLE", FLOAT, nullable=False, constant=True)
    if "." in text:
        whole, _, fraction = text.partition(".")
        whole = whole.lstrip("0")
        digits = max(1, len(whole) + len(fraction))
        if digits > 38:
            raise error(8115, "expression", "numeric")
        sql_type = SqlType("numeric", precision=digits, scale=len(fraction))
        return Expr(f"{text}::{storage(sql_type)}", sql_type, nullable=False, constant=True)
    return whole_number(int(text))


def whole_number(number: int) -> Expr:
    if abs(number) <= INT_MAX:
        return Expr(f"{number}::INTEGER", SqlType("int"), nullable=False, constant=True)
    sql_type = SqlType("numeric", precision=len(str(abs(number))), scale=0)
    if (sql_type.precision or 0) > 38:
        raise error(8115, "expression", "numeric")
    return Expr(f"{number}::{storage(sql_type)}", sql_type, nullable=False, constant=True)


def _national(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    return compiler.string(node.name, unicode=True)


def _hex(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    digits = node.name
    return binary_literal(digits if len(digits) % 2 == 0 else f"0{digits}")


def binary_literal(digits: str) -> Expr:
    length = len(digits) // 2
    sql_type = SqlType("varbinary", max(1, length) if length <= 8000 else None)
    return Expr(f"unhex('{digits}')", sql_type, nullable=False, constant=True)


def _null(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    return NULL


def _column(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    if isinstance(node.this, exp.Star):
        raise error(102, "*")
    parts = column_parts(node)
    if len(parts) == 1:
        if parts[0].lower() == "0x":
            return binary_literal("")
        plain = compiler.functions.get(parts[0].upper())
        if plain is not None and parts[0].upper() in WITHOUT_PARENTHESES:
            return plain(compiler, [], scope)
    return scope.column(parts)


def column_parts(node: exp.Expr) -> tuple[str, ...]:
    """The name with what it belongs to; a temporary table has its sign there."""
    signs = {"temporary": "#", "global_": "##"}
    return tuple(
        next((sign for key, sign in signs.items() if part.args.get(key)), "") + part.name
        for part in node.parts  # type: ignore[attr-defined]
    )


WITHOUT_PARENTHESES = {
    "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER", "CURRENT_DATE",
}  # fmt: skip


def _parameter(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    if isinstance(node.this, exp.Parameter):
        return compiler.around.system_variable(node.this.name.upper())
    name = f"@{node.name}"
    known = compiler.around.undeclared
    if known is not None and name.lower() in known:
        return Expr("NULL", SqlType("nvarchar", 4000), untyped=name.lower(), constant=True)
    sql_type, value = compiler.around.variable(name)
    literal = value if isinstance(value, str) else None
    sql = compiler.bind(value, sql_type)
    return Expr(sql, sql_type, value is None, constant=True, literal=literal)


def _paren(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    inner = compiler.expr(node.this, scope)
    return replace(inner, sql=f"({inner.sql})") if not inner.sql.startswith("(") else inner


def _arithmetic(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    left = compiler.value(node.this, scope)
    right = compiler.value(node.expression, scope)
    left, right = compiler.infer(left, right)
    return arithmetic.combined(arithmetic.SIGNS[type(node)], left, right)


def _negative(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    if isinstance(node.this, exp.Literal) and node.this.is_int:
        return whole_number(-int(node.this.name))
    inner = compiler.value(node.this, scope)
    return replace(inner, sql=f"(-{inner.sql})", literal=None)


def _inverted(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    inner = compiler.value(node.this, scope)
    if family(inner.type) == "bit":
        return replace(inner, sql=f"(NOT {inner.sql})")
    return replace(inner, sql=f"(~{inner.sql})")


def _collate(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    return replace(compiler.value(node.this, scope), collation=node.expression.name)


def _cast(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    return _conversion(compiler, node.this, type_of(node.args["to"]), scope, how=_how(node))


def _convert(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    style = node.args.get("style")
    number = int(compiler.evaluate(compiler.value(style, scope))) if style else None
    target = type_of(node.this)
    return _conversion(compiler, node.expression, target, scope, _how(node), number)


def _how(node: exp.Expr) -> str:
    return TRY if isinstance(node, exp.TryCast) or node.args.get("safe") else "truncate"


def _conversion(
    compiler: Expressions, node: exp.Expr, target: SqlType, scope: Scope, how: str,
    style: int | None = None,
) -> Expr:  # fmt: skip
    value = compiler.value(node, scope)
    if value.untyped and compiler.around.undeclared is not None:
        compiler.around.undeclared[value.untyped] = target
    sql = converted(value, Goal(target, how, style=style))
    nullable = value.nullable or how == TRY
    return Expr(sql, target, nullable, collation=value.collation, constant=value.constant)


def _case(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    results = [compiler.value(each.args["true"], scope) for each in node.args["ifs"]]
    conditions = [_condition(compiler, node, each, scope) for each in node.args["ifs"]]
    default = node.args.get("default")
    last = compiler.value(default, scope) if default is not None else NULL
    return chosen(conditions, results, last)


def _condition(compiler: Expressions, node: exp.Expr, branch: exp.Expr, scope: Scope) -> str:
    if node.this is None:
        return compiler.predicate(branch.this, scope)
    left, right = compiler.value(node.this, scope), compiler.value(branch.this, scope)
    return compared("=", left, right)


def chosen(conditions: list[str], results: list[Expr], last: Expr) -> Expr:
    """CASE with a type that takes all results."""
    sql_type = common_type([*results, last])
    branches = " ".join(
        f"WHEN {condition} THEN {cast_to(result, sql_type)}"
        for condition, result in zip(conditions, results, strict=True)
    )
    sql = f"(CASE {branches} ELSE {cast_to(last, sql_type)} END)"
    nullable = any(each.nullable for each in (*results, last))
    return Expr(sql, sql_type, nullable, collation=next((e.collation for e in results), ""))


def common_type(exprs: list[Expr]) -> SqlType:
    known = [each.type for each in exprs if not each.null and not each.untyped]
    if not known:
        return exprs[0].type
    found = known[0]
    for each in known[1:]:
        found = unified(found, each)
    return found


def _function(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    name = node.name.upper()
    made = compiler.functions.get(name)
    if made is None:
        raise unknown(f"the function {name}")
    return made(compiler, list(node.expressions), scope)


def _dotted_function(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    if isinstance(node.expression, exp.Anonymous) and node.this.name.lower() == "sys":
        return compiler.expr(node.expression, scope)
    raise error(4121, node.this.name, node.sql(dialect="tsql").split("(")[0])


def _at_time_zone(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    value = compiler.value(node.this, scope)
    if str(node.args["zone"].name).upper() != "UTC":
        raise unknown("a time zone other than UTC")
    target = SqlType(
        "datetimeoffset", scale=value.type.scale if value.type.scale is not None else 7
    )
    return Expr(cast_to(value, target), target, value.nullable)


def _scalar_query(compiler: Expressions, node: exp.Expr, scope: Scope) -> Expr:
    made: Expr = compiler.scalar_query(node, scope)  # type: ignore[attr-defined]
    return made


Rule = Callable[[Expressions, Any, Scope], Expr]
RULES: dict[type[exp.Expr], Rule] = {
    exp.Literal: _literal,
    exp.National: _national,
    exp.HexString: _hex,
    exp.Null: _null,
    exp.Column: _column,
    exp.Parameter: _parameter,
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.BitwiseNot: _inverted,
    exp.Collate: _collate,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Convert: _convert,
    exp.Case: _case,
    exp.Anonymous: _function,
    exp.Dot: _dotted_function,
    exp.AtTimeZone: _at_time_zone,
    exp.Subquery: _scalar_query,
    **PREDICATES,
    **dict.fromkeys(arithmetic.SIGNS, _arithmetic),
}
