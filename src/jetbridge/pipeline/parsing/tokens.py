"""Reads tokens: splits a text into statements, and reads one with a cursor."""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from jetbridge.duckdb_engine.statements import check_expression_text
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.parsing.token_agreement import without_comments
from jetbridge.pipeline.secrets import HIDDEN, may_hold_secret

DUCKDB, SPARK = "duckdb", "spark"
_STRINGS = (
    TokenType.STRING,
    TokenType.BYTE_STRING,
    TokenType.HEREDOC_STRING,
    TokenType.RAW_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
)
_BRACKETS_OPEN, _BRACKETS_CLOSE = frozenset("([{"), frozenset(")]}")


class _Tokenizer(DuckDB.Tokenizer):
    """Read every token; sqlglot's own class reads the rest of some statements as one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _SparkTokenizer(Spark.Tokenizer):
    """Read every token of Spark SQL, as `_Tokenizer` does for DuckDB's."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _Word(NamedTuple):
    """Hold one token. `end` is behind its last character. A quoted token is no keyword."""

    text: str
    start: int
    end: int
    quoted: bool = False
    string: bool = False


def split_text(text: str, dialect: str = DUCKDB) -> list[str]:
    """Return the statements between semicolons, without comments.

    Raises BadRequest for a text that cannot be split, or that DuckDB splits differently.
    """
    statements: list[str] = []
    tokens: list[_Word] = []
    text, all_tokens = _read(text.removeprefix("\ufeff"), dialect)
    for token in [*all_tokens, _Word(";", len(text), len(text))]:
        if token.text != ";" or token.quoted:
            tokens.append(token)
        elif tokens:
            statements.append(text[tokens[0].start : tokens[-1].end])
            tokens = []
    return statements


def without_secrets(text: str) -> str:
    """Return a statement as it may be shown: without its strings if it may hold a password."""
    if not may_hold_secret(text):
        return text
    public, position, before = "", 0, ""
    for token in _tokenize(text):
        hidden = token.string or before in ("PASSWORD", "PWD")
        public += text[position : token.start] + (
            "'...'" if hidden else text[token.start : token.end]
        )
        position, before = token.end, token.text.upper()
    return public


def _read(text: str, dialect: str) -> tuple[str, list[_Word]]:
    """Return the text without comments, and its tokens; raise BadRequest if DuckDB sees others.

    Spark reads its own text.
    """
    tokens = _tokenize(text, dialect)
    if dialect != DUCKDB:
        return text, tokens
    try:
        return without_comments(text, [(token.start, token.end) for token in tokens]), tokens
    except BadRequest:
        if may_hold_secret(text):
            raise BadRequest(HIDDEN) from None
        raise


def _tokenize(text: str, dialect: str = DUCKDB) -> list[_Word]:
    tokenizer: Any = (
        partial(_SparkTokenizer, Spark) if dialect == SPARK else partial(_Tokenizer, DuckDB)
    )
    try:
        tokens: list[Token] = tokenizer().tokenize(text)
    except TokenError as error:
        if may_hold_secret(text):
            raise BadRequest(HIDDEN) from None
        raise BadRequest(f"the statement cannot be read: {str(error)[:200]}") from None
    return _join((word for token in tokens for word in _split_token(token, text)), text)


def _join(tokens: Iterable[_Word], text: str) -> list[_Word]:
    """Join what DuckDB reads as one token and sqlglot as two.

    These are `x'00'`, and strings with a new line between them.
    """
    joined: list[_Word] = []
    for token in tokens:
        before = joined[-1] if joined else _Word("", 0, 0)
        gap = text[before.end : token.start]
        if token.string and not gap and before.text.upper() in ("X", "B"):
            joined[-1] = token._replace(start=before.start)
        elif token.string and before.string and gap.isspace() and "\n" in gap:
            joined[-1] = before._replace(text=before.text + token.text, end=token.end)
        else:
            joined.append(token)
    return joined


def _split_token(token: Token, text: str) -> list[_Word]:
    """Return the words of a token: sqlglot reads some pairs, such as PRIMARY KEY, as one."""
    start, end = token.start, token.end + 1
    is_string = token.token_type in _STRINGS
    if token.token_type == TokenType.NATIONAL_STRING:  # N'a', which DuckDB reads as two
        first = _Word(text[start], start, start + 1)
        return [first, _Word(token.text, start + 1, end, quoted=True, string=True)]
    if is_string or token.token_type == TokenType.IDENTIFIER:
        return [_Word(token.text, start, end, quoted=True, string=is_string)]
    return [
        _Word(match.group(), start + match.start(), start + match.end())
        for match in re.finditer(r"\S+", text[start:end])
    ]


def _depth_change(word: str, before: str) -> int:
    """Return 1 if a word opens brackets or CASE, -1 if it closes them, else 0.

    CASE ... END contains WHEN, which also begins a clause of MERGE INTO; `t.end` is a name.
    """
    keyword = before not in (".", "AS")
    opens = word in _BRACKETS_OPEN or (word == "CASE" and keyword)
    closes = word in _BRACKETS_CLOSE or (word == "END" and keyword)
    return int(opens) - int(closes)


