"""The words of a layout: what a user writes, as terms; nothing here knows a table.

    day(ts), bucket(8, id), truncate(4, name), region
    id, ts DESC NULLS LAST

Names may be quoted with double quotes, and reach into structs with dots.
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
    """`kinds` are the types of Iceberg that it takes, by how they begin."""

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
    """A column, or something computed from it; `number` is that of bucket and truncate."""

    path: tuple[str, ...]
    transform: Transform = IDENTITY
    number: int = 0

    def shown(self) -> str:
        column = ".".join(self.path)
        if self.transform is IDENTITY:
            return column
        return f"{self.transform.name}({f'{self.number}, ' if self.number else ''}{column})"


@dataclass(frozen=True)
class Ordering:
    """NULLs come last unless the user says otherwise, as in DuckDB."""

    term: PartitionTerm
    descending: bool = False
    nulls_first: bool = False


def parse_partitions(text: str) -> list[PartitionTerm]:
    """Raises BadRequest."""
    return _Parser(text, "partition_by").listed(lambda parser: parser.term())


def parse_order(text: str) -> list[Ordering]:
    """Raises BadRequest."""
    return _Parser(text, "sort_by").listed(lambda parser: parser.ordering())


class _Parser:
    def __init__(self, text: str, what: str) -> None:
        self._what, self._text, self._at = what, text, 0
        self._tokens = list(self._cut())

    def _cut(self) -> Iterator[tuple[str, str]]:
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
        return BadRequest(f"{self._what} = {self._text[:200]!r}: {problem}")

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else ("end", "the end")

    def _takes(self, *words: str) -> bool:
        """Whether these come next; then they are behind us."""
        found = [self._peek(place) for place in range(len(words))]
        if [fold(text) for _, text in found] != list(words):
            return False
        if any(kind == "quoted" for kind, _ in found):
            return False
        self._at += len(words)
        return True

    def _expect(self, mark: str) -> None:
        if not self._takes(mark):
            raise self._error(f"{mark!r} is missing before {self._peek()[1]!r}")

    def listed(self, one: Callable[["_Parser"], T]) -> list[T]:
        if not self._tokens:
            return []
        found = [one(self)]
        while self._takes(","):
            found.append(one(self))
        if self._peek()[0] != "end":
            raise self._error(f"a comma is missing before {self._peek()[1]!r}")
        return found

    def term(self) -> PartitionTerm:
        kind, name = self._peek()
        if kind == "word" and self._peek(1) == ("mark", "("):
            return self._call(name)
        return PartitionTerm(self._path())

    def _call(self, name: str) -> PartitionTerm:
        transform = TRANSFORMS.get(fold(name))
        if transform is None:
            known = ", ".join(sorted({each.name for each in TRANSFORMS.values()}))
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
        while self._takes("."):
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
        descending = self._takes("desc")
        if not descending:
            self._takes("asc")
        first = self._takes("nulls", "first")
        if not first:
            self._takes("nulls", "last")
        return Ordering(term, descending, first)
