"""Functions of strings, numbers and choice; those of time, of the system and aggregates beside."""

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from standins.tds.engine.errors import error
from standins.tds.engine.expressions.aggregates import AGGREGATES
from standins.tds.engine.expressions.compare import compared, equal_key
from standins.tds.engine.expressions.compiler import Expressions, chosen, common_type
from standins.tds.engine.expressions.convert import Goal, cast_to, converted
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.functions_time import TIME_FUNCTIONS
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.expressions.text_values import text_of
from standins.tds.engine.types import (
    BIGINT,
    FLOAT,
    GUID,
    INT,
    family,
    is_unicode,
    max_length,
    storage,
)
from standins.tds.values import SqlType

Function = Callable[[Expressions, list[exp.Expr], Scope], Expr]
MAX_TEXT = SqlType("nvarchar")


def values(compiler: Expressions, nodes: list[exp.Expr], scope: Scope, *counts: int) -> list[Expr]:
    if counts and len(nodes) not in counts:
        raise error(102, ")")
    return [compiler.value(each, scope) for each in nodes]


def as_text(expr: Expr) -> Expr:
    if family(expr.type) == "string":
        return expr
    length = {"int": 20, "bit": 1, "guid": 36}.get(family(expr.type), 50)
    return replace(expr, sql=text_of(expr), type=SqlType("varchar", length))


