"""What belongs to the translation of one query: DuckDB's answers, and the names given out."""

from collections.abc import Sequence
from itertools import count

import duckdb
from sqlglot import exp

from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.pipeline.translate.bound import Nested, Shared
from jetbridge.pipeline.translate.match import Matcher
from jetbridge.pipeline.translate.types import NULL
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.values import Question

_LONGEST = 80


class Work:
    def __init__(self, question: Question, desk: StatementConnection, matcher: Matcher) -> None:
        self.question = question
        self.matcher = matcher
        self.nested: dict[str, Nested] = {}
        self.windows: dict[str, list[exp.Expr]] = {}
        self.shared: list[Shared] = []
        self._desk = desk
        self._numbers = count()
        self._constants: dict[tuple[str, str], str | None] = {}

    def fresh(self, letter: str) -> str:
        """An alias that nothing else in the query has."""
        return f"_{letter}{next(self._numbers)}"

    def types(self, relations: Sequence[str], expressions: Sequence[str], within: str) -> list[str]:
        """The types of expressions over relations, each given as `name AS (query)`."""
        listed = ", ".join(f"{text} AS p{index}" for index, text in enumerate(expressions))
        named = f"WITH {', '.join(relations)} " if relations else ""
        query = f"{named}SELECT {listed} {within}"
        try:
            return [found for _, found in self._desk.types(query)]
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0][:_LONGEST]
            raise Untranslatable(f"a piece without a type of its own ({reason})") from None

    def constant(self, text: str, duckdb_type: str) -> str | None:
        """The value of a constant as DuckDB writes it when it has this type; None is NULL."""
        key = (text, duckdb_type)
        if key not in self._constants:
            query = f"SELECT CAST(CAST({text} AS {duckdb_type}) AS VARCHAR)"
            try:
                ((value,),) = self._desk.fetch(query)
            except duckdb.Error:
                raise Untranslatable(f"the constant {text} as {duckdb_type}") from None
            self._constants[key] = value
        return self._constants[key]


def _nothing(duckdb_type: str) -> str:
    return "NULL" if duckdb_type == NULL else f"CAST(NULL AS {duckdb_type})"


def empty(alias: str, columns: dict[str, str]) -> str:
    """A relation without rows, with columns of these types."""
    listed = ", ".join(f"{_nothing(t)} AS {identifier(n)}" for n, t in columns.items())
    return f"{identifier(alias)} AS (SELECT {listed})"
