"""Parses the SQL text of a constraint, as `add_constraint` and `create_table` send it.

A constraint is `UNIQUE(x, y)`, `PRIMARY KEY(x)` or `CHECK((x > 0))`, with or without `CONSTRAINT
name` before it. The items of `check_constraints` are expressions alone, such as `(qty > 0)`.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from jetbridge.catalog import AddCheck, AddKey, UniqueKey, fold
from jetbridge.errors import BadRequest, NotSupported

_CLOSING = {"(": ")", "[": "]", "{": "}"}
# A semicolon or a comment could end the expression wherever it is pasted, and `$` opens a quote of
# its own; DuckDB writes none of them. A quote that matches here is not closed.
_TOKEN = re.compile(
    r"""\s+
    | (?P<string> [eE]'(?: [^'\\] | \\. | '' )*+' | '(?: [^'] | '' )*+' )
    | "(?P<name> (?: [^"] | "" )*+ )"
    | (?P<refused> -- | /\* | [;$\0"] | [eE]?' )
    | (?P<word> \w+ )
    | (?P<mark> . )""",
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    """Hold a token; `type` is `word`, `name` (a quoted identifier), `string` or `mark`."""

    type: str
    value: str
    start: int
    end: int


def parse_constraint(text: str) -> AddCheck | AddKey:
    """Parse one constraint; raise NotSupported for a foreign key, BadRequest for other text."""
    tokens = _tokenize(text)
    if _keywords(tokens, 1) == ("CONSTRAINT",):
        tokens = tokens[2:]  # a catalog does not store the name
    if tokens and tokens[0].value == "(":
        return parse_check(text[tokens[0].start :])
    for keywords, build in _CONSTRAINTS.items():
        if _keywords(tokens, len(keywords)) == keywords:
            return build(text, tokens[len(keywords) :])
    raise _error(text, "expected UNIQUE, PRIMARY KEY or CHECK")


def parse_check(text: str) -> AddCheck:
    """Parse an expression alone, an item of `check_constraints`; raise BadRequest."""
    tokens = _tokenize(text)
    if not tokens:
        raise _error(text, "the expression is empty")
    _match_brackets(text, tokens)
    return AddCheck(text.strip())


def _check(text: str, tokens: list[_Token]) -> AddCheck:
    if not tokens or tokens[0].value != "(" or _match_brackets(text, tokens) != len(tokens):
        raise _error(text, "expected one expression in parentheses after CHECK")
    return parse_check(text[tokens[0].end : tokens[-1].start])


def _unique(text: str, tokens: list[_Token]) -> AddKey:
    return AddKey(UniqueKey(_column_names(text, tokens)))


def _primary(text: str, tokens: list[_Token]) -> AddKey:
    return AddKey(UniqueKey(_column_names(text, tokens), primary=True))


def _foreign(_text: str, _tokens: list[_Token]) -> NoReturn:
    raise NotSupported("foreign keys are not supported; leave the constraint out")


_CONSTRAINTS: dict[tuple[str, ...], Callable[[str, list[_Token]], AddCheck | AddKey]] = {
    ("UNIQUE",): _unique,
    ("PRIMARY", "KEY"): _primary,
    ("CHECK",): _check,
    ("FOREIGN", "KEY"): _foreign,
}


def _column_names(text: str, tokens: list[_Token]) -> tuple[str, ...]:
    names, marks = tokens[1::2], tokens[::2]
    shape = "".join(token.value for token in marks)
    if shape != "(" + "," * (len(names) - 1) + ")" or any(m.type != "mark" for m in marks):
        raise _error(text, "expected column names in parentheses")
    if not all(token.type in ("word", "name") and token.value for token in names):
        raise _error(text, "expected column names in parentheses")
    columns = tuple(token.value for token in names)
    if len({fold(column) for column in columns}) != len(columns):
        raise _error(text, "a column is named twice")
    return columns


def _keywords(tokens: list[_Token], count: int) -> tuple[str, ...]:
    return tuple(token.value.upper() for token in tokens[:count] if token.type == "word")


def _match_brackets(text: str, tokens: list[_Token]) -> int:
    """Return how many tokens there are up to the bracket that closes the first one."""
    expected: list[str] = []
    first_closed = 0
    for position, token in enumerate(tokens, 1):
        if token.type != "mark":
            continue
        if token.value in _CLOSING:
            expected.append(_CLOSING[token.value])
        elif token.value in _CLOSING.values() and (not expected or expected.pop() != token.value):
            raise _error(text, f"{token.value!r} closes no bracket")
        if not expected and not first_closed:
            first_closed = position
    if expected:
        raise _error(text, f"{expected[-1]!r} is missing")
    return first_closed


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        group, value = match.lastgroup, match.group()
        if group == "refused":
            reason = "a quote is not closed" if value[-1] in "'\"" else f"{value!r} is not allowed"
            raise _error(text, reason)
        if group == "name":
            value = match["name"].replace('""', '"')
        if group is not None:
            tokens.append(_Token(group, value, *match.span()))
    return tokens


def _error(text: str, reason: str) -> BadRequest:
    return BadRequest(f"constraint {text[:80]!r}: {reason}")