def _isnull(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    first, second = values(compiler, nodes, scope, 2)
    target = second.type if first.null else first.type
    sql = f"coalesce({cast_to(first, target)}, {converted(second, Goal(target))})"
    return Expr(sql, target, second.nullable, collation=first.collation,
                constant=first.constant and second.constant)  # fmt: skip


def _coalesce(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = values(compiler, nodes, scope)
    target = common_type(given)
    sql = f"coalesce({', '.join(cast_to(each, target) for each in given)})"
    return Expr(
        sql, target, all(each.nullable for each in given),
        collation=next((each.collation for each in given if each.collation), ""),
        constant=all(each.constant for each in given),
    )  # fmt: skip


def _nullif(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    first, second = values(compiler, nodes, scope, 2)
    sql = f"(CASE WHEN {compared('=', first, second)} THEN NULL ELSE {first.sql} END)"
    return Expr(sql, first.type, collation=first.collation)


def _iif(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    condition = compiler.predicate(nodes[0], scope)
    first, second = values(compiler, nodes[1:], scope, 2)
    return chosen([condition], [first], second)


def _len(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    (given,) = values(compiler, nodes, scope, 1)
    text = as_text(given)
    if family(given.type) == "binary":
        return replace(given, sql=f"CAST(octet_length({given.sql}) AS INTEGER)", type=INT)
    sql = f"CAST(_len16(rtrim({text.sql}, ' ')) AS INTEGER)"
    return Expr(sql, INT, given.nullable, constant=given.constant)


def _datalength(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    (given,) = values(compiler, nodes, scope, 1)
    if family(given.type) == "string":
        sql = f"_len16({given.sql}) * 2" if is_unicode(given.type) else f"_len16({given.sql})"
    elif family(given.type) == "binary":
        sql = f"octet_length({given.sql})"
    else:
        sql = f"(CASE WHEN {given.sql} IS NULL THEN NULL ELSE {max_length(given.type)} END)"
    return Expr(f"CAST({sql} AS INTEGER)", INT, given.nullable, constant=given.constant)


def _concat(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = [as_text(each) for each in values(compiler, nodes, scope)]
    unicode = any(is_unicode(each.type) for each in given)
    sql = " || ".join(f"coalesce({each.sql}, '')" for each in given)
    lengths = [each.type.length for each in given]
    known = [each for each in lengths if each is not None]
    length = min(4000, sum(known)) if len(known) == len(lengths) else None
    return Expr(f"({sql})", SqlType("nvarchar" if unicode else "varchar", length), False,
                constant=all(each.constant for each in given))  # fmt: skip


def _concat_ws(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = [as_text(each) for each in values(compiler, nodes, scope)]
    return Expr(f"concat_ws({', '.join(each.sql for each in given)})", MAX_TEXT, False)


def _same_text(template: str, *counts: int) -> Function:
    """A function of a string and numbers that gives a string of the same kind."""

    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given = values(compiler, nodes, scope, *counts)
        first = as_text(given[0])
        sql = template.format(first.sql, *(each.sql for each in given[1:]))
        return Expr(sql, first.type, collation=first.collation,
                    constant=all(each.constant for each in given))  # fmt: skip

    return made


def _any_text(template: str, *counts: int) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given = [as_text(each) if place == 0 else each
                 for place, each in enumerate(values(compiler, nodes, scope, *counts))]  # fmt: skip
        sql = template.format(*(each.sql for each in given))
        kept = "nvarchar" if any(is_unicode(each.type) for each in given) else "varchar"
        return Expr(sql, SqlType(kept, 4000 if kept == "nvarchar" else 8000),
                    constant=all(each.constant for each in given))  # fmt: skip

    return made


def _charindex(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = values(compiler, nodes, scope, 2, 3)
    what, where = as_text(given[0]), as_text(given[1])
    collation = what.collation or where.collation
    fold = "{}" if "BIN" in collation.upper() else "lower({})"
    if len(given) == 3:
        start = f"greatest({given[2].sql}, 1)"
        found = f"instr({fold.format(f'substr({where.sql}, {start})')}, {fold.format(what.sql)})"
        sql = f"(CASE WHEN {found} = 0 THEN 0 ELSE {found} + {start} - 1 END)"
    else:
        sql = f"instr({fold.format(where.sql)}, {fold.format(what.sql)})"
    return Expr(f"CAST({sql} AS INTEGER)", INT)


def _replace(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = [as_text(each) for each in values(compiler, nodes, scope, 3)]
    sql = f"replace({', '.join(each.sql for each in given)})"
    return Expr(sql, SqlType(given[0].type.name, 4000), constant=all(e.constant for e in given))


def _quotename(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = values(compiler, nodes, scope, 1, 2)
    mark = str(compiler.evaluate(given[1])) if len(given) == 2 else "["
    left, right = {"'": ("'", "'"), '"': ('"', '"')}.get(mark, ("[", "]"))
    text = as_text(given[0]).sql
    quote, end = left.replace("'", "''"), right.replace("'", "''")
    sql = (
        f"(CASE WHEN length({text}) > 128 THEN NULL ELSE"
        f" '{quote}' || replace({text}, '{end}', '{end}{end}') || '{end}' END)"
    )
    return Expr(sql, SqlType("nvarchar", 258), constant=given[0].constant)


def _number(template: str, *counts: int, type_: SqlType | None = None) -> Function:
    def made(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
        given = values(compiler, nodes, scope, *counts)
        sql_type = type_ or given[0].type
        sql = template.format(*(each.sql for each in given))
        return Expr(f"CAST({sql} AS {storage(sql_type)})", sql_type,
                    constant=all(each.constant for each in given))  # fmt: skip

    return made


def _newid(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    return Expr("gen_random_uuid()", GUID, False)


def _choose(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = values(compiler, nodes, scope)
    conditions = [f"{given[0].sql} = {place}" for place in range(1, len(given))]
    return chosen(conditions, given[1:], NULL)


def _isnumeric(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    (given,) = values(compiler, nodes, scope, 1)
    sql = f"(CASE WHEN TRY_CAST({as_text(given).sql} AS DOUBLE) IS NULL THEN 0 ELSE 1 END)"
    return Expr(f"CAST({sql} AS INTEGER)", INT, False)


def _same_string(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    given = values(compiler, nodes, scope)
    parts = " || '|' || ".join(f"coalesce({equal_key(as_text(e).sql, '')}, chr(1))" for e in given)
    return Expr(f"CAST(hash({parts}) % 2147483647 AS INTEGER)", INT, False)


FUNCTIONS: dict[str, Function] = {
    "ISNULL": _isnull,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "IIF": _iif,  # codespell:ignore
    "CHOOSE": _choose,
    "LEN": _len,
    "DATALENGTH": _datalength,
    "CONCAT": _concat,
    "CONCAT_WS": _concat_ws,
    "SUBSTRING": _same_text("substr({}, {}, {})", 3),
    "LEFT": _same_text("left({}, {})", 2),
    "RIGHT": _same_text("right({}, {})", 2),
    "UPPER": _same_text("upper({})", 1),
    "LOWER": _same_text("lower({})", 1),
    "LTRIM": _same_text("ltrim({}, ' ')", 1),
    "RTRIM": _same_text("rtrim({}, ' ')", 1),
    "TRIM": _same_text("trim({}, ' ')", 1),
    "REVERSE": _same_text("reverse({})", 1),
    "REPLICATE": _any_text("repeat({}, {})", 2),
    "SPACE": _any_text("repeat(' ', CAST({} AS INTEGER))", 1),
    "STR": _any_text("lpad({}, 10, ' ')", 1),
    "CHAR": _any_text("chr(CAST({} AS INTEGER))", 1),
    "NCHAR": _any_text("chr(CAST({} AS INTEGER))", 1),
    "CHARINDEX": _charindex,
    "REPLACE": _replace,
    "QUOTENAME": _quotename,
    "ABS": _number("abs({})", 1),
    "SIGN": _number("sign({})", 1),
    "FLOOR": _number("floor({})", 1),
    "CEILING": _number("ceil({})", 1),
    "ROUND": _number("round({}, {})", 2),
    "POWER": _number("power({}, {})", 2),
    "SQRT": _number("sqrt({})", 1, type_=FLOAT),
    "EXP": _number("exp({})", 1, type_=FLOAT),
    "LOG": _number("ln({})", 1, type_=FLOAT),
    "ASCII": _number("ascii({})", 1, type_=INT),
    "UNICODE": _number("unicode({})", 1, type_=INT),
    "NEWID": _newid,
    "ISNUMERIC": _isnumeric,
    "CHECKSUM": _same_string,
    "RAND": lambda compiler, nodes, scope: Expr("random()", FLOAT, False),
    "ROWCOUNT_BIG": lambda compiler, nodes, scope: replace(
        compiler.around.system_variable("ROWCOUNT"), type=BIGINT
    ),
    **TIME_FUNCTIONS,
    **AGGREGATES,
}
