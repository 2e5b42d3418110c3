"""VALUES of nothing but literals, read quickly into Arrow: a thousand rows in a statement."""

from collections.abc import Callable

import pyarrow as pa

from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.parse.tokens import Token, Tokens
from standins.tds.engine.queries.compiler import Queries, Query
from standins.tds.engine.types import storage
from standins.tds.values import SqlType

Cell = tuple[str, str | None]  # kind and text; NULL is ("null", None)
INT_MAX = 2**31 - 1
FEWEST = 2  # rows; a single one needs no Arrow


def _cells(tokens: list[Token]) -> list[list[Cell]] | None:
    """None where anything but literals is found."""
    rows: list[list[Cell]] = []
    place, last = 0, len(tokens)
    while place < last:
        if tokens[place].text != ("," if rows else "("):
            return None
        found = _row(tokens, place + (2 if rows else 1))
        if found is None or (rows and tokens[place + 1].text != "("):
            return None
        row, place = found
        rows.append(row)
    return rows


def _row(tokens: list[Token], place: int) -> tuple[list[Cell], int] | None:
    """Its cells, and the place after its parenthesis."""
    row: list[Cell] = []
    while True:
        cell, place = _cell(tokens, place)
        if cell is None or place >= len(tokens):
            return None
        row.append(cell)
        place += 1
        if tokens[place - 1].text == ")":
            return row, place
        if tokens[place - 1].text != ",":
            return None


def _cell(tokens: list[Token], place: int) -> tuple[Cell | None, int]:
    if place >= len(tokens):
        return None, place
    token = tokens[place]
    if token.kind == "string":
        return ("n" if token.text[0] in "nN" else "s", token.value), place + 1
    if token.kind == "number":
        return ("number", token.text), place + 1
    if token.text == "-" and place + 1 < len(tokens) and tokens[place + 1].kind == "number":
        return ("number", "-" + tokens[place + 1].text), place + 2
    if token.upper == "NULL":
        return ("null", None), place + 1
    return None, place


def literal_query(compiler: Queries, tokens: Tokens) -> tuple[int, Query] | None:
    rows = _cells(tokens.all[tokens.place :])
    if rows is None or len(rows) < FEWEST or any(len(row) != len(rows[0]) for row in rows):
        return None
    columns = [_column(list(cells)) for cells in zip(*rows, strict=True)]
    if any(each is None for each in columns):
        return None
    known = [each for each in columns if each is not None]
    name = compiler.fresh("lit_")
    arrays = [pa.array(values, pa.string()) for values, _, _ in known]
    compiler.arrows[name] = pa.table(arrays, names=[f"c{at}" for at in range(len(arrays))])
    listed = ", ".join(made(f"c{at}") + f" AS c{at}" for at, (_, _, made) in enumerate(known))
    exprs = tuple(
        Expr(f"c{at}", sql_type, null=all(v is None for v in values))
        for at, (values, sql_type, _) in enumerate(known)
    )
    return len(rows), Query(f"SELECT {listed} FROM {name}", exprs)


Column = tuple[list[str | None], SqlType, Callable[[str], str]]


def _column(cells: list[Cell]) -> Column | None:
    """Its values as text, their type, and how DuckDB reads it; None for a mixture."""
    kinds = {kind for kind, _ in cells} - {"null"}
    values = [text for _, text in cells]
    if kinds <= {"n", "s"}:
        return _strings(values, "n" in kinds)
    if kinds == {"number"}:
        return _numbers(values)
    return None


def _strings(values: list[str | None], unicode: bool) -> Column:
    longest = max((len(each.encode("utf-16-le")) // 2 for each in values if each), default=1)
    limit = 4000 if unicode else 8000
    sql_type = SqlType("nvarchar" if unicode else "varchar", longest if longest <= limit else None)
    if unicode:
        return values, sql_type, lambda name: name
    return values, sql_type, lambda name: f"_latin({name})"


def _numbers(values: list[str | None]) -> Column | None:
    given = [each for each in values if each is not None]
    if any("e" in each.lower() for each in given):
        return values, SqlType("float"), lambda name: f"CAST({name} AS DOUBLE)"
    whole = max(len(each.lstrip("-").partition(".")[0].lstrip("0")) for each in given)
    digits = max(len(each.partition(".")[2]) for each in given)
    if not digits and all(abs(int(each)) <= INT_MAX for each in given):
        return values, SqlType("int"), lambda name: f"CAST({name} AS INTEGER)"
    if whole + digits > 38:
        return None
    sql_type = SqlType("numeric", precision=max(1, whole + digits), scale=digits)
    return values, sql_type, lambda name: f"CAST({name} AS {storage(sql_type)})"
