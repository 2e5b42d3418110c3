"""SELECT as a statement: rows, assignments to variables, SELECT … INTO."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import duckdb
from sqlglot import exp

from standins.tds.engine.ddl.create_drop import Definitions
from standins.tds.engine.dml.stages import Stages, insert_stage
from standins.tds.engine.dml.writing import Writer
from standins.tds.engine.errors import error
from standins.tds.engine.expressions.compiler import Expressions
from standins.tds.engine.expressions.convert import ASSIGN, TRUNCATE, Goal, converted
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope, Source
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.compiler import Queries, Query
from standins.tds.engine.queries.reading import Reader, again, execute
from standins.tds.engine.queries.results import Result, column_of
from standins.tds.engine.queries.sources import parts_of
from standins.tds.engine.storage.catalog import ColumnDef, Identity
from standins.tds.engine.storage.store import translated
from standins.tds.engine.types import SIZED
from standins.tds.values import Answer, Batches, Count

ASSIGNED = re.compile(r"^\s*SELECT\s+(?:TOP\s*\(?\s*\d+\s*\)?\s+)?@\w+\s*[-+*/%]?=",
                      re.IGNORECASE | re.DOTALL)  # fmt: skip
ENDS = ("FROM", "WHERE", "ORDER", "GROUP", "HAVING", "UNION", "OPTION")


def is_assignment(text: str) -> bool:
    return bool(ASSIGNED.match(text))


def select(session: Any, text: str) -> Iterator[Answer]:
    if is_assignment(text):
        yield from assign(session, text)
        return
    node = parse(text)
    if node.args.get("into") is not None:
        yield into(session, node)
        return
    result = again(lambda: _started(session, node))
    if isinstance(result, Batches):
        yield result
        return
    try:
        yield result.answer()
    finally:
        result.close()
    session.state.rowcount = result.rows


def _started(session: Any, node: exp.Expr) -> Result | Batches:
    with session.statement() as transaction:
        compiler = session.compiler()
        query = compiler.query(node, top=True)
        if session.settings.fmtonly:
            return Batches(tuple(column_of(each) for each in query.columns), [])
        reader = Reader(session, transaction, compiler)
        return Result(reader.started(query.sql), query.columns, reader.watched)


def into(session: Any, node: exp.Expr) -> Count:
    """A new table with the columns of the query, and its rows."""
    target = node.args["into"].this
    node.set("into", None)
    with session.statement() as transaction:
        compiler = session.compiler()
        query = compiler.query(node, top=True)
        definitions = Definitions(session, transaction)
        table = definitions.new_table(parts_of(target))
        columns = []
        for place, each in enumerate(query.columns, 1):
            if not each.name:
                raise error(8155, place, table.name)
            identity = Identity(1, 1) if each.identity else None
            columns.append(
                ColumnDef(each.name, each.type, each.nullable, place, f"c{place}", each.collation,
                          identity=identity)
            )  # fmt: skip
        table = replace(table, columns=tuple(columns), next_column=len(columns) + 1)
        definitions.stored(table)
        change = insert_stage(Stages(compiler, table), table.columns, query, None, True)
        result = Writer(session, transaction, compiler).apply(change)
    session.state.rowcount = result.rows
    return Count(result.rows)


@dataclass(frozen=True)
class Assignment:
    variable: str
    sign: str
    text: str


def _assignments(text: str) -> tuple[list[Assignment], str, str]:
    """What is assigned, the words before the list, and what follows it."""
    tokens = Tokens(text)
    tokens.need("SELECT")
    head = "SELECT "
    if tokens.take("TOP"):
        count = tokens.inside().rest() if tokens.peek() == "(" else tokens.next().text
        head += f"TOP ({count}) "
    items = tokens.until(*ENDS)
    found = []
    for part in Tokens(items).parted():
        inner = Tokens(part)
        variable = inner.next()
        sign = inner.next().text
        if variable.kind != "variable" or not sign.endswith("="):
            raise error(102, "=")
        found.append(Assignment(variable.text, sign, inner.rest()))
    return found, head, tokens.rest()


def assign(session: Any, text: str) -> Iterator[Answer]:
    found, head, rest = _assignments(text)
    listed = ", ".join(f"({_compound(each)}) AS [a{place}]" for place, each in enumerate(found))
    node = parse(f"{head}{listed} {rest}")
    names = {each.variable.lower() for each in found}
    used = {f"@{each.name.lower()}" for each in node.find_all(exp.Parameter)}
    if names & used and rest:
        yield Count(_row_by_row(session, found, node))
        return
    rows = again(lambda: _fetched(session, node, found))
    for row in rows[-1:]:
        for each, value in zip(found, row, strict=True):
            session.variables[each.variable.lower()].value = value
    session.state.rowcount = len(rows)
    yield Count(len(rows))


def _compound(each: Assignment) -> str:
    return each.text if each.sign == "=" else f"{each.variable} {each.sign[0]} ({each.text})"


def _fetched(session: Any, node: exp.Expr, found: list[Assignment]) -> list[Any]:
    with session.statement() as transaction:
        compiler = session.compiler()
        query = compiler.query(node, top=True)
        outer = ", ".join(
            into_variable(session, each.variable, expr)
            for each, expr in zip(found, query.over("v"), strict=True)
        )
        sql = f"SELECT {outer} FROM ({query.sql}) AS v"
        return fetched(session, transaction, compiler, sql)


def fetched(session: Any, transaction: Any, compiler: Queries, sql: str) -> list[Any]:
    cursor = Reader(session, transaction, compiler).started(sql)
    try:
        found: list[Any] = cursor.fetchall()
    except duckdb.Error as failure:
        raise translated(failure, sql) from None
    finally:
        cursor.close()
    return found


def into_variable(session: Any, name: str, expr: Expr) -> str:
    """Converted to the variable's type; a string that is too long is cut."""
    sql_type, _ = session.variable(name)
    how = TRUNCATE if sql_type.name in SIZED else ASSIGN
    sql = converted(expr, Goal(sql_type, how))
    return f"({sql} AT TIME ZONE 'UTC')" if sql_type.name == "datetimeoffset" else sql


