"""Puts in place of every name what it means."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.expressions import apply_index_offset

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bound import RESOLVED, Bound, Nested, only, reference
from jetbridge.pipeline.translate.scope import Scope
from jetbridge.pipeline.translate.types import NULL
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work

BindQuery = Callable[[exp.Expr, Scope | None], Bound]
_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Grouping)
_QUERIES = (exp.Select, exp.SetOperation, exp.Values)
_NONDETERMINISTIC = (exp.Rand, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)
UNKNOWN = ""
# Stands for an alias that is given to two different columns.
TWICE = exp.Var(this="TWICE")


@dataclass
class Calls:
    """Aggregates or windows of one SELECT, which become columns of a relation of their own."""

    alias: str
    nodes: list[exp.Expr] = field(default_factory=list)

    def column(self, node: exp.Expr) -> exp.Expr:
        if node not in self.nodes:
            self.nodes.append(node)
        column = reference(self.alias, f"c{self.nodes.index(node)}", UNKNOWN)
        del column.meta["duckdb"]
        return column


@dataclass(frozen=True)
class Resolver:
    """`aliases`: names of the SELECT list; `first`: whether they go before columns.

    `aggregates` None: none may stand here.
    """

    work: Work
    scope: Scope
    bind: BindQuery
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    aggregates: Calls | None = None
    windows: Calls | None = None
    named: dict[str, exp.Expr] = field(default_factory=dict)
    certain: bool = True

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """The same expression with its names resolved; the old one is used up."""
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if self._is_aggregate(node):
            return self._aggregate(node)
        special = _SPECIAL.get(type(node))
        if special is not None:
            return special(self, node)
        if node.args.get("negate"):
            node.set("negate", None)
            return exp.Not(this=self(node).copy())
        if isinstance(node, (*_QUERIES, *_NONDETERMINISTIC)):
            raise Untranslatable(f"{node.key} in an expression")
        return self._children(node)

    def _children(self, node: exp.Expr) -> exp.Expr:
        for child in list(node.iter_expressions()):
            if not isinstance(child, (exp.Identifier, exp.DataType, exp.Star)):
                child.replace(self(child))
        return node

    def _column(self, node: exp.Column) -> exp.Expr:
        if node.meta.get(RESOLVED):
            return node
        parts = [part.name for part in node.parts]
        if isinstance(node.this, exp.Star):
            raise Untranslatable("a star inside an expression")
        found = self.scope.own(parts)
        alias = self.aliases.get(fold(parts[0])) if len(parts) == 1 else None
        if alias is TWICE:
            raise Untranslatable(f"the name {parts[0]}, which two columns have")
        if alias is not None and (found is None or found == alias):
            return exp.Paren(this=alias.copy())
        if alias is not None and not self.certain:
            raise Untranslatable(f"the name {parts[0]}, which is a column and an alias")
        if found is None:
            found = self.scope.find(parts)
        if found is None:
            raise Untranslatable(f"the name {'.'.join(parts)}")
        return found

    def _is_aggregate(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Anonymous):
            return node.name.lower() in self.work.matcher.aggregates
        return isinstance(node, _AGGREGATES)

    def _aggregate(self, node: exp.Expr) -> exp.Expr:
        if self.aggregates is None:
            raise Untranslatable(f"{node.key} here")
        inner = replace(self, aggregates=None, windows=None)
        function = node.this if isinstance(node, (exp.Filter, exp.WithinGroup)) else node
        if function is not node:
            function.replace(inner._children(function))
            node.expression.replace(inner._children(node.expression))
        else:
            inner._children(node)
        own = {*self.work.nested, *(source.alias for source in self.scope.sources)}
        if any(column.table not in own for column in node.find_all(exp.Column)):
            raise Untranslatable("an aggregate of columns of another query")
        return self.aggregates.column(node)

    def _window(self, node: exp.Window) -> exp.Expr:
        if self.windows is None:
            raise Untranslatable("a window function here")
        node = self._with_definition(node)
        inner = replace(self, windows=None)
        only(node, "this", "partition_by", "order", "spec", "over")
        function = node.this
        while isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            function = function.this
        if isinstance(function, exp.Filter):
            raise Untranslatable("FILTER of a window function")  # which Spark has not
        inner._children(function)
        for child in (*node.args.get("partition_by", ()), node.args.get("order")):
            if child is not None:
                child.replace(inner(child))
        return self.windows.column(node)

    def _with_definition(self, node: exp.Window) -> exp.Window:
        """The window that is named instead of written."""
        name = node.args.get("alias")
        if name is None:
            return node
        found = self.named.get(fold(name.name))
        if found is None or node.args.get("order") or node.args.get("partition_by"):
            raise Untranslatable(f"the window {name.name}")
        copied = found.copy()
        copied.set("this", node.this)
        copied.set("over", "OVER")
        return copied if isinstance(copied, exp.Window) else node

    def _nested(self, query: exp.Expr, kind: str) -> exp.Expr:
        """A subquery, as a column of a relation that stands for it."""
        bound = self.bind(query, self.scope)
        if bound.outer - {source.alias for source in self.scope.sources}:
            # Spark looks for a name in the query around, and no further.
            raise Untranslatable("a subquery with columns of a query further out")
        if kind != "exists" and len(bound.fields) != 1:
            raise Untranslatable("a subquery with more than one column")
        alias = self.work.fresh("q")
        self.work.nested[alias] = Nested(kind, bound)
        return reference(alias, "c0", "BOOLEAN" if kind == "exists" else bound.fields[0].type)

    def _subquery(self, node: exp.Expr) -> exp.Expr:
        only(node, "this")
        return self._nested(node.this, "scalar")

    def _exists(self, node: exp.Expr) -> exp.Expr:
        only(node, "this")
        return self._nested(node.this, "exists")

    def _in(self, node: exp.Expr) -> exp.Expr:
        query = node.args.get("query")
        if query is None:
            only(node, "this", "expressions")
            return self._children(node)
        only(node, "this", "query")
        return self._among(node.this, query)

    def _among(self, value: exp.Expr, query: exp.Expr) -> exp.Expr:
        found = self._nested(query.unnest(), "rows")
        return exp.EQ(this=self(value), expression=found)

    def _equal(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node.expression, exp.Any):
            rows = node.expression.this.unnest()
            if isinstance(rows, _QUERIES):
                return self._among(node.this, rows)
        return self._children(node)

    def _unequal(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node.expression, exp.All):
            rows = node.expression.this.unnest()
            if isinstance(rows, _QUERIES):
                return exp.Not(this=self._among(node.this, rows))
        return self._children(node)

    def _case(self, node: exp.Expr) -> exp.Expr:
        """CASE x WHEN y is CASE WHEN x = y."""
        value = node.args.get("this")
        if value is not None:
            for branch in node.args["ifs"]:
                branch.set("this", exp.EQ(this=value.copy(), expression=branch.this))
            node.set("this", None)
        return self._children(node)

    def _bracket(self, node: exp.Expr) -> exp.Expr:
        """The parser counts from 0; DuckDB from 1."""
        shifted = apply_index_offset(node.this, node.expressions, 1, dialect="duckdb")
        node.set("expressions", shifted)
        node.set("offset", 1)
        return self._children(node)

    def _null(self, node: exp.Expr) -> exp.Expr:
        node.meta["duckdb"] = NULL
        return node

    def _refused(self, node: exp.Expr) -> exp.Expr:
        raise Untranslatable(f"{node.key} here")


_SPECIAL: dict[type[exp.Expr], Callable[[Resolver, exp.Expr], exp.Expr]] = {
    exp.Subquery: Resolver._subquery,
    exp.Exists: Resolver._exists,
    exp.In: Resolver._in,
    exp.EQ: Resolver._equal,
    exp.NEQ: Resolver._unequal,
    exp.Any: Resolver._refused,
    exp.All: Resolver._refused,
    exp.Lambda: Resolver._refused,
    exp.Case: Resolver._case,
    exp.Bracket: Resolver._bracket,
    exp.Null: Resolver._null,
    exp.Explode: Resolver._refused,
    exp.Unnest: Resolver._refused,
    exp.Columns: Resolver._refused,
}
