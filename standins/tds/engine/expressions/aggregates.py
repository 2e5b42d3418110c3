"""Aggregates, and the functions of windows."""

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.compare import group_key, sort_key
from standins.tds.engine.expressions.compiler import RULES, Expressions
from standins.tds.engine.expressions.convert import Goal, cast_to, converted
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.types import BIGINT, FLOAT, INT, family, scale, storage
from standins.tds.values import SqlType

Function = Callable[[Expressions, list[exp.Expr], Scope], Expr]
OVER = "\x02"  # where OVER (…) goes


def _argument(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> tuple[Expr, str]:
    if len(nodes) != 1:
        raise error(102, ",")
    node, distinct = nodes[0], ""
    if isinstance(node, exp.Distinct):
        node, distinct = node.expressions[0], "DISTINCT "
    return compiler.value(node, replace(scope, aggregating=True)), distinct


def _count(sql_type: SqlType) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        if nodes and isinstance(nodes[0], exp.Star):
            return Expr(f"CAST(count(*){OVER} AS {storage(sql_type)})", sql_type, False)
        given, distinct = _argument(compiler, nodes, scope)
        sql = group_key(given) if distinct else given.sql
        return Expr(f"CAST(count({distinct}{sql}){OVER} AS {storage(sql_type)})", sql_type, False)

    return made


def _sum(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given, distinct = _argument(compiler, nodes, scope)
    sql_type = _summed(given.type, "sum")
    raw = f"sum({distinct}{given.sql}){OVER}"
    if family(sql_type) == "float":
        return Expr(raw, sql_type)
    wide = Expr(raw, SqlType("decimal", precision=38, scale=scale(given.type)))
    return Expr(converted(wide, Goal(sql_type)), sql_type)


def _summed(given: SqlType, operator: str) -> SqlType:
    kind = family(given)
    if kind == "int":
        return BIGINT if given.name == "bigint" else INT
    if kind == "float":
        return FLOAT
    if given.name in ("money", "smallmoney"):
        return SqlType("money")
    if kind == "decimal":
        return SqlType("decimal", precision=38, scale=scale(given))
    raise error(8117, given.name, operator)


def _avg(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given, distinct = _argument(compiler, nodes, scope)
    sql_type = _summed(given.type, "avg")
    if family(sql_type) == "int":
        total, count = f"sum({distinct}{given.sql}){OVER}", f"count({distinct}{given.sql}){OVER}"
        return Expr(f"CAST({total} // {count} AS {storage(sql_type)})", sql_type)
    if sql_type.name == "decimal":
        sql_type = replace(sql_type, scale=max(6, scale(given.type)))
    return Expr(f"CAST(avg({distinct}{given.sql}){OVER} AS {storage(sql_type)})", sql_type)


def _extreme(name: str) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given, _ = _argument(compiler, nodes, scope)
        if family(given.type) == "bit":
            raise error(8117, "bit", name)
        key = sort_key(given)
        sql = f"{name}({given.sql}){OVER}"
        if key != given.sql:
            sql = f"arg_{name}({given.sql}, {key}){OVER}"
        return Expr(sql, given.type, collation=given.collation)

    return made


def _deviation(name: str) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given, _ = _argument(compiler, nodes, scope)
        return Expr(f"{name}(CAST({given.sql} AS DOUBLE)){OVER}", FLOAT)

    return made


def _string_agg(compiler: Expressions, node: exp.GroupConcat, scope: Scope) -> Expr:
    inside = replace(scope, aggregating=True)
    what, order = node.this, ""
    if isinstance(what, exp.Order):
        keys = []
        for each in what.expressions:
            direction = "DESC NULLS LAST" if each.args.get("desc") else "ASC NULLS FIRST"
            keys.append(f"{sort_key(compiler.value(each.this, inside))} {direction}")
        order, what = f" ORDER BY {', '.join(keys)}", what.this
    given = compiler.value(what, inside)
    text = cast_to(given, SqlType("nvarchar"))
    separator = node.args.get("separator")
    sign = compiler.value(separator, inside).sql if separator is not None else "''"
    return Expr(f"string_agg({text}, {sign}{order})", SqlType("nvarchar"))


def _ranking(name: str) -> Function:
    return lambda compiler, nodes, scope: Expr(f"{name}(){OVER}", BIGINT, False)


def _ntile(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    return Expr(f"ntile({compiler.value(nodes[0], scope).sql}){OVER}", BIGINT, False)


def _neighbour(name: str) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given = [compiler.value(each, scope) for each in nodes]
        rest = "".join(
            f", {cast_to(e, given[0].type) if p else e.sql}" for p, e in enumerate(given[1:])
        )
        return Expr(f"{name}({given[0].sql}{rest}){OVER}", given[0].type)

    return made


def _window(compiler: Expressions, node: exp.Window, scope: Scope) -> Expr:
    made = compiler.expr(node.this, scope)
    parts = []
    partition = node.args.get("partition_by")
    if partition:
        keys = [group_key(compiler.value(each, scope)) for each in partition]
        parts.append(f"PARTITION BY {', '.join(keys)}")
    order = node.args.get("order")
    if order is not None:
        parts.append(
            "ORDER BY " + ", ".join(_direction(compiler, e, scope) for e in order.expressions)
        )
    spec = node.args.get("spec")
    if spec is not None:
        parts.append(spec.sql(dialect="duckdb"))
    return replace(made, sql=made.sql.replace(OVER, f" OVER ({' '.join(parts)})"))


def _direction(compiler: Expressions, node: exp.Expr, scope: Scope) -> str:
    if isinstance(node.this, exp.Subquery):  # ORDER BY (SELECT NULL): any order
        return NULL.sql
    key = sort_key(compiler.value(node.this, scope))
    return f"{key} {'DESC NULLS LAST' if node.args.get('desc') else 'ASC NULLS FIRST'}"


def _plain(function: Function) -> Function:
    """Outside of a window nothing stands after the call."""

    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        if scope.aggregating:
            raise unknown("an aggregate inside of an aggregate")
        return function(compiler, nodes, scope)

    return made


AGGREGATES: dict[str, Function] = {
    "COUNT": _plain(_count(INT)),
    "COUNT_BIG": _plain(_count(BIGINT)),
    "SUM": _plain(_sum),
    "AVG": _plain(_avg),
    "MIN": _plain(_extreme("min")),
    "MAX": _plain(_extreme("max")),
    "STDEV": _plain(_deviation("stddev_samp")),
    "VAR": _plain(_deviation("var_samp")),
    "ROW_NUMBER": _ranking("row_number"),
    "RANK": _ranking("rank"),
    "DENSE_RANK": _ranking("dense_rank"),
    "NTILE": _ntile,
    "LAG": _neighbour("lag"),
    "LEAD": _neighbour("lead"),
}
RULES[exp.Window] = _window
RULES[exp.GroupConcat] = _string_agg
