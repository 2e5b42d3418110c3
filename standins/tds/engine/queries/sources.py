"""FROM: tables, views, derived tables, joins."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.compiler import column_parts, common_type
from standins.tds.engine.expressions.convert import cast_to
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.predicates import COMPARISONS
from standins.tds.engine.expressions.scope import Scope, Source
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.parse.hints import DIRTY_HINTS, check_hints
from standins.tds.engine.queries.access import Access, CatalogAccess
from standins.tds.engine.storage.catalog import Table
from standins.tds.values import SqlError

if TYPE_CHECKING:
    from standins.tds.engine.queries.compiler import Queries, Query

SOUGHT = {exp.Between, exp.In, *COMPARISONS}
SIDES = {"": "INNER JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


class Sources:
    def __init__(self, compiler: "Queries") -> None:
        self._compiler = compiler

    def from_clause(self, node: exp.Expr, scope: Scope) -> str:
        from_ = node.args.get("from_")
        if from_ is None:
            return ""
        sql = self.item(from_.this, scope)
        for join in node.args.get("joins") or ():
            sql = self._joined(sql, join, scope)
        return f" FROM {sql}"

    def item(self, node: exp.Expr, scope: Scope) -> str:
        sql = self._plain_item(node, scope)
        for join in node.args.get("joins") or ():
            sql = self._joined(sql, join, scope)
        return sql

    def _plain_item(self, node: exp.Expr, scope: Scope) -> str:
        if isinstance(node, exp.Table):
            return self.table(node, scope)
        if isinstance(node, exp.Values):
            return self._values(node, scope)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            return f"({self.item(node.this, scope)})"
        if isinstance(node, exp.Subquery):
            query = self._compiler.query(node.this, scope.parent)
            return self.derived(query, node, scope)
        raise unknown(f"{type(node).__name__} in FROM")

    def derived(self, query: "Query", node: exp.Expr, scope: Scope) -> str:
        if not node.alias:
            raise error(102, ")")
        query = self._compiler.renamed(query, node)
        alias = self._compiler.fresh("s")
        scope.sources.append(Source(node.alias, alias, query.over(alias)))
        return f"({query.sql}) AS {alias}"

    def _joined(self, left: str, join: exp.Expr, scope: Scope) -> str:
        before = len(scope.sources)
        if isinstance(join.this, exp.Lateral):
            return self._applied(left, join.this, scope)
        right = self.item(join.this, scope)
        side = str(join.args.get("side") or "").upper()
        on = join.args.get("on")
        if on is None:
            if side or str(join.args.get("kind") or "").upper() not in ("", "CROSS"):
                raise error(102, "JOIN")
            return f"{left} CROSS JOIN {right}"
        condition = self._compiler.predicate(on, scope)
        self.note_seeks(on, scope)
        _widen(scope, before, side)
        return f"{left} {SIDES[side]} {right} ON {condition}"

    def _applied(self, left: str, node: exp.Lateral, scope: Scope) -> str:
        if not isinstance(node.this, exp.Subquery):
            raise unknown("APPLY of a function")
        query = self._compiler.query(node.this.this, Scope(list(scope.sources), scope.parent))
        right = self.derived(query, node, scope)
        if node.args.get("cross_apply"):
            return f"{left} CROSS JOIN LATERAL {right}"
        _widen(scope, len(scope.sources) - 1, "LEFT")
        return f"{left} LEFT JOIN LATERAL {right} ON true"

    def table(self, node: exp.Table, scope: Scope, target: bool = False) -> str:
        if not isinstance(node.this, exp.Identifier):
            raise unknown(f"{node.sql(dialect='tsql')} in FROM")
        parts = parts_of(node)
        hints = hints_of(node)
        name = node.alias or parts[-1]
        known = self._compiler.ctes.get(parts[0].lower()) if len(parts) == 1 else None
        if known is not None:
            alias = self._compiler.fresh("s")
            scope.sources.append(Source(name, alias, known.over(alias)))
            return f"({known.sql}) AS {alias}"
        system = self._system(parts, name, hints, scope)
        if system is not None:
            return system
        table = self._compiler.around.find(parts)
        if table.is_view:
            return self._view(table, name, scope)
        return self.base(table, name, parts, hints, scope, target or bool(node.args.get("target")))

    def base(
        self, table: Table, name: str, parts: tuple[str, ...], hints: frozenset[str],
        scope: Scope, target: bool = False,
    ) -> str:  # fmt: skip
        alias = self._compiler.fresh("s")
        access = Access(len(self._compiler.accesses), alias, table, hints, target=target)
        self._compiler.accesses[alias] = access
        columns = table_columns(table, alias)
        path = (table.database, table.schema, table.name) if name == parts[-1] else ()
        scope.sources.append(Source(name, alias, columns, table, path))
        listed = ", ".join(each.stored for each in table.columns)
        rowid = "rowid AS rid, " if target else ""
        return f"(SELECT {rowid}{listed} FROM {table.stored} WHERE {access.marker}) AS {alias}"

    def _view(self, table: Table, name: str, scope: Scope) -> str:
        before, self._compiler.ctes = self._compiler.ctes, {}
        query = self._compiler.query(parse(table.query or ""), None)
        self._compiler.ctes = before
        columns = query.over("")
        if table.view_names:
            pairs = zip(columns, table.view_names, strict=True)
            columns = tuple(each.named(given) for each, given in pairs)
        alias = self._compiler.fresh("s")
        path = (table.database, table.schema, table.name)
        placed = tuple(replace(each, sql=f"{alias}{each.sql}") for each in columns)
        scope.sources.append(Source(name, alias, placed, None, path))
        return f"({query.sql}) AS {alias}"

    def _system(
        self, parts: tuple[str, ...], name: str, hints: frozenset[str], scope: Scope
    ) -> str | None:
        found = self._compiler.around.system_rows(parts)
        if found is None:
            return None
        view, made = found
        alias = self._compiler.fresh("s")
        registered = self._compiler.fresh("sys_")
        self._compiler.arrows[registered] = made.rows
        dirty = bool(hints & DIRTY_HINTS)
        self._compiler.catalog_accesses[alias] = CatalogAccess(alias, view, dirty)
        columns = tuple(
            Expr(f"{alias}.c{place}", each.type, each.nullable, each.name)
            for place, each in enumerate(made.columns)
        )
        scope.sources.append(Source(name, alias, columns, None, parts))
        return f"{registered} AS {alias}"

    def _values(self, node: exp.Values, scope: Scope) -> str:
        alias_node = node.args.get("alias")
        names = [each.name for each in alias_node.columns] if alias_node else []
        rows = [
            [self._compiler.value(v, scope) for v in row.expressions] for row in node.expressions
        ]
        if not rows or any(len(row) != len(names) for row in rows):
            raise error(8155, len(rows[0]) if rows else 0, node.alias)
        types = [common_type([row[place] for row in rows]) for place in range(len(names))]
        listed = ", ".join(
            "(" + ", ".join(cast_to(v, t) for v, t in zip(row, types, strict=True)) + ")"
            for row in rows
        )
        alias = self._compiler.fresh("s")
        columns = tuple(
            Expr(f"{alias}.c{at}", sql_type, any(row[at].nullable for row in rows), names[at])
            for at, sql_type in enumerate(types)
        )
        scope.sources.append(Source(node.alias, alias, columns))
        heads = ", ".join(f"c{at}" for at in range(len(names)))
        return f"(VALUES {listed}) AS {alias}({heads})"

    def note_seeks(self, node: exp.Expr, scope: Scope) -> None:
        """Conditions on one column with constants; an index could be looked up with them."""
        for each in _conjuncts(node):
            column = each.this
            if not isinstance(column, exp.Column) or type(each) not in SOUGHT:
                continue
            source = self._source_of(column, scope)
            if source is not None and source.find(column.name):
                self._note(each, column, source, scope)

    def _note(self, node: exp.Expr, column: exp.Column, source: Source, scope: Scope) -> None:
        others = [child for child in node.iter_expressions() if child is not column]
        try:
            values = [self._compiler.value(each, scope) for each in others]
        except SqlError:
            return
        if not all(each.constant for each in values):
            return
        if source.alias in self._compiler.accesses:
            stored = source.find(column.name)[0].sql.removeprefix(f"{source.alias}.")
            sql = self._compiler.predicate(node, scope)
            self._compiler.accesses[source.alias].conditions.append((stored, sql))
        elif source.alias in self._compiler.catalog_accesses and isinstance(node, exp.EQ):
            wanted = self._compiler.catalog_accesses[source.alias].wanted
            wanted[column.name.lower()] = self._compiler.evaluate(values[0])

    def _source_of(self, column: exp.Column, scope: Scope) -> Source | None:
        parts = column_parts(column)
        if len(parts) == 1:
            found = [each for each in scope.sources if each.find(parts[0])]
            return found[0] if len(found) == 1 else None
        return next((each for each in scope.sources if each.is_called(parts[:-1])), None)


def table_columns(table: Table, alias: str) -> tuple[Expr, ...]:
    return tuple(
        Expr(
            f"{alias}.{each.stored}", each.type, each.nullable, each.name,
            identity=each.identity is not None, collation=each.collation,
        )
        for each in table.columns
    )  # fmt: skip


def parts_of(node: exp.Table) -> tuple[str, ...]:
    """Database, schema and name as they are given; a temporary table has its sign."""
    name = node.name
    if node.this.args.get("temporary"):
        name = f"#{name}"
    if node.this.args.get("global_"):
        name = f"##{name}"
    parts = [name]
    if node.args.get("db") is not None:
        parts.insert(0, node.text("db"))
    if node.args.get("catalog") is not None:
        parts.insert(0, node.text("catalog"))
    return tuple(parts)


def hints_of(node: exp.Table) -> frozenset[str]:
    groups = node.args.get("hints") or ()
    return check_hints(hint.name.upper() for group in groups for hint in group.expressions)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.And):
        for each in inner.flatten():
            yield from _conjuncts(each)
    else:
        yield inner


def _widen(scope: Scope, before: int, side: str) -> None:
    """What an outer join may leave out is NULL then."""
    for place, source in enumerate(scope.sources):
        outer = side == "FULL" or (place >= before) == (side == "LEFT") if side else False
        if outer and (side != "RIGHT" or place < before):
            columns = tuple(replace(each, nullable=True) for each in source.columns)
            scope.sources[place] = replace(source, columns=columns)
