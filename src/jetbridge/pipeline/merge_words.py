"""MERGE INTO in its parts: target, source, condition, and the WHEN clauses in their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from jetbridge.embedded.statements import check_list_text, check_query_text, check_with_text
from jetbridge.errors import NotSupported
from jetbridge.pipeline.changes import assignments
from jetbridge.pipeline.statements import ObjectName
from jetbridge.pipeline.tokens import Words
from jetbridge.sqltext.pipeline import renamed

_ENDS = ("WHEN", "RETURNING")


class Case(Enum):
    MATCHED = "MATCHED"
    NEW = "NOT MATCHED"
    GONE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class Clause:
    """`action` is UPDATE, DELETE, INSERT, NOTHING or ERROR.

    `values` are columns and expressions; None means those of the source, by name or by position.
    `message` is what ERROR says.
    """

    case: Case
    condition: str
    action: str
    values: Sequence[tuple[str, str]] | None = ()
    columns: Sequence[str] = ()
    by_name: bool = False
    message: str = ""


@dataclass(frozen=True)
class Merge:
    """`using` are the columns of USING (...), else `condition` is that of ON."""

    before: str
    target: ObjectName
    alias: str
    source: str
    source_alias: str
    condition: str
    using: Sequence[str]
    clauses: Sequence[Clause]
    returning: str


def read_merge(text: str) -> Merge:
    words = Words(text)
    before = check_with_text(words.until("MERGE")) if words.peek() == "WITH" else ""
    words.expect("MERGE", "INTO")
    target = words.name()
    alias = words.alias("USING") or target.name
    words.expect("USING")
    source, source_alias = _source(words)
    using: tuple[str, ...] = ()
    condition = ""
    if words.take("USING"):
        using = words.names_in_brackets()
    else:
        words.expect("ON")
        condition = words.expression(*_ENDS)
    clauses = []
    while words.take("WHEN"):
        clauses.append(_clause(words))
    returning = check_list_text(words.rest()) if words.take("RETURNING") else ""
    return Merge(before, target, alias, source, source_alias, condition, using, clauses, returning)


def _source(words: Words) -> tuple[str, str]:
    """A query, and what its rows are called in the other parts."""
    if words.take("("):
        query = check_query_text(words.inside())
        alias = words.alias("ON", "USING") or "source"
        if words.peek() == "(":
            query = renamed(query, alias, words.names_in_brackets())
        return query, alias
    start = words.position()
    name = words.name()
    if words.peek() == "(":
        raise NotSupported("a function as the source of MERGE INTO: write USING (FROM ...) AS s")
    text = words.text[start : words.position()].strip()
    return f"FROM {text}", words.alias("ON", "USING") or name.name


def _clause(words: Words) -> Clause:
    case = Case.MATCHED
    if words.take("NOT"):
        case = Case.NEW
    words.expect("MATCHED")
    if case is Case.NEW and words.take("BY", "SOURCE"):
        case = Case.GONE
    elif case is Case.NEW:
        words.take("BY", "TARGET")
    condition = words.expression("THEN") if words.take("AND") else ""
    words.expect("THEN")
    if words.take("DELETE"):
        return Clause(case, condition, "DELETE")
    if words.take("DO", "NOTHING"):
        return Clause(case, condition, "NOTHING")
    if words.take("ERROR"):
        return Clause(case, condition, "ERROR", message=_message(words))
    if words.take("UPDATE"):
        return _update(words, case, condition)
    words.expect("INSERT")
    return _insert(words, case, condition)


def _message(words: Words) -> str:
    return words.expression(*_ENDS) if words and words.peek() not in _ENDS else ""


def _update(words: Words, case: Case, condition: str) -> Clause:
    if words.take("BY", "NAME"):
        return Clause(case, condition, "UPDATE", None, by_name=True)
    words.take("BY", "POSITION")
    if words.take("SET", "*") or words.peek() in ("", *_ENDS):
        return Clause(case, condition, "UPDATE", None)
    return Clause(case, condition, "UPDATE", assignments(words, *_ENDS))


def _insert(words: Words, case: Case, condition: str) -> Clause:
    columns = words.names_in_brackets() if words.peek() == "(" else ()
    by_name = words.take("BY", "NAME")
    if not by_name:
        words.take("BY", "POSITION")
    if words.take("DEFAULT", "VALUES"):
        return Clause(case, condition, "INSERT", ())
    if words.take("VALUES"):
        values = [("", each) for each in words.texts_in_brackets()]
        return Clause(case, condition, "INSERT", values, columns)
    words.take("*")
    return Clause(case, condition, "INSERT", None, columns, by_name)
