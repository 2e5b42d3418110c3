"""Resolves the names of a query, and learns the types of all its expressions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bind_select import SelectBinder
from jetbridge.pipeline.translate.bound import (
    Bound,
    BoundSet,
    BoundValues,
    Field,
    Shared,
    only,
)
from jetbridge.pipeline.translate.probe import Pieces, annotate
from jetbridge.pipeline.translate.resolve import Resolver
from jetbridge.pipeline.translate.scope import Scope
from jetbridge.pipeline.translate.tail import bare_order, bound_tail
from jetbridge.pipeline.translate.types import NULL
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work, empty

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}


@dataclass
class _Definition:
    """A query of WITH, bound when it is first mentioned."""

    query: exp.Expr
    names: list[str]
    known: "Mapping[str, _Definition]"
    found: Shared | None = None


@dataclass
class Binder:
    """`known`: the queries of WITH that may be mentioned."""

    work: Work
    known: Mapping[str, _Definition] = field(default_factory=dict)

    def __call__(self, query: exp.Expr, parent: Scope | None) -> Bound:
        inner = self._with(query)
        if isinstance(query, exp.Subquery):
            only(query, "this", "with_", "order", "limit", "offset")
            if query.args.get("order") or query.args.get("limit") or query.args.get("offset"):
                raise Untranslatable("ORDER BY or LIMIT of a query in brackets")
            return inner(query.this, parent)
        if isinstance(query, exp.Select):
            return SelectBinder(self.work, Scope(parent), inner, inner.shared)(query)
        if isinstance(query, exp.SetOperation):
            return inner._set(query, parent)
        if isinstance(query, exp.Values):
            return inner._values(query, parent)
        raise Untranslatable(f"{query.key} as a query")

    def _with(self, query: exp.Expr) -> "Binder":
        clause = query.args.get("with_")
        if clause is None:
            return self
        only(clause, "expressions")  # RECURSIVE is refused here
        known = dict(self.known)
        for each in clause.expressions:
            only(each, "this", "alias", "materialized")
            names = [name.name for name in each.args["alias"].columns]
            definition = _Definition(each.this, names, dict(known))
            known[fold(each.alias)] = definition
        query.set("with_", None)
        return Binder(self.work, known)

    def shared(self, name: str) -> Shared | None:
        definition = self.known.get(fold(name))
        if definition is None:
            return None
        if definition.found is None:
            bound = Binder(self.work, definition.known)(definition.query, None)
            fields = [Field(each.name, each.type) for each in bound.fields]
            for each, given in zip(fields, definition.names, strict=False):
                each.name = given
            found = Shared(fields, set(), self.work.fresh("w"), bound)
            self.work.shared.append(found)
            definition.found = found
        return definition.found

    def _set(self, query: exp.SetOperation, parent: Scope | None) -> Bound:
        only(query, "this", "expression", "distinct", "by_name", "order", "limit", "offset")
        sides = (self(query.this, parent), self(query.expression, parent))
        places, fields = _placed(sides, bool(query.args.get("by_name")))
        for each, found in zip(fields, self._unified(sides, places), strict=True):
            each.type = found
        operator = _OPERATORS[type(query)] + ("" if query.args.get("distinct") else " ALL")
        outer = sides[0].outer | sides[1].outer
        tail = bound_tail(query, bare_order(query.args.get("order"), fields))
        return BoundSet(fields, outer, operator, sides, places, tail)

    def _unified(
        self, sides: tuple[Bound, Bound], places: tuple[list[int | None], list[int | None]]
    ) -> list[str]:
        """DuckDB's common type for the columns that meet."""
        pairs = [
            tuple(
                NULL if at is None else side.fields[at].type
                for side, at in zip(sides, both, strict=True)
            )
            for both in zip(*places, strict=True)
        ]
        odd = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
        known = {pair: pair[0] for pair in pairs if pair[0] == pair[1]}
        if odd:
            columns = [{f"c{i}": pair[side] for i, pair in enumerate(odd)} for side in (0, 1)]
            relations = [empty(name, each) for name, each in zip(("l", "r"), columns, strict=True)]
            both = "FROM (SELECT * FROM l UNION ALL SELECT * FROM r)"
            texts = [f"c{index}" for index in range(len(odd))]
            known |= dict(zip(odd, self.work.types(relations, texts, both), strict=True))
        return [known[pair] for pair in pairs]

    def _values(self, query: exp.Values, parent: Scope | None) -> Bound:
        only(query, "expressions", "alias", "order", "limit", "offset")
        scope = Scope(parent)
        resolver = Resolver(self.work, scope, self)
        rows = [[resolver(cell) for cell in _cells(row)] for row in query.expressions]
        annotate(self.work, Pieces([cell for row in rows for cell in row]))
        texts = [", ".join(cell.sql("duckdb") for cell in row) for row in rows]
        if scope.outer:
            raise Untranslatable("VALUES with columns of another query")
        listed = ", ".join(f"({text})" for text in texts)
        names = [f"c{index}" for index in range(len(rows[0]))]
        relation = f"v({', '.join(names)}) AS (VALUES {listed})"
        types = self.work.types([relation], names, "FROM v")
        fields = [Field(f"col{index}", found) for index, found in enumerate(types)]
        tail = bound_tail(query, bare_order(query.args.get("order"), fields))
        return BoundValues(fields, set(), rows, tail)


def _cells(row: exp.Expr) -> list[exp.Expr]:
    if isinstance(row, exp.Tuple):
        return list(row.expressions)
    return [row.unnest()]


def _placed(
    sides: tuple[Bound, Bound], by_name: bool
) -> tuple[tuple[list[int | None], list[int | None]], list[Field]]:
    """Which column of each side goes where, and the names of the result."""
    one, other = (side.fields for side in sides)
    if not by_name:
        if len(one) != len(other):
            raise Untranslatable("a set operation of different widths")
        places: list[int | None] = list(range(len(one)))
        return (places, list(places)), [Field(each.name, "") for each in one]
    names = [[fold(each.name) if each.name else None for each in side] for side in (one, other)]
    if any(None in side or len(set(side)) < len(side) for side in names):
        raise Untranslatable("BY NAME over columns without a name")
    fields = [
        *one,
        *(each for each, name in zip(other, names[1], strict=True) if name not in names[0]),
    ]
    wanted = [fold(each.name or "") for each in fields]
    left, right = (
        [side.index(name) if name in side else None for name in wanted] for side in names
    )
    return (left, right), [Field(each.name, "") for each in fields]
