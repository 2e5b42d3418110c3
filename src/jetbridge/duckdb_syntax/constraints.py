"""The SQL text of a constraint, as `add_constraint` and `create_table` send it.

`UNIQUE(x, y)`, `PRIMARY KEY(x)`, `CHECK((x > 0))`, each perhaps after `CONSTRAINT name`. The items
of `check_constraints` are bare expressions such as `(qty > 0)`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from jetbridge.catalog import AddCheck, AddKey, UniqueKey, fold
from jetbridge.errors import BadRequest, NotSupported

CLOSING = {"(": ")", "[": "]", "{": "}"}
# A semicolon or comment could end the expression early wherever it is pasted in, `$` opens a
# quote of its own; DuckDB prints none of them.
FORBIDDEN = frozenset({";", "--", "/*", "$", "\0"})


class _Token(NamedTuple):
    kind: str  # "word", "name" (a quoted identifier), "string" or "mark"
    value: str
    start: int
    end: int


def parse_constraint(text: str) -> AddCheck | AddKey:
    """Raises NotSupported for a foreign key, BadRequest for anything that is no constraint."""
    tokens = _tokens(text)
    if _words(tokens, 1) == ("CONSTRAINT",):
        tokens = tokens[2:]  # the name is not kept: the catalog has no place for it
    if tokens and tokens[0].value == "(":
        return parse_check(text[tokens[0].start :])
    for words, build in _KINDS.items():
        if _words(tokens, len(words)) == words:
            return build(text, tokens[len(words) :])
    raise _refusal(text, "expected UNIQUE, PRIMARY KEY or CHECK")


def parse_check(text: str) -> AddCheck:
    """A bare expression, an item of `check_constraints`."""
    tokens = _tokens(text)
    if not tokens:
        raise _refusal(text, "the expression is empty")
    _balance(text, tokens)
    return AddCheck(text.strip())


def _check(text: str, tokens: list[_Token]) -> AddCheck:
    if not tokens or tokens[0].value != "(" or _balance(text, tokens) != len(tokens):
        raise _refusal(text, "expected one expression in parentheses after CHECK")
    return parse_check(text[tokens[0].end : tokens[-1].start])


def _unique(text: str, tokens: list[_Token]) -> AddKey:
    return AddKey(UniqueKey(_column_names(text, tokens)))


def _primary(text: str, tokens: list[_Token]) -> AddKey:
    return AddKey(UniqueKey(_column_names(text, tokens), primary=True))


def _foreign(_text: str, _tokens_after: list[_Token]) -> NoReturn:
    raise NotSupported("foreign keys are not supported; leave the constraint out")


_KINDS: dict[tuple[str, ...], Callable[[str, list[_Token]], AddCheck | AddKey]] = {
    ("UNIQUE",): _unique,
    ("PRIMARY", "KEY"): _primary,
    ("CHECK",): _check,
    ("FOREIGN", "KEY"): _foreign,
}


def _column_names(text: str, tokens: list[_Token]) -> tuple[str, ...]:
    names, marks = tokens[1::2], tokens[::2]
    shape = "".join(token.value for token in marks)
    if shape != "(" + "," * (len(names) - 1) + ")" or any(m.kind != "mark" for m in marks):
        raise _refusal(text, "expected column names in parentheses")
    if not all(token.kind in ("word", "name") and token.value for token in names):
        raise _refusal(text, "expected column names in parentheses")
    columns = tuple(token.value for token in names)
    if len({fold(column) for column in columns}) != len(columns):
        raise _refusal(text, "a column stands there twice")
    return columns


def _words(tokens: list[_Token], count: int) -> tuple[str, ...]:
    return tuple(token.value.upper() for token in tokens[:count] if token.kind == "word")


def _balance(text: str, tokens: list[_Token]) -> int:
    """How many tokens there are until the first bracket is closed again."""
    waiting: list[str] = []
    first_closed = 0
    for position, token in enumerate(tokens, 1):
        if token.kind != "mark":
            continue
        if token.value in CLOSING:
            waiting.append(CLOSING[token.value])
        elif token.value in CLOSING.values() and (not waiting or waiting.pop() != token.value):
            raise _refusal(text, f"{token.value!r} closes nothing")
        if not waiting and not first_closed:
            first_closed = position
    if waiting:
        raise _refusal(text, f"{waiting[-1]!r} is missing")
    return first_closed


def _tokens(text: str) -> list[_Token]:
    return list(_scan(text))


def _scan(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        token = _next(text, at)
        at = token.end
        if token.kind != "space":
            yield token


def _next(text: str, at: int) -> _Token:
    char = text[at]
    if char in "'\"":
        return _quoted(
            text, at, escapes=at > 0 and text[at - 1] in "eE" and _stands_alone(text, at)
        )
    if char.isspace():
        return _Token("space", char, at, at + 1)
    if char.isalnum() or char == "_":
        end = at + 1
        while end < len(text) and (text[end].isalnum() or text[end] == "_"):
            end += 1
        return _Token("word", text[at:end], at, end)
    if char in FORBIDDEN or text[at : at + 2] in FORBIDDEN:
        raise _refusal(text, f"{char!r} may not stand outside quotes")
    return _Token("mark", char, at, at + 1)


def _stands_alone(text: str, at: int) -> bool:
    """Whether the letter before the quote is a word of its own, as in E'…'."""
    return text[at] == "'" and not (at > 1 and (text[at - 2].isalnum() or text[at - 2] == "_"))


def _quoted(text: str, start: int, escapes: bool) -> _Token:
    mark, at = text[start], start + 1
    parts: list[str] = []
    while at < len(text):
        if escapes and text[at] == "\\":
            parts.append(text[at : at + 2])
            at += 2
        elif text[at] != mark:
            parts.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == mark:
            parts.append(mark)
            at += 2
        else:
            kind = "name" if mark == '"' else "string"
            return _Token(kind, "".join(parts), start, at + 1)
    raise _refusal(text, "a quote is not closed")


def _refusal(text: str, reason: str) -> BadRequest:
    return BadRequest(f"constraint {text[:80]!r}: {reason}")
