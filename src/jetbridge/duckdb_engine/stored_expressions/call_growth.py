"""How large the value of a function can be, by its arguments: one rule for each `Size`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jetbridge.duckdb_engine.functions import Size
from jetbridge.errors import BadRequest

Tree = dict[str, Any]

_MOST_COUNT = 100_000
# Each byte may become a string of a list, or a value of a JSON document, or of a hash table.
_PIECES = 20
IN_MEMORY = 40
_MOST_PATTERN = 1000
_MOST_WIDTH = 1000
# DuckDB searches a string 32 bytes at a time and fails early, so a step of LIKE costs much more.
_LIKE_STEP = 512
# A constant of so many bytes in a timestamp is none to look for in the names of zones.
_MOST_OF_ZONE = 256
_FOR_ZONE = 1000
_WIDTHS = re.compile(r"\d+")
_REFERENCES = re.compile(r"\\\d")


@dataclass(frozen=True)
class Growth:
    """Hold a size: at most `per_byte` times the bytes of the row, and `extra`.

    In time only: `squared` grows with the square of the bytes, and `zoned` times the bytes are
    looked for in the names of time zones.
    """

    per_byte: int = 0
    extra: int = 0
    squared: int = 0
    zoned: int = 0

    def __add__(self, other: "Growth") -> "Growth":
        return Growth(
            self.per_byte + other.per_byte,
            self.extra + other.extra,
            self.squared + other.squared,
            self.zoned + other.zoned,
        )

    def times(self, factor: int, extra: int = 16) -> "Growth":
        return Growth(self.per_byte * factor, self.extra * factor + extra)


VALUE = Growth(0, 16)


def zones(value: Growth) -> Growth:
    """Return the time to read a time zone in the value, which DuckDB compares with all zones."""
    long = value.extra > _MOST_OF_ZONE
    return Growth(0, value.extra * _FOR_ZONE if long else 0, zoned=value.per_byte)


@dataclass(frozen=True)
class Call:
    """Hold the arguments of a function; a rule returns its value, and what is computed besides."""

    arguments: list[Tree]
    sizes: list[Growth]

    @property
    def whole(self) -> Growth:
        return sum(self.sizes, Growth())

    def constants(self, start: int = 0, end: int | None = None) -> list[Any]:
        """Return the arguments from `start` on; raise BadRequest if one is not a constant."""
        constants = [_constant(argument) for argument in self.arguments[start:end]]
        if any(constant is _NONE for constant in constants):
            raise BadRequest(f"a constant as argument {1 + start}")
        return constants

    def text(self, index: int) -> str:
        constants = self.constants(index, index + 1)
        return str(constants[0]) if constants else ""

    def number(self, index: int, most: int = _MOST_COUNT) -> int:
        value = next(iter(self.constants(index, index + 1)), 0)
        if not isinstance(value, int) or abs(value) > most:
            raise BadRequest(f"a constant whole number of at most {most} as argument {1 + index}")
        return abs(value)


_NONE: Any = object()


def _constant(node: Tree) -> Any:
    """Return the value of a constant, also behind a cast or in a list; `_NONE` for others."""
    if node.get("class") == "CONSTANT":
        value = node["value"]
        return None if value.get("is_null") else _plain(value)
    if node.get("class") == "CAST":
        return _constant(node["child"])
    if node.get("function_name") == "list_value":
        constants = [_constant(child) for child in node["children"]]
        return _NONE if any(constant is _NONE for constant in constants) else constants
    return _NONE


def _plain(value: Tree) -> Any:
    """Return a value as Python has it; of a DECIMAL, which has no point here, its text."""
    plain = value.get("value")
    return str(plain) if value["type"]["id"] == "DECIMAL" else plain


Rule = Callable[[Call], tuple[Growth, Growth]]
_FREE = Growth()


def _longer(factor: int, *, work: int = 0) -> Rule:
    return lambda call: (call.whole.times(factor, 64), call.whole.times(work, 64 * work))


def _part(call: Call) -> tuple[Growth, Growth]:
    """DuckDB compares a name that it does not know with all that there are."""
    if len(call.arguments) > 1 and len(str(call.constants(0, 1))) > _MOST_PATTERN:
        raise BadRequest(f"a name of at most {_MOST_PATTERN} characters")
    return VALUE, _FREE


def _dated(call: Call) -> tuple[Growth, Growth]:
    form = str(_constant(call.arguments[1])) if len(call.arguments) > 1 else "%Z"
    zoned = "%Z" in form or _constant(call.arguments[1]) is _NONE
    return VALUE, zones(call.sizes[0]) if zoned else call.sizes[0].times(1)


def _search(call: Call) -> tuple[Growth, Growth]:
    """Return the work of a search: of its two arguments one is usually a constant."""
    longest = [len(str(c)) for c in map(_constant, call.arguments) if c is not _NONE]
    if len(call.arguments) - len(longest) <= 1:
        return call.whole, call.whole.times(1 + sum(longest) // 16)
    return call.whole, Growth(squared=call.sizes[0].per_byte * call.sizes[1].per_byte)


def _pattern(call: Call) -> tuple[Growth, Growth]:
    """DuckDB tries each place for each wildcard, unless the pattern has no `_` and no ESCAPE."""
    text = call.text(1)
    first = call.sizes[0]
    wild = len(re.findall(r"[%*]+", text.rstrip("%*")))
    if wild <= 1 or len(text) > _MOST_PATTERN:
        if len(text) > _MOST_PATTERN:
            raise BadRequest(f"a pattern of at most {_MOST_PATTERN} characters")
        return VALUE, first.times(1 + len(text))
    if wild > 2:  # noqa: PLR2004 - then time grows with the cube of the length
        raise BadRequest("a pattern of at most two wildcards, or use regexp_matches()")
    return VALUE, Growth(first.per_byte, squared=_LIKE_STEP * first.per_byte**2)


def _like(call: Call) -> tuple[Growth, Growth]:
    text = call.text(1)
    if "_" in text or len(call.arguments) > 2:  # noqa: PLR2004 - with ESCAPE
        return _pattern(call)
    return VALUE, call.sizes[0].times(1 + len(text) // 16)


def _regex(factor: int) -> Rule:
    def rule(call: Call) -> tuple[Growth, Growth]:
        first = call.sizes[0]
        return first.times(factor), _matching(call) + first.times(2 * (factor - 1))

    return rule


def _matching(call: Call) -> Growth:
    text = str(call.constants(1)[0])
    if len(text) > _MOST_PATTERN:
        raise BadRequest(f"a pattern of at most {_MOST_PATTERN} characters")
    return call.sizes[0].times(1 + _program(text) // 16)


def _program(pattern: str) -> int:
    """About how many steps a regular expression is, with its repetitions written out."""
    sums, last = [0], 0
    for part in re.findall(r"\\.|\[\]?[^\]]*\]|\{\d+(?:,\d*)?\}|.", pattern, re.DOTALL):
        if part == "(":
            sums.append(0)
            last = 0
        elif part == ")" and len(sums) > 1:
            last = sums.pop()
            sums[-1] += last
        elif part[0] == "{" and len(part) > 1:
            sums[-1] += last * max(map(int, _WIDTHS.findall(part)))
            last *= max(map(int, _WIDTHS.findall(part)))
        else:
            last = 1
            sums[-1] += 1
    return sum(sums)


def _replaced_matches(call: Call) -> tuple[Growth, Growth]:
    replacement = call.text(2)
    factor = 1 + len(replacement) + len(_REFERENCES.findall(replacement))
    return call.sizes[0].times(factor, len(replacement)), _matching(call)


def _replaced(call: Call) -> tuple[Growth, Growth]:
    pattern, replacement = call.text(1), call.text(2)
    size = call.sizes[0]
    return size.times(1 + len(replacement)), size.times(1 + len(pattern) // 16)


def _split(call: Call) -> tuple[Growth, Growth]:
    first = call.sizes[0]
    return first.times(_PIECES), first.times(IN_MEMORY + len(call.text(1)) // 16)


def _separated(call: Call) -> tuple[Growth, Growth]:
    """Find the separator, which is the first argument of some, the second one of others."""
    constants = [c for c in map(_constant, call.arguments) if c is not _NONE]
    if len(call.arguments) > 1 and not constants:
        raise BadRequest("a constant as separator")
    if len(call.arguments) > 2 and _constant(call.arguments[0]) is _NONE:  # noqa: PLR2004
        raise BadRequest("a constant as separator")
    return call.whole.times(8 + sum(len(str(constant)) for constant in constants)), _FREE


def _path(call: Call) -> tuple[Growth, Growth]:
    constants = call.constants(1)
    paths = constants[0] if constants and isinstance(constants[0], list) else constants
    text = " ".join(map(str, paths))
    if ".." in text or "**" in text or len(text) > _MOST_PATTERN:
        raise BadRequest("a JSON path that names each step")
    factor = _PIECES if "*" in text or not constants else 2 * len(paths)
    return call.sizes[0].times(factor), call.sizes[0].times(IN_MEMORY)


def _repeated(call: Call) -> tuple[Growth, Growth]:
    return call.sizes[0].times(max(1, call.number(1))), _FREE


def _padded(call: Call) -> tuple[Growth, Growth]:
    """Take the largest constant number for the length."""
    longest = [abs(number) for number in call.constants(1) if isinstance(number, int)]
    if max(longest, default=0) > _MOST_COUNT:
        raise BadRequest(f"a length of at most {_MOST_COUNT}")
    return call.sizes[0].times(1, 16 * max(longest, default=80)), _FREE


def _counted(call: Call) -> tuple[Growth, Growth]:
    numbers = [call.number(index) for index in range(len(call.arguments))]
    return Growth(0, 16 * (sum(numbers[:2]) + 1)), _FREE


def _formatted(call: Call) -> tuple[Growth, Growth]:
    text = call.text(0)
    widths = [int(digits[:9]) for digits in _WIDTHS.findall(text)]
    if "*" in text or re.search(r"\{[^}]*\{", text) or max(widths, default=0) > _MOST_WIDTH:
        raise BadRequest(f"a format whose widths are numbers of at most {_MOST_WIDTH}")
    # The largest DOUBLE has 309 digits before its point.
    arguments = 1 + text.count("%") + text.count("{")
    return call.whole.times(8 * arguments, sum(widths) + 400 * arguments), _FREE


RULES: dict[Size, Rule] = {
    Size.FIXED: lambda _: (VALUE, _FREE),
    Size.PART: _part,
    Size.DATED: _dated,
    Size.SAME: lambda call: (call.whole.times(1), _FREE),
    Size.DOUBLE: _longer(2),
    Size.LONGER: _longer(8),
    Size.SORT: _longer(2, work=IN_MEMORY),
    Size.JSON: _longer(8, work=IN_MEMORY),
    Size.JSON_FACT: lambda call: (VALUE, call.whole.times(IN_MEMORY, 64 * IN_MEMORY)),
    Size.PIECES: _longer(_PIECES, work=IN_MEMORY),
    Size.SEARCH: _search,
    Size.LIKE: _like,
    Size.PATTERN: _pattern,
    Size.REGEX: _regex(1),
    Size.REGEX_PIECES: _regex(_PIECES),
    Size.REGEX_REPLACE: _replaced_matches,
    Size.REPLACE: _replaced,
    Size.SPLIT: _split,
    Size.SEPARATED: _separated,
    Size.PATH: _path,
    Size.REPEAT: _repeated,
    Size.PAD: _padded,
    Size.COUNT: _counted,
    Size.FORMAT: _formatted,
}
