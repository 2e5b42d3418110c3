"""Spark SQL for aggregates and windows."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from jetbridge.pipeline.translate.bound import Grouping, only, type_of, what
from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.entries.entry import around as decorated
from jetbridge.pipeline.translate.match import bracketed, filled, takes
from jetbridge.pipeline.translate.tail import refuse_nested_type
from jetbridge.pipeline.translate.text import Env, Texts
from jetbridge.pipeline.translate.untranslatable import Untranslatable

# The argument, if it is a column and nothing more.
# What they yield depends on the order of rows, so that it has to be given.
_ORDERED = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
    exp.First,
    exp.Last,
)
# DuckDB pays no attention to a frame around these, and Spark has only its own.
_FRAMELESS = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
)
_WINDOWS = (exp.Window, exp.IgnoreNulls, exp.RespectNulls)
_ORDER_MATTERS = (exp.ArrayAgg, exp.GroupConcat, exp.First, exp.Last, exp.AnyValue)


@dataclass
class _Around:
    """What stands around a call: behind its brackets, and at the front inside of them."""

    before: str = ""
    after: str = ""


@dataclass
class CallTexts:
    texts: Texts

    def aggregate(self, node: exp.Expr, env: Env, grouping: Grouping, keys: list[str]) -> str:
        if isinstance(node, exp.Grouping):
            return self._grouping(node, grouping, keys)
        around = _Around()
        if isinstance(node, exp.Filter):
            condition = self.texts(node.expression.this, env)
            around.after = f" FILTER (WHERE {condition})"
            node.this.meta["duckdb"] = type_of(node)
            node = node.this
        if isinstance(node, exp.WithinGroup):
            raise Untranslatable("WITHIN GROUP")
        return self._call(node, around, env, ("aggregate",))

    def _grouping(self, node: exp.Expr, grouping: Grouping, keys: list[str]) -> str:
        """One bit a key, the first of them highest; Spark's own for several keys wants all."""
        bits = []
        for shift, each in enumerate(reversed(node.expressions)):
            if each not in grouping.keys or grouping.sets is None:
                raise Untranslatable("grouping() of this")
            key = keys[grouping.keys.index(each)]
            bits.append(f"CAST(grouping({key}) AS BIGINT) * {2**shift}")
        return f"({' + '.join(bits)})"

    def _call(self, node: exp.Expr, around: _Around, env: Env, kinds: tuple[str, ...]) -> str:
        result = type_of(node)
        bare = self._bare(node, around)
        for entry, arguments in self.texts.work.matcher.candidates(bare, *kinds):
            types = [
                "" if index in entry.constants else type_of(each)
                for index, each in enumerate(arguments)
            ]
            if not takes(entry, types, result):
                continue
            texts = self.texts.arguments(entry, arguments, types, env)
            if texts is not None:
                return filled(entry, texts, result, _decorated(entry, around), around.after)
        raise Untranslatable(self.texts.refusal(bare))

    def _bare(self, node: exp.Expr, around: _Around) -> exp.Expr:
        """The call without DISTINCT; an order inside is left where it matters, to the entries."""
        inner = node.args.get("this")
        if isinstance(node, _ORDER_MATTERS) and not isinstance(node.parent, _WINDOWS):
            if not isinstance(inner, exp.Order):
                raise Untranslatable(f"{what(node)} without ORDER BY")
            return node
        if isinstance(inner, exp.Order):
            inner = inner.this
        if isinstance(inner, exp.Distinct):
            only(inner, "expressions")
            if len(inner.expressions) != 1:
                raise Untranslatable("DISTINCT over several values")
            around.before = "DISTINCT "
            inner = inner.expressions[0]
        if inner is node.args.get("this"):
            return node
        copied = node.copy()
        copied.set("this", inner.copy() if inner is not None else None)
        return copied

    def window(self, node: exp.Expr, env: Env) -> str:
        function = node.this
        nulls = ""
        if isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
            nulls = " IGNORE NULLS" if isinstance(function, exp.IgnoreNulls) else ""
            function = function.this
        order = node.args.get("order")
        if order is None and isinstance(function, _ORDERED):
            raise Untranslatable(f"{what(function)} without ORDER BY")
        over = [*self._partition(node, env), *self._order(order, env), *_frame(node, function)]
        function.meta["duckdb"] = type_of(node)
        around = _Around("", f"{nulls} OVER ({' '.join(over)})")
        text = self._call(function, around, env, ("aggregate", "window"))
        if around.before:
            raise Untranslatable("DISTINCT of a window function")
        return text

    def _partition(self, node: exp.Expr, env: Env) -> list[str]:
        keys = [_key(self.texts(each, env)) for each in node.args.get("partition_by") or ()]
        return [f"PARTITION BY {', '.join(keys)}"] if keys else []

    def _order(self, order: exp.Expr | None, env: Env) -> list[str]:
        if order is None:
            return []
        keys = []
        for each in order.expressions:
            only(each, "this", "desc", "nulls_first")
            refuse_nested_type(type_of(each.this))
            keys.append(_key(self.texts(each.this, env)) + direction(each.args))
        return [f"ORDER BY {', '.join(keys)}"]


def refuse_with_distinct(calls: Sequence[str]) -> None:
    """Spark 4.1 fails where it rewrites most forms of DISTINCT beside WITHIN GROUP."""
    if any(" WITHIN GROUP " in text for text in calls) and any("(DISTINCT " in t for t in calls):
        raise Untranslatable("string_agg beside DISTINCT")


def _key(text: str) -> str:
    return bracketed(text)


def direction(args: dict[str, object]) -> str:
    """DuckDB puts NULL last in both directions."""
    down = "DESC" if args.get("desc") else "ASC"
    return f" {down} NULLS {'FIRST' if args.get('nulls_first') else 'LAST'}"


def _decorated(entry: Entry, around: _Around) -> str:
    """The template, with DISTINCT in and a hole behind every call, for what stands around it."""
    if not around.before and not around.after:
        return entry.spark
    if entry.plain_only:
        raise Untranslatable(f"{entry.duckdb} with DISTINCT, FILTER or OVER")
    if around.before and "(*)" in entry.spark:
        raise Untranslatable("DISTINCT of a star")
    return decorated(entry.spark, distinct=bool(around.before), behind="{behind}")


def _frame(node: exp.Expr, function: exp.Expr) -> list[str]:
    spec = node.args.get("spec")
    if spec is None or isinstance(function, _FRAMELESS):
        return []
    only(spec, "kind", "start", "start_side", "end", "end_side")
    unit = str(spec.args.get("kind") or "").upper()
    if unit not in ("ROWS", "RANGE"):
        raise Untranslatable(f"a window of {unit}")
    start = _edge(unit, spec.args.get("start"), spec.args.get("start_side"))
    end = _edge(unit, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
    return [f"{unit} BETWEEN {start} AND {end}"]


def _edge(unit: str, value: object, side: object) -> str:
    word = str(side or "").upper()
    if isinstance(value, str) and value.upper() == "CURRENT ROW":
        return "CURRENT ROW"
    if isinstance(value, str) and value.upper() == "UNBOUNDED" and word:
        return f"UNBOUNDED {word}"
    if unit == "ROWS" and isinstance(value, exp.Literal) and value.this.isdigit() and word:
        return f"{value.this} {word}"
    raise Untranslatable("this frame of a window")