class TokenCursor:
    """Read the tokens of one statement from first to last. A keyword is in upper case."""

    def __init__(self, text: str, dialect: str = DUCKDB) -> None:
        self.dialect = dialect
        self.text, self._tokens = _read(text, dialect)
        self._index = 0

    def __bool__(self) -> bool:
        """Return whether there is another token."""
        return self._index < len(self._tokens)

    def peek(self) -> str:
        """Return the next token in upper case; "" at the end, and for a quoted token."""
        if not self:
            return ""
        token = self._tokens[self._index]
        return "" if token.quoted else token.text.upper()

    def take(self, *keywords: str) -> bool:
        """Go past these keywords if all of them come next; return whether they did."""
        if not self._is_at(self._index, keywords):
            return False
        self._index += len(keywords)
        return True

    def contains(self, *keywords: str) -> bool:
        """Return whether these keywords come next to each other anywhere from here on."""
        return any(self._is_at(index, keywords) for index in range(self._index, len(self._tokens)))

    def _is_at(self, index: int, keywords: tuple[str, ...]) -> bool:
        tokens = self._tokens[index : index + len(keywords)]
        unquoted = [token.text.upper() for token in tokens if not token.quoted]
        return unquoted == list(keywords)

    def expect(self, *keywords: str) -> None:
        """Go past these keywords; raise BadRequest if others come next."""
        if not self.take(*keywords):
            raise BadRequest(f"expected {' '.join(keywords)} before {self._next_shown()}")

    def identifier(self) -> str:
        """Return the name that comes next, quoted or not."""
        if not self or self._tokens[self._index].string:
            raise BadRequest(f"expected a name before {self._next_shown()}")
        return self._take_text()

    def _take_text(self) -> str:
        text = self._tokens[self._index].text
        self._index += 1
        return text

    def name(self) -> ObjectName:
        """Return the name of an object, with up to three parts."""
        parts = self.dotted_name()
        if len(parts) > 3:  # noqa: PLR2004 - catalog, schema, table
            raise BadRequest(f"the name {'.'.join(parts)!r} has too many parts")
        catalog, schema, name = [None, None, *parts][-3:]
        return ObjectName(name or "", schema, catalog)

    def dotted_name(self) -> tuple[str, ...]:
        """Return the parts of a dotted name."""
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return tuple(parts)

    def is_string(self) -> bool:
        """Return whether a string comes next."""
        return bool(self) and self._tokens[self._index].string

    def string(self) -> str:
        """Return the value of the string that comes next."""
        if not self.is_string():
            raise BadRequest(f"expected a string before {self._next_shown()}")
        return self._take_text()

    def names_in_brackets(self) -> tuple[str, ...]:
        """Return the names in a list such as `(a, b)`."""
        self.expect("(")
        names = [self.identifier()]
        while self.take(","):
            names.append(self.identifier())
        self.expect(")")
        return tuple(names)

    def expressions_in_brackets(self) -> tuple[str, ...]:
        """Return the expressions of `(1 + 2, b)`, as they are written."""
        self.expect("(")
        inner = TokenCursor(self.inside())
        expressions = []
        while inner:
            expressions.append(inner.expression(","))
            inner.take(",")
        return tuple(expressions)

    def items(self) -> tuple[str, ...]:
        """Return the texts between the commas of the rest, outside of brackets and CASE."""
        items = []
        while self:
            items.append(self.until(","))
            self.take(",")
        return tuple(items)

    def rest(self) -> str:
        """Return the text from here on, without comments around it."""
        return self._text(self._index, len(self._tokens))

    def _next_shown(self) -> str:
        """Return what comes next, for a message."""
        return "what follows" if may_hold_secret(self.text) else repr(self.rest()[:40])

    def _text(self, first: int, end: int) -> str:
        """Return the text of the tokens from the first one to before the end."""
        if first >= end:
            return ""
        return self.text[self._tokens[first].start : self._tokens[end - 1].end]

    def until(self, *keywords: str) -> str:
        """Return the text up to one of these outside of brackets and CASE, or to the end."""
        first, depth, before = self._index, 0, ""
        while self:
            word = self.peek()
            depth += _depth_change(word, before)
            # The FROM in IS DISTINCT FROM begins no clause.
            if depth == 0 and word in keywords and (before, word) != ("DISTINCT", "FROM"):
                break
            before = word
            self._index += 1
        return self._text(first, self._index)

    def expression(self, *keywords: str) -> str:
        """Return the text up to one of these keywords; raise unless it is one expression."""
        return check_expression_text(self.until(*keywords))

    def inside(self) -> str:
        """Return the text up to the bracket that closes the last one, and go past that bracket."""
        first, depth = self._index, 1
        while self:
            word = self.peek()
            depth += (word in _BRACKETS_OPEN) - (word in _BRACKETS_CLOSE)
            self._index += 1
            if not depth:
                return self._text(first, self._index - 1)
        raise BadRequest(f"a bracket is not closed: {self._text(first, self._index)[:40]!r}")

    def alias(self, *keywords: str) -> str | None:
        """Return the name of `[AS] name`; None at the end, or before one of these keywords."""
        if self.take("AS"):
            return self.identifier()
        return None if not self or self.peek() in keywords else self.identifier()

    def position(self) -> int:
        """Return where in the text the next token begins."""
        return self._tokens[self._index].start if self else len(self.text)

    def end(self) -> None:
        """Raise BadRequest if another token follows."""
        if self:
            raise BadRequest(f"expected the end of the statement before {self._next_shown()}")
