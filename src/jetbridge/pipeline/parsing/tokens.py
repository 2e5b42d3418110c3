"""The beginning of a statement, word by word; what follows it stays text."""

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
from jetbridge.pipeline.secrets import HIDDEN, may_tell

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
    """After some words sqlglot's own takes the rest of a statement for one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _SparkTokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = set()


class _Word(NamedTuple):
    """`end` is behind its last character; comments are in no word. What is quoted is no keyword."""

    text: str
    start: int
    end: int
    quoted: bool = False
    string: bool = False


def split_text(text: str, dialect: str = DUCKDB) -> list[str]:
    """Statements between semicolons, without comments."""
    found: list[str] = []
    words: list[_Word] = []
    text, all_words = _read(text.removeprefix("\ufeff"), dialect)
    for word in [*all_words, _Word(";", len(text), len(text))]:
        if word.text != ";" or word.quoted:
            words.append(word)
        elif words:
            found.append(text[words[0].start : words[-1].end])
            words = []
    return found


def without_secrets(text: str) -> str:
    """A statement as it may be shown: where a password may be in it, without its constants."""
    if not may_tell(text):
        return text
    shown, at, before = "", 0, ""
    for word in _words(text):
        hidden = word.string or before in ("PASSWORD", "PWD")
        shown += text[at : word.start] + ("'...'" if hidden else text[word.start : word.end])
        at, before = word.end, word.text.upper()
    return shown


def _read(text: str, dialect: str) -> tuple[str, list[_Word]]:
    """The text without comments, if DuckDB sees the same words in it. Spark reads its own text."""
    words = _words(text, dialect)
    if dialect != DUCKDB:
        return text, words
    try:
        return without_comments(text, [(word.start, word.end) for word in words]), words
    except BadRequest:
        if may_tell(text):
            raise BadRequest(HIDDEN) from None
        raise


def _words(text: str, dialect: str = DUCKDB) -> list[_Word]:
    make: Any = partial(_SparkTokenizer, Spark) if dialect == SPARK else partial(_Tokenizer, DuckDB)
    try:
        tokens: list[Token] = make().tokenize(text)
    except TokenError as error:
        if may_tell(text):
            raise BadRequest(HIDDEN) from None
        raise BadRequest(f"the statement cannot be read: {str(error)[:200]}") from None
    return _joined((word for token in tokens for word in _parts(token, text)), text)


def _joined(words: Iterable[_Word], text: str) -> list[_Word]:
    """`x'00'` is one word, as are strings with a new line between them; each is two for sqlglot."""
    found: list[_Word] = []
    for word in words:
        before = found[-1] if found else _Word("", 0, 0)
        gap = text[before.end : word.start]
        if word.string and not gap and before.text.upper() in ("X", "B"):
            found[-1] = word._replace(start=before.start)
        elif word.string and before.string and gap.isspace() and "\n" in gap:
            found[-1] = before._replace(text=before.text + word.text, end=word.end)
        else:
            found.append(word)
    return found


def _parts(token: Token, text: str) -> list[_Word]:
    """sqlglot has tokens of two words, such as PRIMARY KEY."""
    start, end = token.start, token.end + 1
    is_string = token.token_type in _STRINGS
    if token.token_type == TokenType.NATIONAL_STRING:  # N'a', which is two words
        first = _Word(text[start], start, start + 1)
        return [first, _Word(token.text, start + 1, end, quoted=True, string=True)]
    if is_string or token.token_type == TokenType.IDENTIFIER:
        return [_Word(token.text, start, end, quoted=True, string=is_string)]
    written = text[start:end]
    return [
        _Word(each.group(), start + each.start(), start + each.end())
        for each in re.finditer(r"\S+", written)
    ]


def _deeper(word: str, before: str) -> int:
    """CASE ... END holds WHEN, which also begins a clause of MERGE INTO; `t.end` is a name."""
    keyword = before not in (".", "AS")
    opens = word in _BRACKETS_OPEN or (word == "CASE" and keyword)
    closes = word in _BRACKETS_CLOSE or (word == "END" and keyword)
    return int(opens) - int(closes)


class TokenCursor:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str, dialect: str = DUCKDB) -> None:
        self.dialect = dialect
        self.text, self._tokens = _read(text, dialect)
        self._at = 0

    def __bool__(self) -> bool:
        """Whether there is more."""
        return self._at < len(self._tokens)

    def peek(self) -> str:
        """The next word in upper case; what is quoted is no word."""
        if not self:
            return ""
        token = self._tokens[self._at]
        return "" if token.quoted else token.text.upper()

    def take(self, *words: str) -> bool:
        """Goes past these words if they come next, all of them."""
        if not self._come(self._at, words):
            return False
        self._at += len(words)
        return True

    def finds(self, *words: str) -> bool:
        """Whether they come next to each other anywhere from here on."""
        return any(self._come(index, words) for index in range(self._at, len(self._tokens)))

    def _come(self, index: int, words: tuple[str, ...]) -> bool:
        tokens = self._tokens[index : index + len(words)]
        found = [token.text.upper() for token in tokens if not token.quoted]
        return found == list(words)

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            raise BadRequest(f"{' '.join(words)} is missing before {self._shown()}")

    def identifier(self) -> str:
        if not self or self._tokens[self._at].string:
            raise BadRequest(f"a name is missing before {self._shown()}")
        found = self._tokens[self._at].text
        self._at += 1
        return found

    def name(self) -> ObjectName:
        """Up to three parts."""
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        if len(parts) > 3:  # noqa: PLR2004 - catalog, schema, table
            raise BadRequest(f"the name {'.'.join(parts)!r} has too many parts")
        catalog, schema, name = [None, None, *parts][-3:]
        return ObjectName(name or "", schema, catalog)

    def is_string(self) -> bool:
        return bool(self) and self._tokens[self._at].string

    def string(self) -> str:
        """A text in quotes."""
        if not self.is_string():
            raise BadRequest(f"a text in quotes is missing before {self._shown()}")
        found = self._tokens[self._at].text
        self._at += 1
        return found

    def names_in_brackets(self) -> tuple[str, ...]:
        self.expect("(")
        found = [self.identifier()]
        while self.take(","):
            found.append(self.identifier())
        self.expect(")")
        return tuple(found)

    def texts_in_brackets(self) -> list[str]:
        """Expressions, as they were written."""
        self.expect("(")
        inner = TokenCursor(self.inside())
        found = []
        while inner:
            found.append(inner.expression(","))
            inner.take(",")
        return found

    def rest(self) -> str:
        """The text from here on, as it was written, without comments around it."""
        return self._text(self._at, len(self._tokens))

    def _shown(self) -> str:
        """What comes next, for a message."""
        return "what follows" if may_tell(self.text) else repr(self.rest()[:40])

    def _text(self, first: int, last: int) -> str:
        """Of the words from one place to before another."""
        if first >= last:
            return ""
        return self.text[self._tokens[first].start : self._tokens[last - 1].end]

    def until(self, *words: str) -> str:
        """The text up to one of these outside of brackets and CASE, or to the end."""
        first, depth, before = self._at, 0, ""
        while self:
            word = self.peek()
            depth += _deeper(word, before)
            # IS DISTINCT FROM is no FROM.
            if depth == 0 and word in words and (before, word) != ("DISTINCT", "FROM"):
                break
            before = word
            self._at += 1
        return self._text(first, self._at)

    def expression(self, *ends: str) -> str:
        """The text up to one of these words, or to the end, which is one expression."""
        return check_expression_text(self.until(*ends))

    def inside(self) -> str:
        """The text up to the bracket that closes the one before; goes past that."""
        first, depth = self._at, 1
        while self:
            word = self.peek()
            depth += (word in _BRACKETS_OPEN) - (word in _BRACKETS_CLOSE)
            self._at += 1
            if not depth:
                return self._text(first, self._at - 1)
        raise BadRequest(f"a bracket is not closed: {self._text(first, self._at)[:40]!r}")

    def alias(self, *before: str) -> str | None:
        """`[AS] name`, unless one of these words comes next, or nothing."""
        if self.take("AS"):
            return self.identifier()
        return None if not self or self.peek() in before else self.identifier()

    def position(self) -> int:
        """Where in the text the next word begins."""
        return self._tokens[self._at].start if self else len(self.text)

    def end(self) -> None:
        if self:
            raise BadRequest(f"{self._shown()} is not understood here")
