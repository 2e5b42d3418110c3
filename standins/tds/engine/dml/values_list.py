"""VALUES with expressions: each cell compiled by itself."""

from collections.abc import Callable

from standins.tds.engine.errors import error
from standins.tds.engine.expressions.compiler import common_type
from standins.tds.engine.expressions.convert import cast_to
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.parse.dialect import parse_expression
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.compiler import Queries, Query
from standins.tds.engine.storage.catalog import ColumnDef, Table

MOST_ROWS = 1000


def rows_of(tokens: Tokens) -> list[list[str]]:
    """The text of each cell."""
    found = []
    while True:
        found.append(tokens.inside().parted())
        if not tokens.take(","):
            break
    if tokens.take("OPTION"):
        tokens.inside()
    if not tokens.done:
        tokens.fail()
    return found


def values_query(
    compiler: Queries, table: Table, columns: tuple[ColumnDef, ...], tokens: Tokens,
    match: Callable[[int], None],
) -> Query:  # fmt: skip
    texts = rows_of(tokens)
    if len(texts) > MOST_ROWS:
        raise error(10738)
    for row in texts:
        match(len(row))
    rows = [
        [_cell(compiler, c, text) for c, text in zip(columns, row, strict=True)] for row in texts
    ]
    types = [common_type([row[place] for row in rows]) for place in range(len(columns))]
    selects = [
        "SELECT "
        + ", ".join(
            f"{cast_to(v, t)} AS c{at}" for at, (v, t) in enumerate(zip(row, types, strict=True))
        )
        for row in rows
    ]
    exprs = []
    for place, sql_type in enumerate(types):
        cells = [row[place] for row in rows]
        kept = cells[0] if len(cells) == 1 else None
        null = all(each.null for each in cells)
        exprs.append(Expr(f"c{place}", sql_type, null=null, untyped=kept.untyped if kept else ""))
    if compiler.around.undeclared is not None:
        _learn(compiler, columns, rows)
    return Query(" UNION ALL ".join(selects), tuple(exprs))


def _learn(compiler: Queries, columns: tuple[ColumnDef, ...], rows: list[list[Expr]]) -> None:
    """A parameter has the type of the column it goes into."""
    known = compiler.around.undeclared
    assert known is not None
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            if cell.untyped:
                known[cell.untyped] = column.type


def _cell(compiler: Queries, column: ColumnDef, text: str) -> Expr:
    if text.strip().upper() == "DEFAULT":
        if column.default is None:
            return NULL
        text = column.default.text
    return compiler.value(parse_expression(text), Scope())
