"""Finds the verified translation of an expression.

A pattern is parsed by the same parser as the query, so that both are the same tree but for the
places of the arguments.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import sqlglot
from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.entries import ENTRIES, Entry
from jetbridge.pipeline.translate.types import kind, spark_type

_PLACE = re.compile(r"\{(\d+)\}")
_COUNT = re.compile(r"(INTERVAL )\{(\d+)\}", re.IGNORECASE)
_UNIT = re.compile(r"[a-z]{3,}", re.IGNORECASE)
_ARGUMENT = re.compile(r"argument_(\d+)")
# What says nothing about the meaning: a note of the parser's.
_IGNORED: dict[type[exp.Expr], set[str]] = {exp.Bracket: {"offset"}, exp.Count: {"big_int"}}

Key = tuple[type[exp.Expr], str]
Arguments = dict[int, exp.Expr]


@dataclass(frozen=True)
class Pattern:
    entry: Entry
    tree: exp.Expr


class Matcher:
    def __init__(self, entries: Iterable[Entry]) -> None:
        self._patterns: defaultdict[Key, list[Pattern]] = defaultdict(list)
        for entry in entries:
            tree = parsed(entry.duckdb)
            self._patterns[_key(tree)].append(Pattern(entry, tree))
        self.aggregates = self._names("aggregate")

    def _names(self, wanted: str) -> frozenset[str]:
        """Functions that the parser does not know, by their use."""
        return frozenset(
            name
            for (_, name), patterns in self._patterns.items()
            if name and any(pattern.entry.kind == wanted for pattern in patterns)
        )

    def candidates(self, node: exp.Expr, *kinds: str) -> Iterator[tuple[Entry, list[exp.Expr]]]:
        """Entries of the same shape, with the arguments; their types are not looked at."""
        for pattern in self._patterns.get(_key(node), ()):
            found: Arguments = {}
            if pattern.entry.kind in kinds and _same(pattern.tree, node, found):
                yield pattern.entry, [found[index] for index in sorted(found)]


def takes(entry: Entry, types: Sequence[str], result: str) -> bool:
    """Whether these types of arguments are among those it is proved for."""
    if len(types) != len(entry.takes):
        return False
    for index, duckdb_type in enumerate(types):
        if index not in entry.constants and kind(duckdb_type) not in entry.takes[index]:
            return False
    return entry.fits is None or entry.fits(tuple(types), result)


@cache
def matcher(entries: tuple[Entry, ...] = ENTRIES) -> Matcher:
    """Patterns are parsed once."""
    return Matcher(entries)


def parsed(pattern: str) -> exp.Expr:
    # An interval holds a text, and no expression, between its first word and its unit.
    text = _COUNT.sub(r"\1'argument_\2'", pattern)
    text = _PLACE.sub(r"argument_\1", text)
    return sqlglot.parse_one(text, read="duckdb")


def _key(node: exp.Expr) -> Key:
    return type(node), node.name.lower() if isinstance(node, exp.Anonymous) else ""


def _same(pattern: exp.Expr, node: exp.Expr, found: Arguments) -> bool:
    if isinstance(pattern, (exp.Column, exp.Literal)):
        place = _ARGUMENT.fullmatch(pattern.name)
        if place is not None:
            return found.setdefault(int(place[1]), node) == node
    node = node.unnest() if not isinstance(pattern, exp.Paren) else node
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, exp.Literal) and pattern.is_string and not _UNIT.fullmatch(pattern.this):
        return pattern == node  # a flag or a sign: upper and lower case are not the same
    if isinstance(pattern, exp.Identifier):
        return fold(pattern.name) == fold(node.name)
    if isinstance(pattern, exp.DataType) and pattern.this == exp.DType.DECIMAL:
        return bool(pattern.this == node.this)  # of any number of digits
    ignored = _IGNORED.get(type(pattern), set())
    names = (pattern.args.keys() | node.args.keys()) - ignored
    return all(_same_value(pattern.args.get(n), node.args.get(n), found) for n in names)


def _same_value(pattern: object, value: object, found: Arguments) -> bool:
    if isinstance(pattern, exp.Expr):
        return isinstance(value, exp.Expr) and _same(pattern, value, found)
    if isinstance(pattern, list) and pattern:
        return (
            isinstance(value, list)
            and len(pattern) == len(value)
            and all(_same_value(p, v, found) for p, v in zip(pattern, value, strict=True))
        )
    if isinstance(value, (exp.Expr, list)) and value:
        return False
    if isinstance(pattern, str) and isinstance(value, str):
        return pattern.lower() == value.lower() if not pattern.isdigit() else pattern == value
    return (pattern or None) == (value or None)


_HOLE = re.compile(r"\{(\d+|type|behind)\}")
_NAME = r"`(?:[^`]|``)*`"
_SAFE = re.compile(rf"(?:[\w.]|{_NAME})+|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*\([^()`]*\)", re.DOTALL)


def filled(
    entry: Entry, arguments: Sequence[str], result: str, template: str = "", behind: str = ""
) -> str:
    """The template with its arguments, all in brackets of their own where they need them.

    A number in braces that no argument has is left: regular expressions count with such.
    `behind` is for {behind} in a decorated template; like arguments it may hold any text.
    """

    def piece(hole: re.Match[str]) -> str:
        if not hole[1].isdigit():
            return spark_type(result) if hole[1] == "type" else behind
        return bracketed(arguments[int(hole[1])]) if int(hole[1]) < len(arguments) else hole[0]

    return bracketed(_HOLE.sub(piece, template or entry.spark))


def bracketed(text: str) -> str:
    """So that nothing around it takes it apart."""
    return text if _SAFE.fullmatch(text) or _enclosed(text) else f"({text})"


def _enclosed(text: str) -> bool:
    """Whether it is a call or brackets from end to end; texts in quotes are left alone."""
    text = re.sub(_NAME, "n", text)  # a name may hold any sign
    start = text.find("(")
    if start < 0 or not text.endswith(")") or "'" in text or not _PLAIN.fullmatch(text[:start]):
        return False
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


_PLAIN = re.compile(r"\w*")
