"""Spark SQL for whole queries, layer by layer: rows, groups, result, filter, order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from jetbridge.dialects.spark import identifier
from jetbridge.pipeline.translate.bound import (
    Bound,
    BoundSelect,
    BoundSet,
    BoundValues,
    From,
    Grouping,
    Join,
    Shared,
    Sorting,
    Source,
    Tail,
    type_of,
)
from jetbridge.pipeline.translate.calls import CallTexts, direction, refuse_with_distinct
from jetbridge.pipeline.translate.coerce import converted
from jetbridge.pipeline.translate.constants import is_constant
from jetbridge.pipeline.translate.text import Env, Texts
from jetbridge.pipeline.translate.types import spark_type
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work

Names = Sequence[str]


class Renderer:
    def __init__(self, work: Work) -> None:
        self.work = work
        self.texts = Texts(work, self)
        self.calls = CallTexts(self.texts)

    def whole(self, bound: Bound, names: Names) -> str:
        """The outermost query, after the named ones that it uses."""
        text = self.query(bound, Env(), names, ordered=True)
        if not self.work.shared:
            return text
        named = [f"{identifier(e.name)} AS ({self._plain(e.query)})" for e in self.work.shared]
        return f"WITH {', '.join(named)} {text}"

    def _plain(self, bound: Bound) -> str:
        return self.query(bound, Env(), _own_names(bound), ordered=False)

    def nested(self, query: Bound, env: Env, wanted: str | None = None) -> str:
        """A subquery of an expression; its one column may be wanted in another type."""
        text = self.query(query, env, _own_names(query), ordered=False)
        if wanted is None or wanted == query.fields[0].type:
            return text
        alias = self.work.fresh("s")
        column = f"{identifier(alias)}.`c0`"
        value = converted(self.work.matcher, column, query.fields[0].type, wanted)
        return f"SELECT {value} AS `c0`{_from(f'({text})', alias)}"

    def window(self, node: exp.Expr, env: Env) -> str:
        return self.calls.window(node, env)

    def query(self, bound: Bound, env: Env, names: Names, *, ordered: bool) -> str:
        """`ordered`: whether the order of its rows is seen by anyone."""
        if isinstance(bound, BoundSelect):
            return _Select(self, bound, env)(names, ordered)
        if isinstance(bound, BoundSet):
            return self._set(bound, env, names, ordered)
        if isinstance(bound, BoundValues):
            return self._values(bound, env, names, ordered)
        if isinstance(bound, Shared):
            alias = self.work.fresh("s")
            listed = _listed(alias, _own_names(bound), names)
            return f"SELECT {listed}{_from(identifier(bound.name), alias)}"
        raise Untranslatable("a query of this kind")

    def _set(self, bound: BoundSet, env: Env, names: Names, ordered: bool) -> str:
        sides = [
            self._side(side, places, bound, env)
            for side, places in zip(bound.sides, bound.places, strict=True)
        ]
        text = f"{sides[0]} {bound.operator} {sides[1]}"
        return self.finished(text, bound, bound.tail, names, ordered)

    def _side(self, side: Bound, places: Sequence[int | None], bound: Bound, env: Env) -> str:
        """One side of a set operation, its columns cast to the common types."""
        alias = self.work.fresh("s")
        listed = []
        for index, (at, wanted) in enumerate(zip(places, bound.fields, strict=True)):
            text = "NULL" if at is None else f"{identifier(alias)}.{identifier(f'c{at}')}"
            given = "NULL" if at is None else side.fields[at].type
            value = converted(self.work.matcher, text, given, wanted.type)
            listed.append(f"{value} AS {identifier(f'c{index}')}")
        inner = self.query(side, env, _own_names(side), ordered=False)
        return f"(SELECT {', '.join(listed)}{_from(f'({inner})', alias)})"

    def _values(self, bound: BoundValues, env: Env, names: Names, ordered: bool) -> str:
        rows = [
            [self.texts.of_type(c, f.type, env) for c, f in zip(row, bound.fields, strict=True)]
            for row in bound.rows
        ]
        own = ", ".join(map(identifier, _own_names(bound)))
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        relation = _from(f"(VALUES {listed})", self.work.fresh("s"))
        text = f"SELECT *{relation}({own})"
        return self.finished(text, bound, bound.tail, names, ordered)

    def finished(
        self, text: str, bound: Bound, tail: Tail, names: Names, ordered: bool, order: Names = ()
    ) -> str:
        """The last layer: names, order, limit. `order`: keys that are not in the result."""
        if not tail.order or not (ordered or _cuts(tail)):
            if list(names) == _own_names(bound) and not order:
                return text
            tail = Tail()
        alias = self.work.fresh("s")
        listed = _listed(alias, _own_names(bound), names)
        return f"SELECT {listed}{_from(f'({text})', alias)}{_tail(alias, tail)}"


def _from(relation: str, alias: str) -> str:
    return f" FROM {relation} AS {identifier(alias)}"


def _cuts(tail: Tail) -> bool:
    return tail.limit is not None or tail.offset is not None


def _own_names(bound: Bound) -> list[str]:
    return [f"c{index}" for index in range(len(bound.fields))]


def _listed(alias: str, own: Names, names: Names) -> str:
    return ", ".join(
        f"{identifier(alias)}.{identifier(one)} AS {identifier(name)}"
        for one, name in zip(own, names, strict=True)
    )


def _tail(alias: str, tail: Tail) -> str:
    keys = [
        f"{identifier(alias)}.{identifier(_sort_name(index, each))}"
        + direction({"desc": each.descending, "nulls_first": each.nulls_first})
        for index, each in enumerate(tail.order)
    ]
    text = f" ORDER BY {', '.join(keys)}" if keys else ""
    text += f" LIMIT {tail.limit}" if tail.limit is not None else ""
    return text + (f" OFFSET {tail.offset}" if tail.offset is not None else "")


def _sort_name(index: int, sorting: Sorting) -> str:
    return f"c{sorting.by}" if isinstance(sorting.by, int) else f"o{index}"


@dataclass
class _Select:
    """One SELECT."""

    renderer: Renderer
    bound: BoundSelect
    env: Env

    def __call__(self, names: Names, ordered: bool) -> str:
        bound = self.bound
        sorted_here = bool(bound.tail.order) and (ordered or _cuts(bound.tail))
        body, env = self._body()
        pairs = zip(bound.items, bound.fields, strict=True)
        items = [self._item(item, each.type, env) for item, each in pairs]
        if not (bound.qualify or bound.distinct_on or sorted_here):
            listed = _aliased(items, names)
            return f"SELECT {'DISTINCT ' if bound.distinct else ''}{listed}{body}"
        columns = dict(zip(_own_names(bound), items, strict=True))
        if sorted_here or bound.distinct_on:
            columns |= {
                f"o{index}": self.renderer.texts(each.by, env)
                for index, each in enumerate(bound.tail.order)
                if isinstance(each.by, exp.Expr)
            }
        text = self._filtered(columns, body, env)
        return self.renderer.finished(text, bound, bound.tail, names, ordered, ["more"])

    def _item(self, item: exp.Expr, wanted: str, env: Env) -> str:
        if isinstance(item, exp.Explode):
            return f"explode({self.renderer.texts(item.this, env)})"
        return self.renderer.texts.of_type(item, wanted, env)

    def _filtered(self, columns: dict[str, str], body: str, env: Env) -> str:
        """QUALIFY, then DISTINCT or DISTINCT ON; each in a layer of its own."""
        bound, texts = self.bound, self.renderer.texts
        kept = list(columns)
        if bound.distinct_on:
            on = {f"d{index}": texts(each, env) for index, each in enumerate(bound.distinct_on)}
            columns, kept = columns | on, [*kept, *on]
        if bound.qualify is not None:
            columns = columns | {"q": texts(bound.qualify, env)}
        distinct = "DISTINCT " if bound.distinct and bound.qualify is None else ""
        text = f"SELECT {distinct}{_aliased(columns.values(), columns)}{body}"
        if bound.qualify is not None:
            alias = self.renderer.work.fresh("s")
            distinct = "DISTINCT " if bound.distinct else ""
            inner = f"{_from(f'({text})', alias)} WHERE {identifier(alias)}.`q`"
            text = f"SELECT {distinct}{_listed(alias, kept, kept)}{inner}"
        return self._first_of_each(text, kept) if bound.distinct_on else text

    def _first_of_each(self, text: str, kept: list[str]) -> str:
        alias, outer = self.renderer.work.fresh("s"), self.renderer.work.fresh("s")
        partition = ", ".join(
            f"{identifier(alias)}.{identifier(f'd{i}')}" for i in range(len(self.bound.distinct_on))
        )
        order = _tail(alias, Tail(self.bound.tail.order)).strip()
        number = f"row_number() OVER (PARTITION BY {partition} {order}) AS `r`"
        inner = f"SELECT {_listed(alias, kept, kept)}, {number}{_from(f'({text})', alias)}"
        left = [name for name in kept if not name.startswith("d")]
        where = f"WHERE {identifier(outer)}.`r` = 1"
        return f"SELECT {_listed(outer, left, left)}{_from(f'({inner})', outer)} {where}"

    def _body(self) -> tuple[str, Env]:
        """FROM and WHERE of the result, and what columns are called above it."""
        bound, env = self.bound, self.env
        body = ""
        if bound.source is not None:
            body = f" FROM {self._from(bound.source)}"
        if bound.where is not None:
            body += f" WHERE {self.renderer.texts.condition(bound.where, env)}"
        if bound.grouping is None:
            return body, env
        text, env = self._groups(bound.grouping, body)
        body = _from(f"({text})", bound.grouping.alias)
        if bound.having is not None:
            body += f" WHERE {self.renderer.texts.condition(bound.having, env)}"
        return body, env

    def _groups(self, grouping: Grouping, body: str) -> tuple[str, Env]:
        keys = [self._key(each, grouping) for each in grouping.keys]
        columns = {f"k{index}": key for index, key in enumerate(keys)}
        for index, node in enumerate(grouping.calls):
            columns[f"c{index}"] = self.renderer.calls.aggregate(node, self.env, grouping, keys)
        refuse_with_distinct([columns[f"c{index}"] for index in range(len(grouping.calls))])
        columns = columns or {"n": "count(*)"}
        text = f"SELECT {_aliased(columns.values(), columns)}{body}"
        if grouping.sets is not None:
            sets = [f"({', '.join(keys[at] for at in each)})" for each in grouping.sets]
            text += f" GROUP BY GROUPING SETS ({', '.join(sets)})"
        elif keys:
            text += f" GROUP BY {', '.join(keys)}"
        sources = self.bound.source.sources() if self.bound.source else ()
        alias = identifier(grouping.alias)
        names = {k: f"{alias}.{identifier(f'k{i}')}" for i, k in enumerate(grouping.keys)}
        hidden = self.env.hidden | {source.alias for source in sources}
        return text, Env({**self.env.replaced, **names}, hidden)

    def _key(self, node: exp.Expr, grouping: Grouping) -> str:
        """A bare number would be the place of a column."""
        text = self.renderer.texts(node, self.env)
        if not is_constant(node):
            return text
        if grouping.sets is not None:
            raise Untranslatable("a constant among grouping sets")
        return f"CAST({text} AS {spark_type(type_of(node))})"

    def _from(self, source: From) -> str:
        text = self._relation(source.first, lateral=False)
        for join in source.joins:
            text += f" {join.how} {self._relation(join.right, join.lateral)}{self._on(join)}"
        return text

    def _on(self, join: Join) -> str:
        if not join.on:
            return " ON true" if join.how not in ("CROSS JOIN",) else ""
        texts = [self.renderer.texts.truth(each, self.env) for each in join.on]
        return f" ON {' AND '.join(texts)}"

    def _relation(self, source: Source | From, lateral: bool) -> str:
        if isinstance(source, From):
            return f"({self._from(source)})"
        alias = identifier(source.alias)
        if source.unnest is not None:
            word = "LATERAL " if lateral else ""
            return f"{word}explode({self.renderer.texts(source.unnest, self.env)}) AS {alias}(`c0`)"
        if source.query is None:
            return f"{source.table} AS {alias}"
        if isinstance(source.query, Shared):
            return f"{identifier(source.query.name)} AS {alias}"
        own = _own_names(source.query)
        inner = self.renderer.query(source.query, self.env, own, ordered=False)
        return f"{'LATERAL ' if lateral else ''}({inner}) AS {alias}"


def _aliased(texts: Iterable[str], names: Iterable[str]) -> str:
    return ", ".join(
        f"{text} AS {identifier(name)}" for text, name in zip(texts, names, strict=True)
    )
