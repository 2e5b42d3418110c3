"""Spark SQL for expressions.

Every kind of node has its own small function; what has none, and is in no entry, is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from jetbridge.dialects.spark import identifier, literal
from jetbridge.pipeline.translate.bound import Bound, Nested, only, set_type, type_of, what
from jetbridge.pipeline.translate.coerce import Typed, compared, converted
from jetbridge.pipeline.translate.constants import (
    NoValue,
    constant_text,
    is_constant,
    python_value,
)
from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.match import bracketed, filled, takes
from jetbridge.pipeline.translate.types import NULL, element_type, kind, struct_fields
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.work import Work

# A mark of a search in a subquery that stands where Spark does it right.
_FILTERS = "filters"
# All their arguments have the type of the result.
_UNIFIED = (exp.Coalesce, exp.Greatest, exp.Least)
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_EXACT = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "DECIMAL"})


@dataclass(frozen=True)
class Env:
    """What columns are called here.

    `replaced`: keys of a group, by what they are; `hidden`: relations below the groups.
    """

    replaced: Mapping[exp.Expr, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


class Queries(Protocol):
    """Renders the queries and windows inside of expressions."""

    def nested(self, query: Bound, env: Env, wanted: str | None = None) -> str: ...

    def window(self, node: exp.Expr, env: Env) -> str: ...


@dataclass
class Texts:
    work: Work
    queries: Queries

    def __call__(self, node: exp.Expr, env: Env) -> str:
        """Spark SQL of exactly the type that DuckDB plans for the node."""
        if env.replaced and node in env.replaced:
            return env.replaced[node]
        if is_constant(node) and not isinstance(node, exp.Interval):
            return constant_text(self.work, node, type_of(node))
        handler = _HANDLERS.get(type(node))
        return self._entry(node, env) if handler is None else handler(self, node, env)

    def of_type(self, node: exp.Expr, wanted: str, env: Env) -> str:
        """With the cast that DuckDB adds by itself; it computes constants beforehand."""
        if is_constant(node) and node not in env.replaced:
            return constant_text(self.work, node, wanted)
        return converted(self.work.matcher, self(node, env), type_of(node), wanted)

    def _entry(self, node: exp.Expr, env: Env) -> str:
        result = type_of(node)
        for entry, arguments in self.work.matcher.candidates(node, "scalar"):
            types = [
                result if isinstance(node, _UNIFIED) else _type(entry, index, each)
                for index, each in enumerate(arguments)
            ]
            if takes(entry, types, result):
                texts = self.arguments(entry, arguments, types, env)
                if texts is not None:
                    return filled(entry, texts, result)
        raise Untranslatable(self.refusal(node))

    def arguments(
        self, entry: Entry, arguments: list[exp.Expr], types: list[str], env: Env
    ) -> list[str] | None:
        """None: an argument that must be a constant is none, or not one that can be translated."""
        texts = []
        for index, node in enumerate(arguments):
            if index in entry.constants:
                try:
                    text = entry.constants[index](python_value(node))
                except NoValue:
                    text = None
            else:
                text = self.of_type(node, types[index], env)
            if text is None:
                return None
            texts.append(text)
        return texts

    def refusal(self, node: exp.Expr) -> str:
        """Names the piece, with the types it was asked for."""
        given = [each.meta.get("duckdb") for each in node.iter_expressions()]
        listed = ", ".join(str(each) for each in given if each)
        return f"{what(node)} of {listed}" if listed else what(node)

    def _paren(self, node: exp.Expr, env: Env) -> str:
        return self(node.this, env)

    def _column(self, node: exp.Expr, env: Env) -> str:
        alias = node.text("table")
        if alias in self.work.nested:
            return self._nested(self.work.nested[alias], env)
        if alias in self.work.windows:
            return self.queries.window(self.work.windows[alias][int(node.name[1:])], env)
        if alias in env.hidden:
            raise Untranslatable(f"the column {node.name}, which is no key of the group")
        return f"{identifier(alias)}.{identifier(node.name)}"

    def _nested(self, nested: Nested, env: Env) -> str:
        if nested.kind == "rows":
            raise Untranslatable("a subquery here")
        text = self.queries.nested(nested.query, env)
        return f"EXISTS ({text})" if nested.kind == "exists" else f"({text})"

    def _dot(self, node: exp.Expr, env: Env) -> str:
        return f"{bracketed(self(node.this, env))}.{identifier(node.expression.name)}"

    def _and_or(self, node: exp.Expr, env: Env) -> str:
        word = " AND " if isinstance(node, exp.And) else " OR "
        return f"({word.join(self.truth(each, env) for each in _chain(node, type(node)))})"

    def _not(self, node: exp.Expr, env: Env) -> str:
        return f"(NOT {self.truth(node.this, env)})"

    def truth(self, node: exp.Expr, env: Env) -> str:
        """DuckDB takes numbers for truth as well; that is refused."""
        if type_of(node) not in ("BOOLEAN", NULL):
            raise Untranslatable(f"{type_of(node)} as a condition")
        return bracketed(self.of_type(node, "BOOLEAN", env))

    def _is(self, node: exp.Expr, env: Env) -> str:
        value = node.expression
        if isinstance(value, exp.Null):
            return f"({bracketed(self(node.this, env))} IS NULL)"
        if isinstance(value, exp.Boolean):
            word = "TRUE" if value.this else "FALSE"
            return f"({self.truth(node.this, env)} IS {word})"
        raise Untranslatable("IS with this")

    def _comparison(self, node: exp.Expr, env: Env) -> str:
        rows = self._rows(node.expression)
        if rows is not None:
            if not node.meta.get(_FILTERS):
                raise Untranslatable("IN a subquery other than to choose rows")
            return self._among(node.this, rows.query, env)
        left, right = self._operands([node.this, node.expression], env)
        if not isinstance(node, exp.Binary):
            raise Untranslatable(what(node))
        return compared(self.work.matcher, type(node), left, right)

    def condition(self, node: exp.Expr, env: Env) -> str:
        """What chooses rows; NULL and false are the same there.

        They are the same to Spark wherever IN has a subquery, so that only here it is right, and
        its opposite only where nothing but AND is around it.
        """
        self._mark(node, conjunct=True)
        if type_of(node) != "BOOLEAN":
            raise Untranslatable(f"{type_of(node)} as a condition")
        return self(node, env)

    def _mark(self, node: exp.Expr, conjunct: bool) -> None:
        node = node.unnest()
        if isinstance(node, exp.Not) and conjunct:
            inner = node.this.unnest()
            if isinstance(inner, exp.EQ) and self._rows(inner.expression) is not None:
                node = inner
        if isinstance(node, exp.EQ) and self._rows(node.expression) is not None:
            node.meta[_FILTERS] = True
        elif isinstance(node, (exp.And, exp.Or)):
            for each in _chain(node, type(node)):
                self._mark(each, conjunct and isinstance(node, exp.And))

    def _rows(self, node: exp.Expr) -> Nested | None:
        found = self.work.nested.get(node.text("table")) if isinstance(node, exp.Column) else None
        return found if found is not None and found.kind == "rows" else None

    def _among(self, value: exp.Expr, query: Bound, env: Env) -> str:
        given = query.fields[0].type
        wanted = given if is_constant(value) else _wider(type_of(value), given)
        text = self.of_type(value, wanted, env)
        compared(self.work.matcher, exp.EQ, (text, wanted), (text, wanted))
        return f"({bracketed(text)} IN ({self.queries.nested(query, env, wanted)}))"

    def _operands(self, nodes: list[exp.Expr], env: Env) -> list[Typed]:
        """Constants in quotes and NULL take the type of the others, numbers that of a float."""
        firm = {type_of(node) for node in nodes if not _yields(node)}
        wanted = firm.pop() if len(firm) == 1 else None
        if not firm and wanted is None:
            wanted = "VARCHAR"
        moving = {type_of(node) for node in nodes if not is_constant(node)}
        if wanted is None and moving <= {"DOUBLE"} and moving:
            wanted = "DOUBLE"
        found = []
        for node in nodes:
            goes = wanted if wanted is not None and is_constant(node) else type_of(node)
            found.append((self.of_type(node, goes, env), goes))
        return found

    def _between(self, node: exp.Expr, env: Env) -> str:
        only(node, "this", "low", "high")
        nodes = [node.this, node.args["low"], node.args["high"]]
        value, low, high = _exact_or_same(self._operands(nodes, env))
        above = compared(self.work.matcher, exp.GTE, value, low)
        return f"({above} AND {compared(self.work.matcher, exp.LTE, value, high)})"

    def _in(self, node: exp.Expr, env: Env) -> str:
        only(node, "this", "expressions")
        nodes = [node.this, *node.expressions]
        value, *others = _exact_or_same(self._operands(nodes, env))
        tests = [compared(self.work.matcher, exp.EQ, value, each) for each in others]
        if all(each[1] == value[1] for each in others):
            return f"({bracketed(value[0])} IN ({', '.join(each[0] for each in others)}))"
        return f"({' OR '.join(tests)})"

    def _case(self, node: exp.Expr, env: Env) -> str:
        only(node, "ifs", "default")
        wanted = type_of(node)
        parts = []
        for each in node.args["ifs"]:
            parts.append(f"WHEN {self.truth(each.this, env)}")
            parts.append(f"THEN {self.of_type(each.args['true'], wanted, env)}")
        default = node.args.get("default")
        if default is not None:
            parts.append(f"ELSE {self.of_type(default, wanted, env)}")
        return f"(CASE {' '.join(parts)} END)"

    def _if(self, node: exp.Expr, env: Env) -> str:
        return self._case(_as_case(node), env)

    def _bracket(self, node: exp.Expr, env: Env) -> str:
        """A place in a list has a function of the same meaning."""
        if kind(type_of(node.this)) != "LIST" or isinstance(node.expressions[0], exp.Slice):
            return self._entry(node, env)
        given = [node.this.copy(), node.expressions[0].copy()]
        call = exp.Anonymous(this="list_element", expressions=given)
        return self._entry(set_type(call, type_of(node)), env)

    def _array(self, node: exp.Expr, env: Env) -> str:
        inner = element_type(type_of(node))
        if not node.expressions:
            raise Untranslatable("an empty list")
        texts = [self.of_type(each, inner, env) for each in node.expressions]
        return f"array({', '.join(texts)})"

    def _struct(self, node: exp.Expr, env: Env) -> str:
        """The names of the fields are those that DuckDB planned."""
        only(node, "expressions")
        parts = []
        fields = struct_fields(type_of(node))
        for each, (name, wanted) in zip(node.expressions, fields, strict=True):
            if not isinstance(each, exp.PropertyEQ):
                raise Untranslatable("a struct without names")
            parts += [literal(name), self.of_type(each.expression, wanted, env)]
        return f"named_struct({', '.join(parts)})"

    def _cast(self, node: exp.Expr, env: Env) -> str:
        if type_of(node.this) == type_of(node):
            return self(node.this, env)
        if type_of(node.this) == NULL:
            return self.of_type(node.this, type_of(node), env)
        return self._entry(node, env)


def _as_case(node: exp.Expr) -> exp.Expr:
    branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
    default = node.args.get("false")
    case = exp.Case(ifs=[branch], default=default.copy() if default else None)
    case.meta["duckdb"] = type_of(node)
    return case


def _type(entry: Entry, index: int, node: exp.Expr) -> str:
    """The type of a constant that the entry looks at itself is nobody's concern."""
    if index in entry.constants:
        return ""
    return "INTERVAL" if isinstance(node.unnest(), exp.Interval) else type_of(node)


