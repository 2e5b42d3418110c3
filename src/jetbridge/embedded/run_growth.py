"""How large the values are that a query of a client makes out of little.

DuckDB counts no memory that strings and lists take while it computes, and 2,048 rows are computed
at once. So a client's query is measured by its tree before it runs: what makes much of little
needs constants, and what these make together is bounded for each row.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jetbridge.embedded.functions import SIZES, Size, words
from jetbridge.embedded.workbench import nodes
from jetbridge.errors import PermissionDenied

Tree = dict[str, Any]

_MOST_LENGTH = 100_000
_MOST_ITEMS = 5_000
_MOST_UNNESTED = 1_000_000
_MOST_WIDTH = 1_000
_MOST_MADE = 128 * 1024
# Of all values for one row, where a function makes much of little.
_MOST_TOGETHER = 256 * 1024
_MOST_PER_ROW = 1_000
_MOST_LEVELS = 130
_FIXED_BYTES = 8
_PIECES = 16
_BYTES_OF_LETTER = 4
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Volume:
    """At most `row` times what is read, `item` times an item of the list, and `made` bytes."""

    row: int = 0
    item: int = 0
    made: int = 0

    def __add__(self, other: "Volume") -> "Volume":
        return Volume(self.row + other.row, self.item + other.item, self.made + other.made)

    def times(self, factor: int) -> "Volume":
        return Volume(self.row * factor, self.item * factor, self.made * factor)

    def by(self, other: "Volume") -> "Volume":
        """Each of its bytes may become the other one, which is short if it is a column's."""
        longer = 1 + other.made // 16
        return Volume(self.row * longer, self.item * longer, self.made * max(1, other.made))

    @property
    def items(self) -> int:
        return max(1, self.made // _FIXED_BYTES)


_FIXED = Volume(made=_FIXED_BYTES)
_ROW = Volume(row=1)


def _largest(volumes: Iterable[Volume]) -> Volume:
    found = [Volume(), *volumes]
    return Volume(*(max(getattr(each, name) for each in found) for name in ("row", "item", "made")))


def _total(volumes: Iterable[Volume]) -> Volume:
    return sum(volumes, Volume())


@dataclass(frozen=True)
class _Scope:
    """What names stand for: columns, aliases and parameters of lambdas, and parts by WITH."""

    columns: Volume = _ROW
    names: Mapping[str, Volume] = field(default_factory=dict)
    parts: Mapping[str, Volume] = field(default_factory=dict)

    def knows(self, names: Mapping[str, Volume]) -> "_Scope":
        return replace(self, names={**self.names, **names})


def check_volumes(tree: Tree) -> None:
    """Raises PermissionDenied for a query whose values have no bound, or too large a one."""
    amplifies = any(
        SIZES.get(str(node.get("function_name")).lower()) in _AMPLIFYING for node in nodes(tree)
    )
    _Meter(amplifies=amplifies).measure(tree["statements"], _Scope())


def _most(node: Tree) -> int | None:
    """The largest number that it can be; None if there is no bound."""
    if node.get("class") == "CONSTANT":
        value = node["value"]
        if value.get("is_null"):
            return 0
        found = value.get("value")
        return found if isinstance(found, int) and value["type"]["id"] != "DECIMAL" else None
    if node.get("class") == "CAST" and node["cast_type"]["id"] in ("INTEGER", "BIGINT"):
        return _most(node["child"])
    if node.get("function_name") == "least":
        known = [each for each in map(_most, node["children"]) if each is not None]
        return min(known, default=None)
    return None


def _length(call: Tree, place: int, most: int = _MOST_LENGTH) -> int:
    """The argument at that place, 0 if there is none."""
    name, given = call["function_name"], call["children"]
    if place >= len(given):
        return 0
    found = _most(given[place])
    if found is None or found > most:
        raise PermissionDenied(
            f"{name}() needs a constant of at most {most} as argument {place + 1} here; "
            f"write for example {name}(..., least(n, {most}))"
        )
    return max(0, found)


def _count(call: Tree, most: int) -> int:
    """How many values range() or generate_series() has as a list."""
    bounds = [_most(each) for each in call["children"]]
    first = bounds[0] if len(bounds) > 1 else 0
    last = bounds[1] if len(bounds) > 1 else bounds[0] if bounds else 0
    step = bounds[2] if len(bounds) > 2 else 1  # noqa: PLR2004 - start, stop and step
    written = all(each.get("class") == "CONSTANT" for each in call["children"][2:])
    starts = len(bounds) == 1 or call["children"][0].get("class") == "CONSTANT"
    known = first is not None and last is not None and step is not None and written and starts
    if known and step and step < 0 and call["children"][1].get("class") != "CONSTANT":
        known = False
    if known and first is not None and last is not None:
        # range() ends before its end.
        ends = call["function_name"].lower() == "generate_series"
        steps = (last - first) // (step or 1) + 1 if ends else -((first - last) // (step or 1))
        if steps <= most:
            return max(0, steps)
    raise PermissionDenied(
        f"a list of {call['function_name']}() needs constant bounds and at most {most} values "
        f"here; write FROM {call['function_name']}(...), or least(n, {most}) as its end"
    )


class _Meter:
    def __init__(self, *, amplifies: bool) -> None:
        self._amplifies = amplifies
        self._level = 0
        self._together = 0

    def measure(self, tree: Any, scope: _Scope) -> Volume:
        if isinstance(tree, list):
            return _largest([self.measure(each, scope) for each in tree])
        if not isinstance(tree, dict):
            return Volume()
        self._level += 1
        if self._level > _MOST_LEVELS and self._amplifies:
            raise PermissionDenied("the query is nested too deeply here; split it")
        deep = self._level > _MOST_LEVELS
        found = _ROW if deep else self._rule(tree)(tree, scope)
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
        return _largest([self.measure(v, inner) for k, v in node.items() if k != "cte_map"])

    def _with(self, node: Tree, scope: _Scope) -> _Scope:
        for each in (node.get("cte_map") or {}).get("map") or ():
            made = self.measure(each["value"], scope)
            made = _largest([made, _ROW])
            scope = replace(scope, parts={**scope.parts, str(each["key"]).lower(): made})
        return scope

    def _select(self, node: Tree, scope: _Scope) -> Volume:
        scope = self._with(node, scope)
        read = self.measure(node["from_table"], scope)
        inner = replace(scope, columns=_largest([scope.columns, read]))
        made = []
        for each in node["select_list"]:
            made.append(self.measure(each, inner))
            if each.get("alias"):
                known = {each["alias"].lower(): _largest([made[-1], inner.columns])}
                inner = inner.knows(known)
        others = ("from_table", "select_list", "cte_map")
        for name, value in node.items():
            if name not in others:
                self.measure(value, inner)
        return _largest(made)

    def _table(self, node: Tree, scope: _Scope) -> Volume:
        return scope.parts.get(str(node["table_name"]).lower(), _ROW)

    def _join(self, node: Tree, scope: _Scope) -> Volume:
        """The right side may name columns of the left one."""
        left = self.measure(node["left"], scope)
        inner = replace(scope, columns=_largest([scope.columns, left]))
        right = self.measure(node["right"], inner)
        both = _largest([left, right])
        self.measure(node.get("condition"), replace(scope, columns=both))
        return both

    def _table_function(self, node: Tree, scope: _Scope) -> Volume:
        """It makes rows, one after the other."""
        call = node["function"]
        if str(call["function_name"]).lower() == "unnest":
            return _largest([self._unnested(call, scope), _ROW])
        return _largest([_ROW, self.measure(call["children"], scope)])

    def _constant(self, node: Tree, _: _Scope) -> Volume:
        value = node["value"].get("value")
        return Volume(made=len(value)) if isinstance(value, str) else _FIXED

    def _column(self, node: Tree, scope: _Scope) -> Volume:
        return scope.names.get(str(node["column_names"][0]).lower(), scope.columns)

    def _star(self, node: Tree, scope: _Scope) -> Volume:
        return _largest([self._any(node, scope), scope.columns])

    def _cast(self, node: Tree, scope: _Scope) -> Volume:
        return self.measure(node["child"], scope)

    def _answer(self, node: Tree, scope: _Scope) -> Volume:
        self._any(node, scope)
        return _FIXED

    def _list(self, node: Tree, scope: _Scope) -> Volume:
        return _total(
            _largest([self.measure(each, scope), _FIXED]) for each in node.get("children", ())
        )

    def _unnested(self, call: Tree, scope: _Scope) -> Volume:
        given = call["children"]
        if len(given) == 1 and SIZES.get(str(given[0].get("function_name"))) is Size.COUNT:
            _count(given[0], _MOST_UNNESTED)
            self.measure(given[0]["children"], scope)
            return _FIXED
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
            found = _made(name, node, [self.measure(each, scope) for each in given])
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
            return _total(others)
        parameters = list(_parameters(about.get("lhs")))
        known = dict.fromkeys(parameters, Volume(item=1))
        if name in _REDUCING:
            # What grows from step to step is the first one.
            known |= dict.fromkeys(parameters[1:], Volume())
        body = self.measure(about.get("expr"), scope.knows(known))
        whole = _total(others)
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
# These put their arguments beside each other; others of their size write each byte longer.
_BUILDING = words(
    """
    array_value list_pack list_value row struct_pack struct_values map map_entries
    map_from_entries map_keys map_values
    """
)
_SELECTING = words("array_select list_select")
# They leave as many characters as a literal says.
_CUTTING = {"left": 1, "right": 1, "substr": 2, "substring": 2}
_DIGESTS = words("md5 sha1 sha256")
# Where the length stands; otherwise it is the second argument.
_LENGTHS = {"bar": 3, "to_base": 2}


def _parameters(node: Any) -> Iterator[str]:
    if isinstance(node, dict) and node.get("class") == "COLUMN_REF":
        yield str(node["column_names"][0]).lower()
    elif isinstance(node, dict):
        for each in node.get("children") or ():
            yield from _parameters(each)


def _made(name: str, call: Tree, sizes: list[Volume]) -> Volume:
    """What a function makes of arguments of these sizes."""
    size = SIZES.get(name)
    if size is not None and size in _RULES:
        return _RULES[size](call, sizes)
    if name in _CUTTING:
        return _cut(call["children"][_CUTTING[name] :], _total(sizes))
    if name == "equi_width_bins":
        return _FIXED.times(_length(call, 2, _MOST_ITEMS))
    if name in _SELECTING:
        return sizes[0].times(_total(sizes[1:]).items) if sizes else Volume()
    return _total(sizes)


def _cut(length: list[Tree], whole: Volume) -> Volume:
    """A negative length would mean all but so many characters, so no least() here."""
    found = _most(length[0]) if length and length[0].get("class") == "CONSTANT" else None
    if found is None or not 0 <= found <= _MOST_LENGTH:
        return whole
    return Volume(made=_BYTES_OF_LETTER * found)


def _fixed(call: Tree, _: list[Volume]) -> Volume:
    return _FIXED.times(8 if call["function_name"].lower() in _DIGESTS else 1)


def _longer(call: Tree, sizes: list[Volume]) -> Volume:
    if call["function_name"].lower() in _BUILDING:
        return _total(_largest([each, _FIXED]) for each in sizes)
    return _total(sizes).times(8)


def _repeated(call: Tree, sizes: list[Volume]) -> Volume:
    return sizes[0].times(max(1, _length(call, 1))) if sizes else Volume()


def _padded(call: Tree, sizes: list[Volume]) -> Volume:
    name = call["function_name"].lower()
    if name.endswith("_resize"):
        unit = _largest([_FIXED, *sizes[2:]])
        return sizes[0] + unit.times(_length(call, 1, _MOST_ITEMS))
    length = _length(call, _LENGTHS.get(name, 1))
    return _largest([*sizes[:1], Volume(made=length)])


def _counted(call: Tree, _: list[Volume]) -> Volume:
    return _FIXED.times(_count(call, _MOST_ITEMS))


def _formatted(call: Tree, sizes: list[Volume]) -> Volume:
    first = call["children"][0] if call["children"] else {}
    text = first["value"].get("value") if first.get("class") == "CONSTANT" else None
    found = str(text or "")
    widths = [int(each[:9]) for each in _DIGITS.findall(found)]
    nested = "*" in found or re.search(r"\{[^}]*\{", found.replace("{{", ""))
    if first.get("class") != "CONSTANT" or nested or max(widths, default=0) > _MOST_WIDTH:
        raise PermissionDenied(
            f"{call['function_name']}() needs a constant format here, with widths that are numbers "
            f"of at most {_MOST_WIDTH}"
        )
    places = max(1, found.count("%") + found.count("{"))
    return _total(sizes).times(places) + Volume(made=sum(widths))


def _replaced(_: Tree, sizes: list[Volume]) -> Volume:
    return sizes[0].by(_total(sizes[2:3])) + _total(sizes[2:3]) if sizes else Volume()


def _separated(_: Tree, sizes: list[Volume]) -> Volume:
    """The separator is the first argument of some, the second one of others."""
    if len(sizes) < 2:  # noqa: PLR2004
        return _total(sizes)
    short, long = sorted(sizes[:2], key=lambda each: each.made)
    return long.by(short) + _total(sizes)


def _split(_: Tree, sizes: list[Volume]) -> Volume:
    first = _total(sizes[:1])
    return replace(first, made=first.made * _PIECES)


_RULES: Mapping[Size, Callable[[Tree, list[Volume]], Volume]] = {
    **dict.fromkeys((Size.FIXED, Size.PART, Size.DATED, Size.LIKE, Size.PATTERN), _fixed),
    Size.LONGER: _longer,
    Size.DOUBLE: lambda _, sizes: _total(sizes).times(2),
    Size.REPEAT: _repeated,
    Size.PAD: _padded,
    Size.COUNT: _counted,
    Size.FORMAT: _formatted,
    Size.REPLACE: _replaced,
    Size.REGEX_REPLACE: _replaced,
    Size.SEPARATED: _separated,
    Size.SPLIT: _split,
    Size.PIECES: _split,
    Size.REGEX_PIECES: _split,
}
