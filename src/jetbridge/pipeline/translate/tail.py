"""ORDER BY, LIMIT and OFFSET."""

from collections.abc import Callable, Sequence

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bound import Field, Sorting, Tail, only, type_of
from jetbridge.pipeline.translate.types import kind
from jetbridge.pipeline.translate.untranslatable import Untranslatable

FindOther = Callable[[exp.Expr], "int | exp.Expr"]


def bound_tail(query: exp.Expr, order: list[Sorting]) -> Tail:
    limit = _number(query.args.get("limit"))
    offset = _number(query.args.get("offset"))
    if (limit is not None or offset is not None) and not order:
        raise Untranslatable("LIMIT without ORDER BY")  # which rows it keeps, no order says
    return Tail(order, limit, offset)


def _number(clause: exp.Expr | None) -> int | None:
    if clause is None:
        return None
    only(clause, "expression")
    value = clause.args.get("expression")
    if not isinstance(value, exp.Literal) or not value.this.isdigit():
        raise Untranslatable(f"{clause.key} that is no whole number")
    return int(value.this)


def bare_order(order: exp.Expr | None, fields: Sequence[Field]) -> list[Sorting]:
    """By names and places of columns only."""

    def refuse(node: exp.Expr) -> int | exp.Expr:
        found = place(node, fields)
        if found is None:
            raise Untranslatable("ORDER BY an expression here")
        return found

    found = sorting(order, len(fields), refuse)
    refuse_nested(found, fields)
    return found


def refuse_nested(order: Sequence[Sorting], fields: Sequence[Field]) -> None:
    """Lists and structs: a NULL inside of them comes last in DuckDB, first in Spark."""
    for each in order:
        by = each.by
        refuse_nested_type(fields[by].type if isinstance(by, int) else type_of(by))


def refuse_nested_type(duckdb_type: str) -> None:
    if kind(duckdb_type) in ("LIST", "STRUCT"):
        raise Untranslatable(f"the order of {duckdb_type}")


def sorting(order: exp.Expr | None, width: int, find: FindOther) -> list[Sorting]:
    """`find` says what a key means; ALL is every column."""
    if order is None:
        return []
    only(order, "expressions")
    found: list[Sorting] = []
    for each in order.expressions:
        key, down, nulls = _parts(each)
        if isinstance(key, exp.Var) and key.name.upper() == "ALL":
            found += [Sorting(index, down, nulls) for index in range(width)]
        else:
            found.append(Sorting(find(key), down, nulls))
    return found


def _parts(node: exp.Expr) -> tuple[exp.Expr, bool, bool]:
    """DuckDB puts NULL last in both directions."""
    if not isinstance(node, exp.Ordered):
        return node, False, False
    only(node, "this", "desc", "nulls_first")
    return node.this, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def place(node: exp.Expr, fields: Sequence[Field]) -> int | None:
    """The column that a name or a number stands for."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdigit():
        at = int(node.this) - 1
        if at >= len(fields):
            raise Untranslatable(f"the column {node.this}")
        return at
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        found = [i for i, each in enumerate(fields) if _is_called(each, node.name)]
        if len(found) == 1:
            return found[0]
    return None


def _is_called(each: Field, name: str) -> bool:
    return each.name is not None and fold(each.name) == fold(name)
