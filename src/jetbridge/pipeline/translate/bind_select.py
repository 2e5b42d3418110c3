"""Resolves one SELECT."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bound import (
    Bound,
    BoundSelect,
    Field,
    From,
    Grouping,
    Sorting,
    Windows,
    only,
    type_of,
)
from jetbridge.pipeline.translate.groups import Groups
from jetbridge.pipeline.translate.probe import Pieces, annotate
from jetbridge.pipeline.translate.resolve import TWICE, BindQuery, Calls, Resolver
from jetbridge.pipeline.translate.scope import Scope
from jetbridge.pipeline.translate.sources import FindShared, FromBinder
from jetbridge.pipeline.translate.stars import Item, expanded
from jetbridge.pipeline.translate.tail import bound_tail, place, refuse_nested, sorting
from jetbridge.pipeline.translate.types import element_type, kind
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work

_KNOWN = (
    *("expressions", "from_", "joins", "where", "group", "having", "windows", "qualify"),
    *("distinct", "order", "limit", "offset"),
)


@dataclass
class SelectBinder:
    work: Work
    scope: Scope
    bind: BindQuery
    shared: FindShared

    def __call__(self, query: exp.Select) -> Bound:
        only(query, *_KNOWN)
        source = self._from(query)
        grouping, windows = Calls(self.work.fresh("a")), Calls(self.work.fresh("v"))
        resolver = self._resolver(query, grouping, windows)
        items, fields = self._items(query, resolver)
        # Names of the SELECT list are known everywhere but in FROM; columns go before them.
        below = replace(resolver, aggregates=None, windows=None)
        where = _optional(below, _clause(query, "where"))
        calls = {grouping.alias, windows.alias}
        groups = Groups(below, items, fields, calls)(query.args.get("group"))
        above = replace(resolver, certain=False)
        having = _optional(replace(above, windows=None), _clause(query, "having"))
        qualify = _optional(above, _clause(query, "qualify"))
        distinct, on = self._distinct(query, above)
        bound = BoundSelect(
            fields,
            self.scope.outer,
            items,
            source,
            where,
            None,
            having,
            Windows(windows.alias, windows.nodes),
            qualify,
            distinct,
            on,
            bound_tail(query, self._order(query, above, items, fields)),
        )
        self._annotate(bound, Pieces(groups.keys, grouping, windows))
        bound.grouping = _grouping(grouping, groups, having is not None)
        return bound

    def _annotate(self, bound: BoundSelect, pieces: Pieces) -> None:
        """Learns all types, and with them those of the result."""
        order = bound.tail.order
        single = (bound.where, bound.having, bound.qualify)
        roots = [*pieces.roots, *bound.items, *bound.distinct_on]
        roots += [node for node in single if node is not None]
        roots += [each.by for each in order if isinstance(each.by, exp.Expr)]
        roots += bound.source.conditions() if bound.source else ()
        annotate(self.work, replace(pieces, roots=roots))
        for each, item in zip(bound.fields, bound.items, strict=True):
            each.type = _result(item)
        refuse_nested(order, bound.fields)
        self.work.windows[bound.windows.alias] = bound.windows.calls

    def _from(self, query: exp.Select) -> From | None:
        clause = query.args.get("from_")
        if clause is None:
            return None
        only(clause, "this")
        binder = FromBinder(self.work, self.scope, self.bind, self.shared)
        return binder(clause.this, query.args.get("joins") or [])

    def _resolver(self, query: exp.Select, aggregates: Calls, windows: Calls) -> Resolver:
        named = {fold(each.name): each for each in query.args.get("windows") or ()}
        return Resolver(
            self.work,
            self.scope,
            self.bind,
            aggregates=aggregates,
            windows=windows,
            named=named,
        )

    def _items(self, query: exp.Select, resolver: Resolver) -> tuple[list[exp.Expr], list[Field]]:
        """The SELECT list; each alias is known to what comes after it."""
        items: list[exp.Expr] = []
        fields: list[Field] = []
        for name, alias, node in self._listed(query, resolver):
            found = _unnested(node, resolver)
            items.append(found)
            fields.append(Field(name, ""))
            if alias is not None and not isinstance(found, exp.Explode):
                known = resolver.aliases.setdefault(fold(alias), found)
                if known != found:
                    resolver.aliases[fold(alias)] = TWICE
        _refuse_unnest(query, items, resolver)
        return items, fields

    def _listed(self, query: exp.Select, resolver: Resolver) -> Iterator[Item]:
        for each in query.expressions:
            yield from expanded(each, self.scope, resolver)

    def _distinct(self, query: exp.Select, resolver: Resolver) -> tuple[bool, list[exp.Expr]]:
        clause = query.args.get("distinct")
        if clause is None:
            return False, []
        only(clause, "on")
        on = clause.args.get("on")
        if on is None:
            return True, []
        if not query.args.get("order"):
            raise Untranslatable("DISTINCT ON without ORDER BY")
        return False, [resolver(each) for each in on.expressions]

    def _order(
        self, query: exp.Select, resolver: Resolver, items: list[exp.Expr], fields: list[Field]
    ) -> list[Sorting]:
        def find(node: exp.Expr) -> int | exp.Expr:
            at = place(node, fields)
            if at is not None:
                return at
            _refuse_twice(node, items, fields)
            found = resolver(node)
            return items.index(found) if found in items else found

        found = sorting(query.args.get("order"), len(fields), find)
        distinct = query.args.get("distinct")
        if distinct is not None and not distinct.args.get("on"):
            _refuse_more(found)
        return found


def _refuse_twice(node: exp.Expr, items: list[exp.Expr], fields: list[Field]) -> None:
    """A name that two different columns of the result have."""
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        pairs = zip(items, fields, strict=True)
        found = [item for item, each in pairs if each.name and fold(each.name) == fold(node.name)]
        if any(item != found[0] for item in found):
            raise Untranslatable(f"the name {node.name}, which two columns have")


def _refuse_more(order: list[Sorting]) -> None:
    if any(isinstance(each.by, exp.Expr) for each in order):
        raise Untranslatable("ORDER BY what DISTINCT does not keep")


def _clause(query: exp.Select, name: str) -> exp.Expr | None:
    clause = query.args.get(name)
    if clause is None:
        return None
    only(clause, "this")
    found = clause.this
    return found if isinstance(found, exp.Expr) else None


def _optional(resolver: Resolver, node: exp.Expr | None) -> exp.Expr | None:
    return None if node is None else resolver(node)


def _unnested(node: exp.Expr, resolver: Resolver) -> exp.Expr:
    """A list unrolled into rows may stand alone in the SELECT list."""
    if not isinstance(node, exp.Explode):
        return resolver(node)
    only(node, "this")
    node.set("this", resolver(node.this))
    return node


def _refuse_unnest(query: exp.Select, items: list[exp.Expr], resolver: Resolver) -> None:
    """Rows are unrolled last; with windows that would show."""
    lists = [item for item in items if isinstance(item, exp.Explode)]
    if len(lists) > 1:
        raise Untranslatable("unnest of several lists")
    windows = resolver.windows is not None and resolver.windows.nodes
    if lists and (windows or any(query.args.get(name) for name in ("group", "qualify"))):
        raise Untranslatable("unnest beside windows or groups")


def _result(item: exp.Expr) -> str:
    if not isinstance(item, exp.Explode):
        return type_of(item)
    inside = type_of(item.this)
    if kind(inside) != "LIST" or kind(element_type(inside)) == "STRUCT":
        raise Untranslatable(f"unnest of {inside}")
    return element_type(inside)


def _grouping(calls: Calls, groups: Groups, having: bool) -> Grouping | None:
    if not calls.nodes and not groups.given and not having:
        return None
    return Grouping(calls.alias, groups.keys, groups.sets, calls.nodes)
