"""SELECT and what it is made of, compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.compare import compared, group_key, sort_key
from standins.tds.engine.expressions.compiler import (
    Expressions,
    Surroundings,
    column_parts,
    common_type,
)
from standins.tds.engine.expressions.convert import cast_to
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.queries.access import Access, CatalogAccess
from standins.tds.engine.queries.sources import Sources
from standins.tds.engine.storage.catalog import Table
from standins.tds.engine.types import unified
from standins.tds.values import Column


@dataclass(frozen=True)
class Query:
    """`sql` yields columns c0, c1, …; `columns` say what they are."""

    sql: str
    columns: tuple[Expr, ...]

    def over(self, alias: str) -> tuple[Expr, ...]:
        return tuple(
            replace(each, sql=f"{alias}.c{place}", constant=False, literal=None)
            for place, each in enumerate(self.columns)
        )


@dataclass(frozen=True)
class SystemRows:
    columns: tuple[Column, ...]
    rows: pa.Table


class Names(Surroundings, Protocol):
    """What a session knows of tables."""

    def find(self, parts: tuple[str, ...]) -> Table:
        """Raises 208; waits for a transaction that is changing what the name means."""
        ...

    def gives_identity(self, table: Table) -> bool:
        """Whether values for its identity column may be given."""
        ...

    def system_rows(self, parts: tuple[str, ...]) -> tuple[str, SystemRows] | None: ...


@dataclass
class Ordering:
    keys: list[str] = field(default_factory=list)

    @property
    def sql(self) -> str:
        return f" ORDER BY {', '.join(self.keys)}" if self.keys else ""


class Queries(Expressions):
    around: Names

    def __init__(self, around: Names) -> None:
        super().__init__(around)
        self.accesses: dict[str, Access] = {}
        self.catalog_accesses: dict[str, CatalogAccess] = {}
        self.ctes: dict[str, Query] = {}
        self.sources = Sources(self)

    def query(self, node: exp.Expr, parent: Scope | None = None, top: bool = False) -> Query:
        with self._ctes(node, parent):
            if isinstance(node, exp.Select):
                return self._select(node, parent, top)
            if isinstance(node, exp.SetOperation):
                return self._set_operation(node, parent)
            if isinstance(node, exp.Subquery | exp.Paren):
                return self.query(node.this, parent, top)
        raise unknown(f"{type(node).__name__} as a query")

    @contextmanager
    def _ctes(self, node: exp.Expr, parent: Scope | None) -> Iterator[None]:
        with_ = node.args.get("with_")
        if with_ is None:
            yield
            return
        before = dict(self.ctes)
        for each in with_.expressions:
            _refuse_recursion(each)
            self.ctes[each.alias.lower()] = self.renamed(self.query(each.this, parent), each)
        yield
        self.ctes = before

    def renamed(self, query: Query, node: exp.Expr) -> Query:
        """With the column names of an alias such as q(a, b)."""
        alias = node.args.get("alias")
        names = [each.name for each in alias.columns] if isinstance(alias, exp.TableAlias) else []
        if names and len(names) != len(query.columns):
            raise error(8155, len(names), node.alias)
        columns = query.columns
        if names:
            columns = tuple(each.named(name) for each, name in zip(columns, names, strict=True))
        for place, each in enumerate(columns, 1):
            if not each.name:
                raise error(8155, place, node.alias)
        return Query(query.sql, columns)

    def _select(self, node: exp.Select, parent: Scope | None, top: bool) -> Query:
        _refuse(node)
        scope = Scope(parent=parent)
        from_sql = self.sources.from_clause(node, scope)
        where = node.args.get("where")
        where_sql = f" WHERE {self.predicate(where.this, scope)}" if where else ""
        if where:
            self.sources.note_seeks(where.this, scope)
        grouping = self._group(node, scope)
        items = self._items(node, scope)
        having = node.args.get("having")
        having_sql = f" HAVING {self.predicate(having.this, scope)}" if having else ""
        ordering = self._ordering(node, scope, items)
        limit = self._limit(node)
        if ordering.keys and not limit and not top:
            raise error(1033)
        listed = ", ".join(f"{each.sql} AS c{place}" for place, each in enumerate(items))
        distinct = self._distinct(node, items)
        sql = f"SELECT {distinct}{listed}{from_sql}{where_sql}{grouping}{having_sql}"
        return Query(f"{sql}{ordering.sql}{limit}", tuple(items))

    def _distinct(self, node: exp.Select, items: list[Expr]) -> str:
        if not node.args.get("distinct"):
            return ""
        return f"DISTINCT ON ({', '.join(group_key(each) for each in items)}) "

    def _group(self, node: exp.Select, scope: Scope) -> str:
        group = node.args.get("group")
        if group is None:
            return ""
        if set(group.args) - {"expressions"} and any(
            value for key, value in group.args.items() if key != "expressions"
        ):
            raise unknown(group.sql(dialect="tsql"))
        made = [self.value(each, scope) for each in group.expressions]
        for each in made:
            if group_key(each) != each.sql:
                scope.groups[each.sql] = f"any_value({each.sql})"
        return f" GROUP BY {', '.join(group_key(each) for each in made)}"

    def _items(self, node: exp.Select, scope: Scope) -> list[Expr]:
        items: list[Expr] = []
        for each in node.expressions:
            if isinstance(each, exp.Star):
                items += self._starred((), scope)
            elif isinstance(each, exp.Column) and isinstance(each.this, exp.Star):
                items += self._starred(column_parts(each)[:-1], scope)
            else:
                items.append(self.item(each, scope))
        return items

    def _starred(self, qualifier: tuple[str, ...], scope: Scope) -> list[Expr]:
        found = scope.starred(qualifier)
        if not found and not scope.sources:
            raise error(102, "*")
        return [
            replace(each, sql=scope.groups[each.sql]) if each.sql in scope.groups else each
            for each in found
        ]

    def item(self, node: exp.Expr, scope: Scope) -> Expr:
        if isinstance(node, exp.Alias):
            return self.value(node.this, scope).named(node.alias)
        made = self.value(node, scope)
        return made.named(made.name if isinstance(node, exp.Column) else "")

    def _ordering(self, node: exp.Expr, scope: Scope, items: list[Expr]) -> Ordering:
        order = node.args.get("order")
        keys = []
        for each in order.expressions if order else ():
            found = self._ordered(each.this, scope, items)
            direction = "DESC NULLS LAST" if each.args.get("desc") else "ASC NULLS FIRST"
            if not (found.constant and not scope.sources and not items):
                keys.append(f"{sort_key(found)} {direction}")
        return Ordering(keys)

    def _ordered(self, node: exp.Expr, scope: Scope, items: list[Expr]) -> Expr:
        if isinstance(node, exp.Literal) and node.is_int:
            place = int(node.name)
            if not 1 <= place <= len(items):
                raise error(104)
            return items[place - 1]
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            named = [each for each in items if each.name.lower() == node.name.lower()]
            if named:
                return named[0]
        return self.value(node, scope)

    def _limit(self, node: exp.Expr) -> str:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        sql = ""
        if limit is not None:
            count = limit.args.get("count") or limit.args.get("expression")
            options = limit.args.get("limit_options")
            if options is not None and (
                options.args.get("percent") or options.args.get("with_ties")
            ):
                raise unknown("TOP PERCENT or WITH TIES")
            sql = f" LIMIT {self._number(count)}"
        if offset is not None:
            sql += f" OFFSET {self._number(offset.expression)}"
        return sql

    def _number(self, node: exp.Expr) -> int:
        return int(self.evaluate(self.value(node, Scope())))

    def _set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Query:
        left, right = self.query(node.this, parent), self.query(node.expression, parent)
        if len(left.columns) != len(right.columns):
            raise error(205)
        types = [
            unified(one.type, two.type)
            if not one.null and not two.null
            else common_type([one, two])
            for one, two in zip(left.columns, right.columns, strict=True)
        ]
        columns = tuple(
            replace(one, type=sql_type, nullable=one.nullable or two.nullable, constant=False,
                    literal=None, null=False, sql=f"c{place}")
            for place, (one, two, sql_type) in enumerate(
                zip(left.columns, right.columns, types, strict=True)
            )
        )  # fmt: skip
        sides = [self._side(side, types) for side in (left, right)]
        sql = COMBINED[type(node)](
            self, sides[0], sides[1], columns, bool(node.args.get("distinct"))
        )
        ordering = self._ordering(node, Scope(), list(columns))
        return Query(f"SELECT * FROM ({sql}) AS u{ordering.sql}{self._limit(node)}", columns)

    def _side(self, query: Query, types: list[Any]) -> str:
        alias = self.fresh("q")
        listed = ", ".join(
            f"{cast_to(each, sql_type)} AS c{place}"
            for place, (each, sql_type) in enumerate(zip(query.over(alias), types, strict=True))
        )
        return f"SELECT {listed} FROM ({query.sql}) AS {alias}"

    def scalar_query(self, node: exp.Expr, scope: Scope) -> Expr:
        query = self.query(node.this, scope)
        if len(query.columns) != 1:
            raise error(102, ",")
        return replace(
            query.columns[0], sql=f"({query.sql})", nullable=True, constant=False, name="",
            literal=None, identity=False,
        )  # fmt: skip

    def exists(self, node: exp.Expr, scope: Scope) -> str:
        return f"EXISTS ({self.query(node, scope).sql})"

    def in_query(self, value: Expr, node: exp.Expr, scope: Scope) -> str:
        query = self.query(node, scope)
        alias = self.fresh("q")
        test = compared("=", value, query.over(alias)[0])
        left, _, right = test[1:-1].rpartition(" = ")
        return f"({left} IN (SELECT {right} FROM ({query.sql}) AS {alias}))"


def _union(
    compiler: Queries, left: str, right: str, columns: tuple[Expr, ...], distinct: bool
) -> str:
    both = f"{left} UNION ALL {right}"
    if not distinct:
        return both
    return f"SELECT DISTINCT ON ({_keys(columns)}) * FROM ({both}) AS d"


def _except(
    compiler: Queries, left: str, right: str, columns: tuple[Expr, ...], distinct: bool
) -> str:
    return _matching("NOT EXISTS", left, right, columns)


def _intersect(
    compiler: Queries, left: str, right: str, columns: tuple[Expr, ...], distinct: bool
) -> str:
    return _matching("EXISTS", left, right, columns)


def _matching(word: str, left: str, right: str, columns: tuple[Expr, ...]) -> str:
    tests = " AND ".join(
        f"{group_key(replace(each, sql=f'l.{each.sql}'))} IS NOT DISTINCT FROM"
        f" {group_key(replace(each, sql=f'r.{each.sql}'))}"
        for each in columns
    )
    return (
        f"SELECT DISTINCT ON ({_keys(columns)}) * FROM ({left}) AS l"
        f" WHERE {word} (SELECT 1 FROM ({right}) AS r WHERE {tests})"
    )


def _keys(columns: tuple[Expr, ...]) -> str:
    return ", ".join(group_key(each) for each in columns)


COMBINED = {exp.Union: _union, exp.Except: _except, exp.Intersect: _intersect}
REFUSED = ("for_", "qualify", "windows", "pivots", "laterals", "connect", "match", "sample", "into")


def _refuse_recursion(node: exp.Expr) -> None:
    for table in node.this.find_all(exp.Table):
        if not table.args.get("db") and table.name.lower() == node.alias.lower():
            raise unknown("a recursive common table expression")


def _refuse(node: exp.Select) -> None:
    for part in REFUSED:
        if node.args.get(part):
            raise unknown(f"{part.strip('_')} in SELECT")
