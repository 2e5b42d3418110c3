"""What a function makes of arguments of which the sizes are known: one rule for each `Size`."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jetbridge.duckdb_engine.functions import SIZES, Size, words
from jetbridge.errors import PermissionDenied

Tree = dict[str, Any]

_MOST_LENGTH = 100_000
_MOST_ITEMS = 5_000
_MOST_UNNESTED = 1_000_000
_MOST_WIDTH = 1_000
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


FIXED = Volume(made=_FIXED_BYTES)
ROW = Volume(row=1)


def largest(volumes: Iterable[Volume]) -> Volume:
    found = [Volume(), *volumes]
    return Volume(*(max(getattr(each, name) for each in found) for name in ("row", "item", "made")))


def total(volumes: Iterable[Volume]) -> Volume:
    return sum(volumes, Volume())


def _most(node: Tree) -> int | None:
    """The largest number that it can be; None if there is no bound."""
    if node.get("class") == "CONSTANT":
        value = node["value"]
        # NULL is none: least() passes it over.
        found = None if value.get("is_null") else value.get("value")
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
_DISTANCES = words(
    "damerau_levenshtein editdist3 jaro_similarity jaro_winkler_similarity levenshtein"
)
_MOST_COMPARED = 4_000
_DIGESTS = words("md5 sha1 sha256")
# Where the length stands; otherwise it is the second argument.
_LENGTHS = {"bar": 3, "to_base": 2}


def made_by(name: str, call: Tree, sizes: list[Volume]) -> Volume:
    """What a function makes of arguments of these sizes."""
    if name in _DISTANCES:
        return _compared(name, sizes)
    size = SIZES.get(name)
    if size is not None and size in _RULES:
        return _RULES[size](call, sizes)
    if name in _CUTTING:
        return _cut(call["children"][_CUTTING[name] :], total(sizes))
    if name == "equi_width_bins":
        return FIXED.times(_length(call, 2, _MOST_ITEMS))
    if name in _SELECTING:
        return sizes[0].times(total(sizes[1:]).items) if sizes else Volume()
    return total(sizes)


def _compared(name: str, sizes: list[Volume]) -> Volume:
    """Nothing interrupts the work for one row, which is the product of both lengths."""
    whole = largest(sizes)
    if whole.row or whole.item or whole.made > _MOST_COMPARED:
        length = _MOST_COMPARED // _BYTES_OF_LETTER
        raise PermissionDenied(
            f"{name}() needs short strings here; write {name}(left(a, {length}), left(b, {length}))"
        )
    return FIXED


def _cut(length: list[Tree], whole: Volume) -> Volume:
    """A negative length would mean all but so many characters, so no least() here."""
    found = _most(length[0]) if length and length[0].get("class") == "CONSTANT" else None
    if found is None or not 0 <= found <= _MOST_LENGTH:
        return whole
    return Volume(made=_BYTES_OF_LETTER * found)


def _fixed(call: Tree, _: list[Volume]) -> Volume:
    return FIXED.times(8 if call["function_name"].lower() in _DIGESTS else 1)


def _longer(call: Tree, sizes: list[Volume]) -> Volume:
    if call["function_name"].lower() in _BUILDING:
        return total(largest([each, FIXED]) for each in sizes)
    return total(sizes).times(8)


def _repeated(call: Tree, sizes: list[Volume]) -> Volume:
    return sizes[0].times(max(1, _length(call, 1))) if sizes else Volume()


def _padded(call: Tree, sizes: list[Volume]) -> Volume:
    name = call["function_name"].lower()
    if name.endswith("_resize"):
        unit = largest([FIXED, *sizes[2:]])
        return sizes[0] + unit.times(_length(call, 1, _MOST_ITEMS))
    length = _length(call, _LENGTHS.get(name, 1))
    return largest([*sizes[:1], Volume(made=length)])


def _counted(call: Tree, _: list[Volume]) -> Volume:
    return FIXED.times(_count(call, _MOST_ITEMS))


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
    return total(sizes).times(places) + Volume(made=sum(widths))


def _replaced(_: Tree, sizes: list[Volume]) -> Volume:
    return sizes[0].by(total(sizes[2:3])) + total(sizes[2:3]) if sizes else Volume()


def _separated(_: Tree, sizes: list[Volume]) -> Volume:
    """The separator is the first argument of some, the second one of others."""
    if len(sizes) < 2:  # noqa: PLR2004
        return total(sizes)
    short, long = sorted(sizes[:2], key=lambda each: each.made)
    return long.by(short) + total(sizes)


def _split(_: Tree, sizes: list[Volume]) -> Volume:
    first = total(sizes[:1])
    return replace(first, made=first.made * _PIECES)


_RULES: Mapping[Size, Callable[[Tree, list[Volume]], Volume]] = {
    **dict.fromkeys((Size.FIXED, Size.PART, Size.DATED, Size.LIKE, Size.PATTERN), _fixed),
    Size.LONGER: _longer,
    Size.DOUBLE: lambda _, sizes: total(sizes).times(2),
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


def check_unnested(call: Tree) -> None:
    """Where the values of a list become rows."""
    _count(call, _MOST_UNNESTED)
