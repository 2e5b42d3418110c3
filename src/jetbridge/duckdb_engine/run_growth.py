"""How large the values are that a query of a client makes out of little.

DuckDB counts no memory that strings and lists take while it computes, and 2,048 rows are computed
at once. So a client's query is measured by its tree before it runs: what makes much of little
needs constants, and what these make together is bounded for each row.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jetbridge.duckdb_engine.functions import SIZES, Size, words
from jetbridge.duckdb_engine.planner import nodes
from jetbridge.duckdb_engine.run_volumes import (
    FIXED,
    ROW,
    Tree,
    Volume,
    check_unnested,
    largest,
    made_by,
    total,
)
from jetbridge.errors import PermissionDenied

_MOST_MADE = 128 * 1024
# Of all values for one row, where a function makes much of little.
_MOST_TOGETHER = 256 * 1024
_MOST_PER_ROW = 1_000
_MOST_LEVELS = 130


@dataclass(frozen=True)
class _Scope:
    """What names stand for: columns, aliases and parameters of lambdas, and parts by WITH."""

    columns: Volume = ROW
    names: Mapping[str, Volume] = field(default_factory=dict)
    parts: Mapping[str, Volume] = field(default_factory=dict)
    # Of the lists whose items are parameters; a lambda within sees them as large as these.
    lists: Mapping[str, Volume] = field(default_factory=dict)

    def knows(self, names: Mapping[str, Volume]) -> "_Scope":
        return replace(self, names={**self.names, **names})


def check_volumes(tree: Tree) -> None:
    """Raises PermissionDenied for a query whose values have no bound, or too large a one."""
    amplifies = any(
        SIZES.get(str(node.get("function_name")).lower()) in _AMPLIFYING for node in nodes(tree)
    )
    _Meter(amplifies=amplifies).measure(tree["statements"], _Scope())


class _Meter:
    def __init__(self, *, amplifies: bool) -> None:
        self._amplifies = amplifies
        self._level = 0
        self._together = 0

    def measure(self, tree: Any, scope: _Scope) -> Volume:
        if isinstance(tree, list):
            return largest([self.measure(each, scope) for each in tree])
        if not isinstance(tree, dict):
            return Volume()
        self._level += 1
        if self._level > _MOST_LEVELS and self._amplifies:
            raise PermissionDenied("the query is nested too deeply here; split it")
        deep = self._level > _MOST_LEVELS
        found = ROW if deep else self._rule(tree)(tree, scope)
        self._level -= 1
        return found

    def _rule(self, node: Tree) -> Callable[[Tree, _Scope], Volume]:
        by_kind = {
            "CONSTANT": self._constant,
            "COLUMN_REF": self._column,
            "STAR": self._star,
            "CAST": self._cast,
            "COMPARISON": self._answer,
            "CONJUNCTION": self._answer,
            "BETWEEN": self._answer,
            "FUNCTION": self._call,
            "SELECT_NODE": self._select,
            "BASE_TABLE": self._table,
            "JOIN": self._join,
            "TABLE_FUNCTION": self._table_function,
            "ARRAY_CONSTRUCTOR": self._list,
        }
        kinds = (node.get("class"), node.get("type"))
        return next((by_kind[k] for k in kinds if isinstance(k, str) and k in by_kind), self._any)

    def _any(self, node: Tree, scope: _Scope) -> Volume:
        inner = self._with(node, scope)
        return largest([self.measure(v, inner) for k, v in node.items() if k != "cte_map"])

    def _with(self, node: Tree, scope: _Scope) -> _Scope:
        for each in (node.get("cte_map") or {}).get("map") or ():
            made = self.measure(each["value"], scope)
            made = largest([made, ROW])
            scope = replace(scope, parts={**scope.parts, str(each["key"]).lower(): made})
        return scope

    def _select(self, node: Tree, scope: _Scope) -> Volume:
        scope = self._with(node, scope)
        read = self.measure(node["from_table"], scope)
        inner = replace(scope, columns=largest([scope.columns, read]))
        made = []
        for each in node["select_list"]:
            made.append(self.measure(each, inner))
            if each.get("alias"):
                known = {each["alias"].lower(): largest([made[-1], inner.columns])}
                inner = inner.knows(known)
        others = ("from_table", "select_list", "cte_map")
        for name, value in node.items():
            if name not in others:
                self.measure(value, inner)
        return largest(made)

    def _table(self, node: Tree, scope: _Scope) -> Volume:
        return scope.parts.get(str(node["table_name"]).lower(), ROW)

    def _join(self, node: Tree, scope: _Scope) -> Volume:
        """The right side may name columns of the left one."""
        left = self.measure(node["left"], scope)
        inner = replace(scope, columns=largest([scope.columns, left]))
        right = self.measure(node["right"], inner)
        both = largest([left, right])
        self.measure(node.get("condition"), replace(scope, columns=both))
        return both

    def _table_function(self, node: Tree, scope: _Scope) -> Volume:
        """It makes rows, one after the other."""
        call = node["function"]
        if str(call["function_name"]).lower() == "unnest":
            return largest([self._unnested(call, scope), ROW])
        return largest([ROW, self.measure(call["children"], scope)])

    def _constant(self, node: Tree, _: _Scope) -> Volume:
        value = node["value"].get("value")
        return Volume(made=len(value)) if isinstance(value, str) else FIXED

    def _column(self, node: Tree, scope: _Scope) -> Volume:
        names = node["column_names"]
        found = scope.names.get(str(names[0]).lower(), scope.columns)
        # A table may be called as a parameter is.
        return found if len(names) == 1 else largest([found, scope.columns])

    def _star(self, node: Tree, scope: _Scope) -> Volume:
        return largest([self._any(node, scope), scope.columns])

    def _cast(self, node: Tree, scope: _Scope) -> Volume:
        return self.measure(node["child"], scope)

    def _answer(self, node: Tree, scope: _Scope) -> Volume:
        self._any(node, scope)
        return FIXED

    def _list(self, node: Tree, scope: _Scope) -> Volume:
        return total(
            largest([self.measure(each, scope), FIXED]) for each in node.get("children", ())
        )

    def _unnested(self, call: Tree, scope: _Scope) -> Volume:
        given = call["children"]
        if len(given) == 1 and SIZES.get(str(given[0].get("function_name"))) is Size.COUNT:
            check_unnested(given[0])
            self.measure(given[0]["children"], scope)
            return FIXED
        return self.measure(given, scope)

    def _call(self, node: Tree, scope: _Scope) -> Volume:
        name = str(node["function_name"]).lower()
        if name == "unnest":
            return self._unnested(node, scope)
        given = node["children"]
        if given and given[-1].get("class") == "LAMBDA" or name in _REDUCING:
            found = self._lambda(name, node, scope)
        else:
            # ORDER BY and FILTER of an aggregate.
            self.measure([node.get("filter"), node.get("order_bys")], scope)
            found = made_by(name, node, [self.measure(each, scope) for each in given])
        if self._amplifies:
            self._together += found.made
        self._check(name, found)
        return found

    def _check(self, name: str, found: Volume) -> None:
        if found.made > _MOST_MADE or self._together > _MOST_TOGETHER:
            raise PermissionDenied(
                f"{name}() can make more than {_MOST_MADE} bytes of constants for each row here, "
                "with what is made before; write smaller numbers"
            )
        if max(found.row, found.item) > _MOST_PER_ROW:
            raise PermissionDenied(
                f"{name}() can make values of more than {_MOST_PER_ROW} times the row here; "
                "write smaller numbers, or cut the string first as in left(x, 10)"
            )

    def _lambda(self, name: str, node: Tree, scope: _Scope) -> Volume:
        given = node["children"]
        about = next((each for each in given if each.get("class") == "LAMBDA"), None)
        others = [self.measure(each, scope) for each in given if each is not about]
        if about is None:
            return total(others)
        whole = total(others)
        parameters = list(_parameters(about.get("lhs")))
        known = {**scope.lists, **dict.fromkeys(parameters, Volume(item=1))}
        if name in _REDUCING:
            # What grows from step to step is the first one.
            known |= dict.fromkeys(parameters[1:], whole)
        lists = {**scope.lists, **dict.fromkeys(parameters, whole)}
        body = self.measure(about.get("expr"), replace(scope.knows(known), lists=lists))
        if name in _REDUCING and body.item > 1:
            raise PermissionDenied(
                f"the lambda of {name}() must use its first parameter only once here"
            )
        if "filter" in name:
            return whole
        made = Volume(body.row, 0, body.made).times(whole.items)
        kept = whole if name in _REDUCING else whole.times(body.item)
        return kept + made + Volume(row=whole.row * (body.made // 16))


_REDUCING = words("list_reduce array_reduce reduce")
_AMPLIFYING = (Size.REPEAT, Size.PAD, Size.COUNT, Size.FORMAT)


def _parameters(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and node.get("class") == "COLUMN_REF":
        yield str(node["column_names"][0]).lower()
    elif isinstance(node, dict):
        for each in node.get("children") or ():
            yield from _parameters(each)
