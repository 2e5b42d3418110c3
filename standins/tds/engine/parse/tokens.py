"""T-SQL cut into tokens, for what sqlglot does not parse and for finding statements in a batch."""

import re
from dataclasses import dataclass

from standins.tds.engine.errors import error

TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>[Nn]?'(?:[^']|'')*')
  | (?P<open>[Nn]?')
  | (?P<bracket>\[(?:[^\]]|\]\])*\]|"(?:[^"]|"")*")
  | (?P<binary>0[xX][0-9a-fA-F]*)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<variable>@@?[\w$#@]+)
  | (?P<word>[^\W\d][\w$#@]*|\#\#?[\w$#@]+|\$action\b)
  | (?P<sign><>|<=|>=|!=|!<|!>|\+=|-=|\*=|/=|%=|::|[-+*/%(),.;=<>&|^~{}:?$!\[\]\\])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """For keywords and signs; names in brackets are never keywords."""
        return self.text.upper() if self.kind in ("word", "sign", "variable") else ""

    @property
    def name(self) -> str:
        """As a name: without its brackets."""
        if self.kind == "bracket":
            inner, last = self.text[1:-1], self.text[-1]
            return inner.replace(last * 2, last)
        return self.text

    @property
    def value(self) -> str:
        """As a string."""
        return self.text[self.text.index("'") + 1 : -1].replace("''", "'")


def tokenize(text: str) -> list[Token]:
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise error(102, text[place])
        kind = match.lastgroup or ""
        place = _after_comment(text, place) if kind == "comment" else match.end()
        if kind == "open":
            raise error(105, text[match.end() : match.end() + 128])
        if kind not in ("space", "comment"):
            found.append(Token(kind, match.group(), match.start(), match.end()))
    return found


def _after_comment(text: str, place: int) -> int:
    """Comments nest."""
    depth = 0
    for each in re.compile(r"/\*|\*/").finditer(text, place):
        depth += 1 if each.group() == "/*" else -1
        if depth == 0:
            return each.end()
    raise error(102, "/*")


class Tokens:
    """A row of tokens, read from left to right."""

    def __init__(self, text: str, tokens: list[Token] | None = None) -> None:
        self.text = text
        self.all = tokenize(text) if tokens is None else tokens
        self.place = 0

    @property
    def done(self) -> bool:
        return self.place >= len(self.all)

    def peek(self, ahead: int = 0) -> str:
        """The word or sign there in capitals; empty for anything else, and at the end."""
        place = self.place + ahead
        return self.all[place].upper if 0 <= place < len(self.all) else ""

    def token(self, ahead: int = 0) -> Token | None:
        place = self.place + ahead
        return self.all[place] if place < len(self.all) else None

    def next(self) -> Token:
        if self.done:
            raise error(102, self.all[-1].text if self.all else "")
        self.place += 1
        return self.all[self.place - 1]

    def take(self, *words: str) -> bool:
        """All of these words come next, and are passed."""
        if all(self.peek(ahead) == word for ahead, word in enumerate(words)):
            self.place += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail()

    def fail(self) -> None:
        token = self.all[min(self.place, len(self.all) - 1)] if self.all else None
        raise error(102, token.text if token else "")

    def name(self) -> str:
        token = self.next()
        if token.kind not in ("word", "bracket"):
            raise error(102, token.text)
        if len(token.name) > 128 + 2 * token.name.startswith("#"):
            raise error(103, token.name[:128])
        return token.name

    def dotted(self) -> tuple[str, ...]:
        """A name of up to four parts; an empty one is left out between two dots (db..t)."""
        parts = [self.name()]
        while self.take("."):
            parts.append("" if self.peek() == "." else self.name())
        return tuple(parts)

    def rest(self) -> str:
        """The text of what has not been read."""
        if self.done:
            return ""
        found = self.text[self.all[self.place].start : self.all[-1].end]
        self.place = len(self.all)
        return found

    def until(self, *words: str) -> str:
        """The text up to one of these words or signs outside of parentheses, or to the end."""
        begin = self.place
        depth = cases = 0
        while not self.done:
            here = self.peek()
            if depth == 0 and cases == 0 and here in words:
                break
            depth += {"(": 1, ")": -1}.get(here, 0)
            if depth < 0:
                break
            cases += {"CASE": 1, "END": -1 if cases else 0}.get(here, 0)
            self.place += 1
        if begin == self.place:
            return ""
        return self.text[self.all[begin].start : self.all[self.place - 1].end]

    def inside(self) -> "Tokens":
        """What is between this parenthesis and its partner, and pass both."""
        self.need("(")
        begin, depth = self.place, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self.next().upper, 0)
        return Tokens(self.text, self.all[begin : self.place - 1])

    def parted(self, sign: str = ",") -> list[str]:
        """What is left, cut at the commas outside of parentheses."""
        found = [self.until(sign)] if self.all else []
        while self.take(sign):
            found.append(self.until(sign))
        if self.place < len(self.all) or (found and not found[-1]):
            self.fail()
        return found
