"""Which columns of a query can never be NULL; where that is not certain, they can.

A column straight from a NOT NULL column, through projections, filters and inner joins, COUNT,
row_number() and literals that are no text cannot. Outer joins and set operations loosen it.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

# By lower-case catalog, schema and name.
Sources = Mapping[tuple[str, str, str], pa.Schema]
# What stands for a table in the query, in lower case, and what it stands for.
Written = Mapping[tuple[str, ...], tuple[str, str, str]]

log = logging.getLogger(__name__)

# The time it takes grows with the square of a query, and nothing interrupts it.
_MOST_CHARACTERS = 20_000
_NEVER_NULL = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_GROUPINGS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def never_null(
    query: str, names: tuple[str, ...], sources: Sources, written: Written = MappingProxyType({})
) -> tuple[bool, ...]:
    """For each column of the query, by their order."""
    nothing = (False,) * len(names)
    if len(query) > _MOST_CHARACTERS:
        return nothing
    try:
        tree = sqlglot.parse_one(query, read="duckdb")
        if not _is_plain(tree):
            return nothing
        _spell_out(tree, written)
        found = _Judge(sources).query(_qualified(tree, sources))
    except Exception as error:  # noqa: BLE001 - not understood, so not certain
        log.debug("NOT NULL is not inferred", exc_info=error)
        return nothing
    return found if len(found) == len(names) else nothing


def _is_plain(tree: exp.Expr) -> bool:
    """Joins in brackets and other names for columns are read wrongly by what follows."""
    for source in tree.find_all(exp.Table, exp.Subquery):
        alias = source.args.get("alias")
        if source.args.get("joins") or (alias is not None and alias.args.get("columns")):
            return False
    return True


def _spell_out(tree: exp.Expr, written: Written) -> None:
    """Names of tables in full; a name that WITH defines stays what it is."""
    parts = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = tuple(part.name.lower() for part in table.parts)
        if len(name) == 1 and name[0] in parts:
            continue
        path = written.get(name)
        if path is not None:
            table.set("catalog", exp.to_identifier(path[0]))
            table.set("db", exp.to_identifier(path[1]))


def _qualified(tree: exp.Expr, sources: Sources) -> Scope:
    schema: dict[str, Any] = {}
    for (catalog, space, name), columns in sources.items():
        place = schema.setdefault(catalog, {}).setdefault(space, {})
        place[name] = dict.fromkeys((column.lower() for column in columns.names), "INT")
    qualified = qualify(
        tree,
        schema=schema,
        dialect="duckdb",
        quote_identifiers=False,
        validate_qualify_columns=False,
    )
    scope = build_scope(qualified)
    if scope is None:
        raise ValueError("no query")
    return scope


class _Judge:
    def __init__(self, sources: Sources) -> None:
        self._required = {
            (*path, field.name.lower()): not field.nullable
            for path, schema in sources.items()
            for field in schema
        }

    def query(self, scope: Scope) -> tuple[bool, ...]:
        tree = scope.expression
        if not isinstance(tree, exp.Select) or tree.args.get("pivots"):
            return (False,) * len(_names(tree))
        loosened = _loosened(tree)
        grouped = _may_leave_out_groups(tree)
        return tuple(self._column(each, scope, loosened, grouped) for each in tree.selects)

    def _column(self, node: exp.Expr, scope: Scope, loosened: set[str], grouped: bool) -> bool:
        node = node.unalias()
        if isinstance(node, exp.Paren):
            return self._column(node.this, scope, loosened, grouped)
        if isinstance(node, exp.Window):
            return isinstance(node.this, _NEVER_NULL)
        if isinstance(node, _NEVER_NULL):
            return True
        if isinstance(node, exp.Column):
            return not grouped and node.table not in loosened and self._source(node, scope)
        return _is_literal(node)

    def _source(self, column: exp.Column, scope: Scope) -> bool:
        source = scope.sources.get(column.table)
        name = column.name.lower()
        if isinstance(source, exp.Table):
            path = (source.catalog.lower(), source.db.lower(), source.name.lower())
            return self._required.get((*path, name), False)
        if isinstance(source, Scope) and not source.is_udtf:
            names = _names(source.expression)
            return name in names and self.query(source)[names.index(name)]
        return False


def _names(tree: exp.Expr) -> list[str]:
    return [name.lower() for name in tree.named_selects] if isinstance(tree, exp.Query) else []


def _is_literal(node: exp.Expr) -> bool:
    """A number, a truth value, a date; a cast of a text fails or gives a value."""
    if isinstance(node, exp.Neg):
        return _is_literal(node.this)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return isinstance(node.this, exp.Literal) and not node.to.is_type(*exp.DataType.TEXT_TYPES)
    if isinstance(node, exp.Literal):
        return not node.is_string
    return isinstance(node, exp.Boolean)


def _loosened(select: exp.Select) -> set[str]:
    """The tables whose columns an outer join may fill with NULL."""
    source = select.args.get("from_") or select.args.get("from")
    before = [source.this.alias_or_name] if source is not None else []
    loosened: set[str] = set()
    for join in select.args.get("joins") or ():
        side, name = (join.side or "").upper(), join.this.alias_or_name
        if side in ("RIGHT", "FULL") or join.method == "POSITIONAL":
            loosened |= set(before)
        if side in ("LEFT", "FULL") or join.method == "POSITIONAL":
            loosened.add(name)
        before.append(name)
    return loosened


def _may_leave_out_groups(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and group.find(*_GROUPINGS) is not None
