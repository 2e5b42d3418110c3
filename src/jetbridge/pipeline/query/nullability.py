"""Infers which columns of a query are never NULL. A column that is not certain may be NULL.

Never NULL are COUNT, row_number(), literals that are no text, and NOT NULL columns of tables after
projections, filters and inner joins. After outer joins and set operations they may be NULL.
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

# Schemas by catalog, schema and name of the table, in lower case.
Sources = Mapping[tuple[str, str, str], pa.Schema]
# Paths of tables by their names in the query, all in lower case.
TablePaths = Mapping[tuple[str, ...], tuple[str, str, str]]

log = logging.getLogger(__name__)

# The time grows with the square of the query, and nothing interrupts it.
_MOST_CHARACTERS = 20_000
_NEVER_NULL = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_GROUPINGS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def never_null(
    query: str, names: tuple[str, ...], sources: Sources, paths: TablePaths = MappingProxyType({})
) -> tuple[bool, ...]:
    """Return for each column of the query, in order, whether it is never NULL."""
    nothing = (False,) * len(names)
    if len(query) > _MOST_CHARACTERS:
        return nothing
    try:
        tree = sqlglot.parse_one(query, read="duckdb")
        if not _is_plain(tree):
            return nothing
        _spell_out(tree, paths)
        required = _Inference(sources).query(_qualify(tree, sources))
    except Exception as error:  # noqa: BLE001 - sqlglot did not understand the query
        log.debug("could not infer NOT NULL for a query", exc_info=error)
        return nothing
    return required if len(required) == len(names) else nothing


def _is_plain(tree: exp.Expr) -> bool:
    """Return whether sqlglot reads the query right: no joins in brackets, no renamed columns."""
    for source in tree.find_all(exp.Table, exp.Subquery):
        alias = source.args.get("alias")
        if source.args.get("joins") or (alias is not None and alias.args.get("columns")):
            return False
    return True


def _spell_out(tree: exp.Expr, paths: TablePaths) -> None:
    """Write the names of tables in full, but those that WITH defines."""
    cte_names = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = tuple(part.name.lower() for part in table.parts)
        if len(name) == 1 and name[0] in cte_names:
            continue
        path = paths.get(name)
        if path is not None:
            table.set("catalog", exp.to_identifier(path[0]))
            table.set("db", exp.to_identifier(path[1]))


def _qualify(tree: exp.Expr, sources: Sources) -> Scope:
    schema: dict[str, Any] = {}
    for (catalog, space, name), columns in sources.items():
        tables = schema.setdefault(catalog, {}).setdefault(space, {})
        tables[name] = dict.fromkeys((column.lower() for column in columns.names), "INT")
    qualified = qualify(
        tree,
        schema=schema,
        dialect="duckdb",
        quote_identifiers=False,
        validate_qualify_columns=False,
    )
    scope = build_scope(qualified)
    if scope is None:
        raise ValueError("the text is not a query")
    return scope


class _Inference:
    """Infer NOT NULL for one query and its subqueries."""

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
        nullable_tables = _nullable_tables(tree)
        grouped = _has_grouping_sets(tree)
        return tuple(
            self._column(column, scope, nullable_tables, grouped) for column in tree.selects
        )

    def _column(
        self, node: exp.Expr, scope: Scope, nullable_tables: set[str], grouped: bool
    ) -> bool:
        node = node.unalias()
        if isinstance(node, exp.Paren):
            return self._column(node.this, scope, nullable_tables, grouped)
        if isinstance(node, exp.Window):
            return isinstance(node.this, _NEVER_NULL)
        if isinstance(node, _NEVER_NULL):
            return True
        if isinstance(node, exp.Column):
            return not grouped and node.table not in nullable_tables and self._source(node, scope)
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
    """Return whether the node is a number, a boolean, or a literal with a type, such as a date."""
    if isinstance(node, exp.Neg):
        return _is_literal(node.this)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return isinstance(node.this, exp.Literal) and not node.to.is_type(*exp.DataType.TEXT_TYPES)
    if isinstance(node, exp.Literal):
        return not node.is_string
    return isinstance(node, exp.Boolean)


def _nullable_tables(select: exp.Select) -> set[str]:
    """Return the tables whose columns an outer join may fill with NULL."""
    source = select.args.get("from_") or select.args.get("from")
    before = [source.this.alias_or_name] if source is not None else []
    nullable_tables: set[str] = set()
    for join in select.args.get("joins") or ():
        side, name = (join.side or "").upper(), join.this.alias_or_name
        if side in ("RIGHT", "FULL") or join.method == "POSITIONAL":
            nullable_tables |= set(before)
        if side in ("LEFT", "FULL") or join.method == "POSITIONAL":
            nullable_tables.add(name)
        before.append(name)
    return nullable_tables


def _has_grouping_sets(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and group.find(*_GROUPINGS) is not None