def _yields(node: exp.Expr) -> bool:
    """Whether it takes the type of what it is compared with."""
    node = node.unnest()
    return type_of(node) == NULL or (isinstance(node, exp.Literal) and node.is_string)


def _exact_or_same(operands: list[Typed]) -> list[Typed]:
    """Three or more are compared in one common type, which matters where floats are among them."""
    types = {duckdb_type for _, duckdb_type in operands}
    kinds = {kind(each) for each in types}
    if len(types) > 1 and not kinds <= _EXACT:
        raise Untranslatable(f"one comparison of {', '.join(sorted(types))}")
    return operands


def _wider(one: str, other: str) -> str:
    """Of two types of whole numbers the one that holds both; others must be the same."""
    if one == other:
        return one
    if one not in _WHOLE or other not in _WHOLE:
        raise Untranslatable(f"IN a subquery of {other} for {one}")
    return max(one, other, key=_WHOLE.index)


def _chain(node: exp.Expr, cls: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The parts of a AND b AND c, without going deeper for each."""
    parts = []
    while type(node) is cls:
        parts.append(node.expression)
        node = node.this
    yield node
    yield from reversed(parts)


_HANDLERS: dict[type[exp.Expr], Callable[[Texts, exp.Expr, Env], str]] = {
    exp.Paren: Texts._paren,
    exp.Column: Texts._column,
    exp.Dot: Texts._dot,
    exp.And: Texts._and_or,
    exp.Or: Texts._and_or,
    exp.Not: Texts._not,
    exp.Is: Texts._is,
    exp.EQ: Texts._comparison,
    exp.NEQ: Texts._comparison,
    exp.GT: Texts._comparison,
    exp.GTE: Texts._comparison,
    exp.LT: Texts._comparison,
    exp.LTE: Texts._comparison,
    exp.NullSafeEQ: Texts._comparison,
    exp.NullSafeNEQ: Texts._comparison,
    exp.Between: Texts._between,
    exp.In: Texts._in,
    exp.Case: Texts._case,
    exp.If: Texts._if,
    exp.Cast: Texts._cast,
    exp.Array: Texts._array,
    exp.Bracket: Texts._bracket,
    exp.Struct: Texts._struct,
}
