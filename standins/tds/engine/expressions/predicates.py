"""Predicates of T-SQL: comparisons, logic, IN, LIKE, EXISTS."""

from typing import TYPE_CHECKING

from sqlglot import exp

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.compare import compared, pattern_matched
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.types import BOOLEAN

if TYPE_CHECKING:
    from standins.tds.engine.expressions.compiler import Expressions, Rule

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip


def boolean(sql: str) -> Expr:
    return Expr(sql, BOOLEAN)


def _comparison(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    left = compiler.value(node.this, scope)
    right = compiler.value(node.expression, scope)
    left, right = compiler.infer(left, right)
    return boolean(compared(COMPARISONS[type(node)], left, right))


def _logical(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    word = "AND" if isinstance(node, exp.And) else "OR"
    parts = [compiler.predicate(each, scope) for each in node.flatten()]
    return boolean("(" + f" {word} ".join(parts) + ")")


def _not(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    return boolean(f"(NOT {compiler.predicate(node.this, scope)})")


def _is(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    if not isinstance(node.expression, exp.Null):
        raise error(102, "IS")
    return boolean(f"({compiler.value(node.this, scope).sql} IS NULL)")


def _between(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    value = compiler.value(node.this, scope)
    low = compiler.infer(value, compiler.value(node.args["low"], scope))
    high = compiler.infer(value, compiler.value(node.args["high"], scope))
    return boolean(f"({compared('>=', *low)} AND {compared('<=', *high)})")


def _in(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    value = compiler.value(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        return boolean(compiler.in_query(value, query, scope))  # type: ignore[attr-defined]
    tests = []
    for each in node.expressions:
        one, two = compiler.infer(value, compiler.value(each, scope))
        tests.append(compared("=", one, two))
    return boolean("(" + " OR ".join(tests) + ")")


def _like(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    return _matched(compiler, node, scope, "")


def _escape(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    if not isinstance(node.this, exp.Like):
        raise unknown(node.sql(dialect="tsql"))
    return _matched(compiler, node.this, scope, node.expression.name)


def _matched(compiler: "Expressions", node: exp.Expr, scope: Scope, escape: str) -> Expr:
    value = compiler.value(node.this, scope)
    pattern = compiler.value(node.expression, scope)
    text = pattern.literal
    if text is None and pattern.constant:
        text = compiler.evaluate(pattern)
        if text is None:
            return boolean("NULL::BOOLEAN")
    if text is None:
        raise unknown("LIKE with a pattern that is not constant")
    sql = pattern_matched(value, str(text), escape)
    return boolean(f"(NOT {sql})" if node.args.get("negate") else sql)


def _exists(compiler: "Expressions", node: exp.Expr, scope: Scope) -> Expr:
    return boolean(compiler.exists(node.this, scope))  # type: ignore[attr-defined]


PREDICATES: "dict[type[exp.Expr], Rule]" = {
    exp.And: _logical,
    exp.Or: _logical,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Exists: _exists,
    **dict.fromkeys(COMPARISONS, _comparison),
}
