"""Parses the text of a layout into terms, without a table.

    day(ts), bucket(8, id), truncate(4, name), region
    id, ts DESC NULLS LAST

Names may be quoted with double quotes, and reach into structs with dots. The
cursor of `pipeline/parsing` compares its tokens with DuckDB's own, and a backend may not use it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest

T = TypeVar("T")

_TOKEN = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d]\w*)|(\d{1,18})|([(),.]))')


@dataclass(frozen=True)
class Transform:
    """Describe a transform of Iceberg; `kinds` are the types that it takes, by how they begin."""

    name: str
    kinds: tuple[str, ...]
    takes_number: bool = False


_TIMES = ("timestamp",)
_DATES = ("date", *_TIMES)
_TEXTS = ("int", "long", "decimal", "string", "binary")
_YEAR, _MONTH = Transform("year", _DATES), Transform("month", _DATES)
_DAY, _HOUR = Transform("day", _DATES), Transform("hour", _TIMES)
TRANSFORMS = {
    "year": _YEAR,
    "years": _YEAR,
    "month": _MONTH,
    "months": _MONTH,
    "day": _DAY,
    "days": _DAY,
    "hour": _HOUR,
    "hours": _HOUR,
    "bucket": Transform("bucket", (*_TEXTS, *_DATES, "uuid", "fixed"), takes_number=True),
    "truncate": Transform("truncate", _TEXTS, takes_number=True),
}
IDENTITY = Transform("identity", ("",))


@dataclass(frozen=True)
class PartitionTerm:
    """Name a column, or a value computed from it; `number` is that of bucket and truncate."""

    path: tuple[str, ...]
    transform: Transform = IDENTITY
    number: int = 0

    def text(self) -> str:
        """Return the term as a user writes it."""
        column = ".".join(self.path)
        if self.transform is IDENTITY:
            return column
        return f"{self.transform.name}({f'{self.number}, ' if self.number else ''}{column})"


@dataclass(frozen=True)
class Ordering:
    """Sort by a term; NULLs come last by default, as in DuckDB."""

    term: PartitionTerm
    descending: bool = False
    nulls_first: bool = False


def parse_partitions(text: str) -> list[PartitionTerm]:
    """Parse the terms of PARTITIONED BY; raises BadRequest."""
    return _Parser(text, "partition_by").parse_list(lambda parser: parser.term())


def parse_order(text: str) -> list[Ordering]:
    """Parse the terms of SORTED BY; raises BadRequest."""
    return _Parser(text, "sort_by").parse_list(lambda parser: parser.ordering())


class _Parser:
    def __init__(self, text: str, argument: str) -> None:
        self._argument, self._text, self._at = argument, text, 0
        self._tokens = list(self._tokenize())

    def _tokenize(self) -> Iterator[tuple[str, str]]:
        at = 0
        text = self._text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error(f"{text[at:].strip()[:20]!r} is not understood")
            quoted, word, number, mark = match.groups()
            if quoted is not None:
                yield "quoted", quoted.replace('""', '"')
            elif word is not None:
                yield "word", word
            else:
                yield ("number", number) if number is not None else ("mark", mark)
            at = match.end()

    def _error(self, problem: str) -> BadRequest:
        return BadRequest(f"{self._argument} = {self._text[:200]!r}: {problem}")

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        index = self._at + ahead
        return self._tokens[index] if index < len(self._tokens) else ("end", "the end")

    def _take(self, *keywords: str) -> bool:
        """Return whether these tokens come next, and pass over them."""
        tokens = [self._peek(ahead) for ahead in range(len(keywords))]
        if [fold(text) for _, text in tokens] != list(keywords):
            return False
        if any(kind == "quoted" for kind, _ in tokens):
            return False
        self._at += len(keywords)
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._error(f"{mark!r} is missing before {self._peek()[1]!r}")

    def parse_list(self, parse_item: Callable[["_Parser"], T]) -> list[T]:
        if not self._tokens:
            return []
        items = [parse_item(self)]
        while self._take(","):
            items.append(parse_item(self))
        if self._peek()[0] != "end":
            raise self._error(f"a comma is missing before {self._peek()[1]!r}")
        return items

    def term(self) -> PartitionTerm:
        kind, name = self._peek()
        if kind == "word" and self._peek(1) == ("mark", "("):
            return self._call(name)
        return PartitionTerm(self._path())

    def _call(self, name: str) -> PartitionTerm:
        transform = TRANSFORMS.get(fold(name))
        if transform is None:
            known = ", ".join(sorted({other.name for other in TRANSFORMS.values()}))
            raise self._error(f"{name!r} is not one of {known}")
        self._at += 2
        number = 0
        if transform.takes_number:
            kind, digits = self._peek()
            if kind != "number" or not 0 < int(digits) < 2**31:
                raise self._error(f"{transform.name} needs a number: {transform.name}(8, column)")
            number = int(digits)
            self._at += 1
            self._expect(",")
        term = PartitionTerm(self._path(), transform, number)
        self._expect(")")
        return term

    def _path(self) -> tuple[str, ...]:
        names = [self._name()]
        while self._take("."):
            names.append(self._name())
        return tuple(names)

    def _name(self) -> str:
        kind, name = self._peek()
        if kind not in ("word", "quoted"):
            raise self._error(f"a column is missing before {name!r}")
        self._at += 1
        return name

    def ordering(self) -> Ordering:
        term = self.term()
        descending = self._take("desc")
        if not descending:
            self._take("asc")
        first = self._take("nulls", "first")
        if not first:
            self._take("nulls", "last")
        return Ordering(term, descending, first)
