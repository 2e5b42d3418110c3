"""INSERT, UPDATE, DELETE and MERGE run: parsed, staged, applied, answered."""

from typing import Any

import pyarrow as pa

from standins.tds.engine.dml.literals import literal_query
from standins.tds.engine.dml.stages import Merging, Stages, Targeted, insert_stage
from standins.tds.engine.dml.values_list import values_query
from standins.tds.engine.dml.writing import Change, Result, Writer
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.parse.dml import (
    Insert,
    Output,
    parse_delete,
    parse_insert,
    parse_merge,
    parse_update,
)
from standins.tds.engine.parse.script import Leaf
from standins.tds.engine.queries.compiler import Queries, Query
from standins.tds.engine.queries.results import of_table
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.values import Answer, Count

Done = tuple[list[Answer], int]
MOST_ROWS = 1000


def prepared(session: Any, ctes: str) -> Queries:
    """A compiler that knows the common table expressions."""
    compiler: Queries = session.compiler()
    if ctes:
        node = parse(f"{ctes} SELECT 1 AS one")
        for each in node.args["with_"].expressions:
            compiler.ctes[each.alias.lower()] = compiler.renamed(compiler.query(each.this), each)
    return compiler


def plan_insert(session: Any, compiler: Queries, parsed: Insert) -> Change:
    if parsed.execute:
        raise unknown("INSERT … EXEC")
    table = session.find(parsed.target)
    if table.is_view:
        raise unknown("INSERT into a view")
    columns = target_columns(session, table, parsed.columns)
    query, columns = _source(compiler, table, columns, parsed)
    return insert_stage(
        Stages(compiler, table), columns, query, parsed.output,
        explicit_identity=any(each.identity for each in columns), hints=parsed.hints,
    )  # fmt: skip


def insert(session: Any, leaf: Leaf, ctes: str) -> Done:
    parsed = parse_insert(leaf.tokens())
    with session.statement() as transaction:
        compiler = prepared(session, ctes)
        change = plan_insert(session, compiler, parsed)
        result = Writer(session, transaction, compiler).apply(change)
        return _answered(session, change, result, parsed.output)


def target_columns(
    session: Any, table: Table, names: tuple[str, ...] | None
) -> tuple[ColumnDef, ...]:
    """Those that are given values; identity columns only where that was allowed."""
    explicit = session.gives_identity(table)
    if names is None:
        if explicit:
            raise error(8101, table.full_name)
        return tuple(each for each in table.columns if each.identity is None)
    found = []
    for name in names:
        column = table.column(name)
        if column is None:
            raise error(207, name)
        if column in found:
            raise error(264, name)
        if column.identity is not None and not explicit:
            raise error(544, table.name)
        found.append(column)
    if explicit and table.identity not in found:
        raise error(545, table.full_name)
    return tuple(found)


def _source(
    compiler: Queries, table: Table, columns: tuple[ColumnDef, ...], parsed: Insert
) -> tuple[Query, tuple[ColumnDef, ...]]:
    if parsed.values is not None:
        return _values(compiler, table, columns, parsed)
    if parsed.query:
        query = compiler.query(parse(parsed.query), top=True)
        _match(len(columns), len(query.columns), parsed, values=False, table=table)
        return query, columns
    return Query("SELECT 1 AS c0", ()), ()


def _match(columns: int, given: int, parsed: Insert, values: bool, table: Table) -> None:
    if columns == given:
        return
    if parsed.columns is None:
        if given == len(table.columns) and table.identity is not None:
            raise error(8101, table.full_name)
        raise error(213)
    more, fewer = (109, 110) if values else (120, 121)
    raise error(more if columns > given else fewer)


def _values(
    compiler: Queries, table: Table, columns: tuple[ColumnDef, ...], parsed: Insert
) -> tuple[Query, tuple[ColumnDef, ...]]:
    assert parsed.values is not None
    quick = literal_query(compiler, parsed.values)
    if quick is not None:
        count, query = quick
        if count > MOST_ROWS:
            raise error(10738)
        _match(len(columns), len(query.columns), parsed, values=True, table=table)
        return query, columns
    return values_query(
        compiler, table, columns, parsed.values,
        lambda given: _match(len(columns), given, parsed, True, table),
    ), columns  # fmt: skip


def _arrow_query(compiler: Queries, rows: pa.Table, exprs: tuple[Expr, ...]) -> Query:
    name = compiler.fresh("rows_")
    compiler.arrows[name] = rows
    listed = ", ".join(f"c{place}" for place in range(len(exprs)))
    return Query(f"SELECT {listed} FROM {name}", exprs)


def _answered(session: Any, change: Change, result: Result, output: Output | None) -> Done:
    if result.identity is not None:
        session.state.identity = session.state.scope_identity = result.identity
    if output is None or result.output is None:
        return [Count(result.rows)], result.rows
    if not output.into:
        return [of_table(result.output, change.outputs)], result.rows
    _output_into(session, change, result.output, output)
    return [Count(result.rows)], result.rows


def _output_into(session: Any, change: Change, rows: pa.Table, output: Output) -> None:
    compiler = session.compiler()
    table = session.find(output.into)
    columns = target_columns(session, table, output.into_columns or None)
    if len(columns) != len(change.outputs):
        raise error(213)
    query = _arrow_query(compiler, rows, change.outputs)
    inner = insert_stage(Stages(compiler, table), columns, query, None)
    Writer(session, session.here, compiler).apply(inner)


def update(session: Any, leaf: Leaf, ctes: str) -> Done:
    return _targeted(session, parse_update(leaf.tokens()), ctes)


def delete(session: Any, leaf: Leaf, ctes: str) -> Done:
    return _targeted(session, parse_delete(leaf.tokens()), ctes)


def _targeted(session: Any, parsed: Any, ctes: str) -> Done:
    with session.statement() as transaction:
        compiler = prepared(session, ctes)
        change = Targeted(compiler, parsed).change()
        result = Writer(session, transaction, compiler).apply(change)
        return _answered(session, change, result, parsed.output)


def merge(session: Any, leaf: Leaf, ctes: str) -> Done:
    parsed = parse_merge(leaf.tokens(), leaf.ended)
    with session.statement() as transaction:
        compiler = prepared(session, ctes)
        change = Merging(compiler, parsed).change()
        result = Writer(session, transaction, compiler).apply(change)
        return _answered(session, change, result, parsed.output)
