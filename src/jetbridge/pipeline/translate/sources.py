"""The FROM of a SELECT: which relations there are, and how they are joined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA
from jetbridge.pipeline.translate.bound import (
    Bound,
    Column,
    From,
    Join,
    Shared,
    Source,
    only,
    set_type,
    type_of,
)
from jetbridge.pipeline.translate.probe import Pieces, annotate
from jetbridge.pipeline.translate.resolve import BindQuery, Resolver
from jetbridge.pipeline.translate.scope import Scope
from jetbridge.pipeline.translate.types import element_type, kind
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.values import SparkTable
from jetbridge.pipeline.translate.work import Work

FindShared = Callable[[str], Shared | None]

# Side and kind of a join in DuckDB: the words of Spark.
_JOINS = {
    ("", ""): "JOIN",
    ("", "INNER"): "JOIN",
    ("", "CROSS"): "CROSS JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("RIGHT", ""): "RIGHT JOIN",
    ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN",
    ("FULL", "OUTER"): "FULL JOIN",
    ("", "SEMI"): "LEFT SEMI JOIN",
    ("", "ANTI"): "LEFT ANTI JOIN",
}
_LEFT_ONLY = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")


@dataclass
class FromBinder:
    """Fills a scope with the relations of one FROM."""

    work: Work
    scope: Scope
    bind: BindQuery
    shared: FindShared

    def __call__(self, first: exp.Expr, joins: Sequence[exp.Expr]) -> From:
        own = Scope(self.scope.parent)
        found = self._chain(first, joins, own)
        self.scope.sources += own.sources
        self.scope.merged |= own.merged
        self.scope.star += own.star
        self.scope.outer |= own.outer
        return found

    def _chain(self, first: exp.Expr, joins: Sequence[exp.Expr], scope: Scope) -> From:
        found = From(self._item(first, scope))
        comma = False
        for join in joins:
            if not isinstance(join, exp.Join):
                raise Untranslatable(join.key)
            only(join, "this", "side", "kind", "on", "using", "method")
            bare = not (join.side or join.kind or join.method or join.args.get("on"))
            comma = comma or (bare and not join.args.get("using"))
            found.joins.append(self._join(join, scope, comma))
        return found

    def _join(self, join: exp.Join, scope: Scope, comma: bool) -> Join:
        how = _JOINS.get((join.side.upper(), join.kind.upper()))
        if how is None or join.method.upper() not in ("", "NATURAL"):
            raise Untranslatable(f"{join.method} {join.side} {join.kind} join".strip().lower())
        if comma and how in ("RIGHT JOIN", "FULL JOIN"):
            raise Untranslatable("an outer join after a comma")  # which binds less tightly
        before = Scope(scope.parent, [*scope.sources], dict(scope.merged), [*scope.star])
        right = Scope(before)
        item = self._item(join.this, right)
        scope.outer |= right.outer - {source.alias for source in before.sources}
        lateral = bool(right.outer & {source.alias for source in before.sources})
        on = self._pairs(join, how, before, right, scope)
        both = Scope(scope.parent, before.sources + right.sources, {**scope.merged, **right.merged})
        if join.args.get("on"):
            on.append(Resolver(self.work, both, self.bind)(join.args["on"]))
            scope.outer |= both.outer
        if how in _LEFT_ONLY:
            scope.sources[:], scope.star[:] = before.sources, before.star
        else:
            scope.sources += right.sources
        if lateral and how not in ("JOIN", "CROSS JOIN", "LEFT JOIN"):
            raise Untranslatable("a lateral join of this kind")
        if not on and how == "JOIN":
            how = "CROSS JOIN"
        return Join(how, item, on, lateral)

    def _pairs(
        self, join: exp.Join, how: str, left: Scope, right: Scope, scope: Scope
    ) -> list[exp.Expr]:
        """The equalities of USING or NATURAL; fills what * and the bare names mean."""
        names = [each.name for each in join.args.get("using") or ()]
        if join.method.upper() == "NATURAL":
            names = _shared_names(left, right)
        on: list[exp.Expr] = []
        merged: dict[str, exp.Expr] = {}
        for name in names:
            one, other = left.own([name]), right.own([name])
            if one is None or other is None or type_of(one) != type_of(other):
                raise Untranslatable(f"USING the column {name}")
            on.append(exp.EQ(this=one, expression=other))
            merged[fold(name)] = _merged(how, one, other)
        scope.star[:] = [
            (name, merged[fold(name)].copy() if name and fold(name) in merged else node)
            for name, node in left.star
        ] + [(n, node) for n, node in right.star if n is None or fold(n) not in merged]
        scope.merged = {**left.merged, **right.merged, **merged}
        return on

    def _item(self, node: exp.Expr, scope: Scope) -> Source | From:
        if isinstance(node, exp.Table):
            return self._table(node, scope)
        if isinstance(node, exp.Lateral):
            only(node, "this", "alias")
            inner = node.this
            if not isinstance(inner, exp.Subquery):
                raise Untranslatable("a lateral join with this")
            return self._query(inner.this, node.args.get("alias") or inner.args.get("alias"), scope)
        if isinstance(node, exp.Values):
            return self._query(node, node.args.get("alias"), scope)
        if isinstance(node, exp.Unnest):
            return self._unnest(node, scope)
        if isinstance(node, exp.Subquery):
            return self._subquery(node, scope)
        raise Untranslatable(f"{node.key} in FROM")

    def _subquery(self, node: exp.Subquery, scope: Scope) -> Source | From:
        only(node, "this", "alias")
        if isinstance(node.this, (exp.Table, exp.Subquery)) and node.this.args.get("joins"):
            if node.args.get("alias"):
                raise Untranslatable("an alias of a join")
            inner = node.this
            joins = inner.args["joins"]
            inner.set("joins", None)
            return self._chain(inner, joins, scope)
        return self._query(node.this, node.args.get("alias"), scope)

    def _query(self, query: exp.Expr, alias: exp.Expr | None, scope: Scope) -> Source:
        bound = self.bind(query, scope.parent)
        scope.outer |= bound.outer
        name, names = _alias(alias)
        columns = _columns(bound, names)
        return _added(scope, Source(self.work.fresh("t"), name, columns, query=bound))

    def _unnest(self, node: exp.Unnest, scope: Scope) -> Source:
        only(node, "expressions", "alias")
        if len(node.expressions) != 1:
            raise Untranslatable("unnest of several lists")
        inside = Scope(scope.parent)
        value = Resolver(self.work, inside, self.bind)(node.expressions[0])
        scope.outer |= inside.outer
        annotate(self.work, Pieces([value]))
        if kind(type_of(value)) != "LIST":
            raise Untranslatable(f"unnest of {type_of(value)}")
        name, names = _alias(node.args.get("alias"))
        inner = element_type(type_of(value))
        if kind(inner) == "STRUCT":
            raise Untranslatable("unnest of structs")
        column = Column(names[0] if names else "unnest", "c0", inner)
        path = name or ("unnest",)
        return _added(scope, Source(self.work.fresh("t"), path, [column], unnest=value))

    def _table(self, node: exp.Table, scope: Scope) -> Source:
        only(node, "this", "db", "catalog", "alias")
        if not isinstance(node.this, exp.Identifier):
            raise Untranslatable(f"the table function {node.name or node.this.key}")
        parts = [part.name for part in node.parts]
        alias, names = _alias(node.args.get("alias"))
        shared = self.shared(parts[0]) if len(parts) == 1 else None
        if shared is not None:
            columns = _columns(shared, names)
            source = Source(self.work.fresh("t"), alias or (parts[0],), columns, query=shared)
            return _added(scope, source)
        path, table = self._declared(parts)
        columns = [Column(name, name, found) for name, found in table.types.items()]
        columns = _in_order(columns, table)
        _rename(columns, names)
        relation = table.relation
        return _added(scope, Source(self.work.fresh("t"), alias or path, columns, relation))

    def _declared(self, parts: Sequence[str]) -> tuple[tuple[str, ...], SparkTable]:
        """A table of a catalog, by as much of its name as is given."""
        place = self.work.question.place
        full: list[tuple[str, ...]] = [(place.catalog, place.schema, *parts)]
        if len(parts) == 2:  # noqa: PLR2004 - a schema or a catalog stands before the name
            here = fold(parts[0]) == fold(place.catalog)
            schema = place.schema if here else DEFAULT_SCHEMA
            full = [(place.catalog, *parts), (parts[0], schema, parts[1])]
        elif len(parts) == 3:  # noqa: PLR2004
            full = [tuple(parts)]
        wanted = {tuple(map(fold, path)) for path in full}
        tables = self.work.question.tables.items()
        found = [(p, table) for p, table in tables if tuple(map(fold, p)) in wanted]
        if len(found) != 1:
            raise Untranslatable(f"the table {'.'.join(parts)}")
        return found[0]


def _added(scope: Scope, source: Source) -> Source:
    scope.add(source)
    return source


def _in_order(columns: list[Column], table: SparkTable) -> list[Column]:
    """Missing ones come last: their place matters only for a star, which is refused then."""
    return [*columns, *(Column(n, n, t, missing=True) for n, t in table.missing.items())]


def _shared_names(left: Scope, right: Scope) -> list[str]:
    names = {fold(name) for name, _ in right.star if name is not None}
    found = [name for name, _ in left.star if name is not None and fold(name) in names]
    if not found or any(name is None for name, _ in [*left.star, *right.star]):
        raise Untranslatable("a natural join of these")
    return found


def _merged(how: str, one: exp.Expr, other: exp.Expr) -> exp.Expr:
    """What the bare name of a USING column means."""
    if how == "FULL JOIN":
        both = exp.Coalesce(this=one.copy(), expressions=[other.copy()])
        return set_type(both, type_of(one))
    return (other if how == "RIGHT JOIN" else one).copy()


def _alias(alias: exp.Expr | None) -> tuple[tuple[str, ...], list[str]]:
    """The name of a relation, and other names for its columns."""
    if alias is None:
        return (), []
    if not isinstance(alias, exp.TableAlias):
        return (alias.name,), []
    only(alias, "this", "columns")
    return ((alias.name,) if alias.name else ()), [each.name for each in alias.columns]


def _columns(bound: Bound, names: Sequence[str]) -> list[Column]:
    """The columns of a query as a relation; DuckDB renames the second of one name."""
    seen: set[str] = set()
    columns = []
    for index, each in enumerate(bound.fields):
        name = None if each.name is None or fold(each.name) in seen else each.name
        seen.add(fold(each.name or ""))
        columns.append(Column(name, f"c{index}", each.type))
    _rename(columns, names)
    return columns


def _rename(columns: list[Column], names: Sequence[str]) -> None:
    if len(names) > len(columns) or (names and any(column.missing for column in columns)):
        raise Untranslatable("other names for these columns")
    for column, name in zip(columns, names, strict=False):
        column.name = name