def _row_by_row(session: Any, found: list[Assignment], node: exp.Expr) -> int:
    """Each row's value is made from that of the row before: @s = @s + name."""
    columns = [each for each in node.find_all(exp.Column) if _is_listed(each, node)]
    plain = node.copy()
    plain.set("expressions", [each.copy() for each in columns] or [exp.Literal.number(1)])
    query, rows = again(lambda: _read(session, plain))
    for row in rows:
        for each, item in zip(found, node.expressions, strict=True):
            _assign_one(session, each, item, query, row)
    session.state.rowcount = len(rows)
    return len(rows)


def _read(session: Any, node: exp.Expr) -> tuple[Query, list[Any]]:
    with session.statement() as transaction:
        compiler = session.compiler()
        query = compiler.query(node, top=True)
        return query, fetched(session, transaction, compiler, query.sql)


def _is_listed(column: exp.Expr, node: exp.Expr) -> bool:
    return any(column is each for item in node.expressions for each in item.find_all(exp.Column))


def _assign_one(
    session: Any, assignment: Assignment, item: exp.Expr, query: Query, row: tuple[Any, ...]
) -> None:
    compiler: Expressions = session.compiler()
    values = tuple(
        replace(each, sql=compiler.bind(value, each.type))
        for each, value in zip(query.columns, row, strict=True)
    )
    scope = Scope([Source("", "", _once(values))])
    for column in item.find_all(exp.Column):
        column.set("table", None)
        column.set("db", None)
    made = compiler.value(item.this if isinstance(item, exp.Alias) else item, scope)
    with session.statement():
        cursor = session.core.store.cursor()
        try:
            sql = into_variable(session, assignment.variable, made)
            (found,) = execute(cursor, f"SELECT {sql}", compiler.parameters).fetchall()
        finally:
            cursor.close()
    session.variables[assignment.variable.lower()].value = found[0]


def _once(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """A column that is named twice is there once."""
    found: dict[str, Expr] = {}
    for each in values:
        found.setdefault(each.name.lower(), each)
    return tuple(found.values())
