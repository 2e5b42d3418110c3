"""The beginning of a statement, word by word; what follows it stays text."""

from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from jetbridge.errors import BadRequest
from jetbridge.pipeline.statements import ObjectName

_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_OPENING, _CLOSING = "([{", ")]}"


class _Tokenizer(DuckDB.Tokenizer):
    """After some words sqlglot's own takes the rest of a statement for one text."""

    COMMANDS: ClassVar[set[TokenType]] = set()


def split_text(text: str) -> list[str]:
    """Statements between semicolons, as they were written."""
    found, start = [], 0
    for token in [*_tokens(text), None]:
        if token is None or token.token_type == TokenType.SEMICOLON:
            end = len(text) if token is None else token.start
            found.append(text[start:end].strip())
            start = end + 1
    return [each for each in found if each]


def _tokens(text: str) -> list[Token]:
    try:
        return _Tokenizer(dialect=DuckDB).tokenize(text)
    except TokenError as error:
        raise BadRequest(f"the statement cannot be read: {str(error)[:200]}") from None


class Words:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = _tokens(text)
        self._at = 0

    def __bool__(self) -> bool:
        """Whether there is more."""
        return self._at < len(self._tokens)

    def peek(self) -> str:
        """The next word in upper case; what is quoted is no word."""
        if not self:
            return ""
        token = self._tokens[self._at]
        return "" if token.token_type in _QUOTED else token.text.upper()

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
        found = [token.text.upper() for token in tokens if token.token_type not in _QUOTED]
        return found == list(words)

    def expect(self, *words: str) -> None:
        if not self.take(*words):
            raise BadRequest(f"{' '.join(words)} is missing before {self.rest()[:40]!r}")

    def identifier(self) -> str:
        if not self or self._tokens[self._at].token_type == TokenType.STRING:
            raise BadRequest(f"a name is missing before {self.rest()[:40]!r}")
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
        return bool(self) and self._tokens[self._at].token_type == TokenType.STRING

    def string(self) -> str:
        """A text in quotes."""
        if not self.is_string():
            raise BadRequest(f"a text in quotes is missing before {self.rest()[:40]!r}")
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

    def rest(self) -> str:
        """The text from here on, as it was written."""
        return self.text[self._tokens[self._at].start :] if self else ""

    def until(self, *words: str) -> str:
        """The text up to one of these outside of brackets, or to the end; that comes next."""
        start, depth, before = self.position(), 0, ""
        while self:
            token, word = self._tokens[self._at], self.peek()
            if token.token_type not in _QUOTED:
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
            # IS DISTINCT FROM is no FROM.
            if depth == 0 and word in words and (before, word) != ("DISTINCT", "FROM"):
                return self.text[start : token.start].strip()
            before = word
            self._at += 1
        return self.text[start:].strip()

    def inside(self) -> str:
        """The text up to the bracket that closes the one before; goes past that."""
        start, depth = self.position(), 1
        while self:
            token = self._tokens[self._at]
            if token.token_type not in _QUOTED:
                depth += (token.text in _OPENING) - (token.text in _CLOSING)
            self._at += 1
            if not depth:
                return self.text[start : token.start].strip()
        raise BadRequest(f"a bracket is not closed: {self.text[start:][:40]!r}")

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
            raise BadRequest(f"{self.rest()[:40]!r} is not understood here")
