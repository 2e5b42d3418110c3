"""A batch cut into its statements. T-SQL needs no semicolons, so keywords tell where one begins."""

from dataclasses import dataclass

from standins.tds.engine.errors import error
from standins.tds.engine.parse.tokens import Token, Tokens, tokenize

STARTERS = {
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CREATE", "ALTER", "DROP", "TRUNCATE",
    "EXEC", "EXECUTE", "SET", "DECLARE", "IF", "ELSE", "BEGIN", "END", "WHILE", "PRINT",
    "RAISERROR", "THROW", "WAITFOR", "COMMIT", "ROLLBACK", "SAVE", "USE", "RETURN", "BREAK",
    "CONTINUE", "GRANT", "REVOKE", "DENY", "DBCC", "CHECKPOINT", "KILL", "BULK",
}  # fmt: skip
# Words that begin a statement elsewhere, yet belong to one that has begun: how many of them.
WITHIN = {
    "INSERT": {"SELECT": 1, "EXEC": 1, "EXECUTE": 1, "BULK": 1},
    "UPDATE": {"SET": 1},
    "DELETE": {},
    "WITH": {"SELECT": 1, "INSERT": 1, "UPDATE": 1, "DELETE": 1, "MERGE": 1, "SET": 1},
    "ALTER": {"WITH": 2, "ROLLBACK": 1},
    "CREATE": {"WITH": 1},
    "DROP": {"IF": 1},
    "MERGE": {"WITH": 1},
}
# What is left of these once the main word of INSERT, or of a statement after WITH, has come.
AFTERWARDS: dict[str, dict[str, int]] = {
    "SELECT": {}, "EXEC": {}, "EXECUTE": {}, "VALUES": {}, "DELETE": {}, "BULK": {"WITH": 1},
    "INSERT": {"SELECT": 1}, "UPDATE": {"SET": 1}, "MERGE": {"*": 1},
}  # fmt: skip
OBJECTS = {"TABLE", "VIEW", "INDEX", "SCHEMA", "DATABASE", "PROCEDURE", "LOGIN", "USER"}
TO_THE_END = {"GRANT", "REVOKE", "DENY", "DBCC"}
SET_OPERATORS = {"UNION", "EXCEPT", "INTERSECT", "ALL"}
MODULES = {"VIEW", "PROCEDURE", "PROC", "FUNCTION", "TRIGGER"}
TRANSACTION = {"TRAN", "TRANSACTION"}


@dataclass(frozen=True)
class Leaf:
    """One statement as text; `kind` is its first word."""

    kind: str
    text: str
    ended: bool  # by a semicolon

    def tokens(self) -> Tokens:
        return Tokens(self.text)


@dataclass(frozen=True)
class Block:
    body: tuple["Node", ...]


@dataclass(frozen=True)
class If:
    condition: str
    then: "Node"
    otherwise: "Node | None"


@dataclass(frozen=True)
class While:
    condition: str
    body: "Node"


@dataclass(frozen=True)
class Try:
    body: Block
    handler: Block


Node = Leaf | Block | If | While | Try


def parse_script(text: str) -> Block:
    reader = _Reader(text)
    return reader.block()


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text, tokenize(text))

    def block(self, *ends: str) -> Block:
        """Statements up to one of these words, which is left; or to the end of the batch."""
        body: list[Node] = []
        while True:
            while self.tokens.take(";"):
                pass
            if self.tokens.done or self.tokens.peek() in ends:
                return Block(tuple(body))
            body.append(self.statement())

    def statement(self) -> Node:
        word = self.tokens.peek()
        if word == "BEGIN" and self.tokens.peek(1) == "TRY":
            return self.guarded()
        if word == "BEGIN" and self.tokens.peek(1) not in TRANSACTION:
            self.tokens.next()
            body = self.block("END")
            self.tokens.need("END")
            return body
        if word == "IF":
            return self.conditional()
        if word == "WHILE":
            self.tokens.next()
            return While(self.condition(), self.statement())
        if word not in STARTERS:
            return self.bare()
        return self.leaf(word)

    def guarded(self) -> Try:
        self.tokens.need("BEGIN", "TRY")
        body = self.block("END")
        self.tokens.need("END", "TRY")
        while self.tokens.take(";"):
            pass
        self.tokens.need("BEGIN", "CATCH")
        handler = self.block("END")
        self.tokens.need("END", "CATCH")
        return Try(body, handler)

    def conditional(self) -> If:
        self.tokens.need("IF")
        condition = self.condition()
        then = self.statement()
        while self.tokens.peek() == ";" and self.tokens.peek(1) == "ELSE":
            self.tokens.next()
        otherwise = self.statement() if self.tokens.take("ELSE") else None
        return If(condition, then, otherwise)

    def condition(self) -> str:
        text = self.tokens.until(*STARTERS)
        if not text:
            self.tokens.fail()
        return text

    def bare(self) -> Leaf:
        """The first statement of a batch may be a procedure's name alone."""
        first = self.tokens.token()
        if self.tokens.place or first is None or first.kind not in ("word", "bracket"):
            self.tokens.fail()
        if not (first and first.upper.startswith("SP_")):
            raise error(102, first.text if first else "")
        return self.leaf("EXEC", "EXEC ")

    def leaf(self, word: str, prefix: str = "") -> Leaf:
        begin = self.tokens.place
        self.tokens.next()
        self._pass_statement(word, begin)
        first, last = self.tokens.all[begin], self.tokens.all[self.tokens.place - 1]
        text = self.tokens.text[first.start : last.end]
        return Leaf(word, prefix + text, self.tokens.peek() == ";")

    def _pass_statement(self, word: str, begin: int) -> None:
        if word == "BEGIN":  # BEGIN TRAN
            self.tokens.next()
        if word == "MERGE" or word in TO_THE_END or self._is_module(word):
            self._pass_all(word)
            return
        within = dict(WITHIN.get(word, {}))
        depth = cases = 0
        while not self.tokens.done:
            token = self.tokens.all[self.tokens.place]
            here = token.upper
            if depth == 0 and cases == 0 and self._ends(here, within, begin):
                return
            depth += {"(": 1, ")": -1}.get(here, 0)
            cases += {"CASE": 1, "END": -1 if cases else 0}.get(here, 0)
            self.tokens.place += 1

    def _ends(self, here: str, within: dict[str, int], begin: int) -> bool:
        if here == ";":
            return True
        if here == "VALUES" or "*" in within:
            if "*" not in within:
                within.clear()
            return False
        if here not in STARTERS or not self._starts(here, begin):
            return False
        if within.get(here, 0) > 0:
            within[here] -= 1
            if here in AFTERWARDS:
                within.clear()
                within.update(AFTERWARDS[here])
            return False
        return not self._is_alteration(here, begin)

    def _is_alteration(self, here: str, begin: int) -> bool:
        """DROP, ALTER COLUMN and SET as parts of ALTER."""
        if self.tokens.all[begin].upper != "ALTER":
            return False
        after = self.tokens.peek(1)
        if here == "SET":
            return self.tokens.all[begin + 1].upper == "DATABASE"
        return (here == "DROP" and after not in OBJECTS) or (here == "ALTER" and after == "COLUMN")

    def _starts(self, here: str, begin: int) -> bool:
        """Words that are no beginning where they stand."""
        before = self.tokens.all[self.tokens.place - 1] if self.tokens.place > begin else None
        previous = before.upper if before else ""
        after = self.tokens.token(1)
        if here == "SELECT" and previous in SET_OPERATORS:
            return False
        if here == "WITH":
            return _is_cte(after, self.tokens.token(2))
        if previous == "." or (previous == "ON" and here in ("DELETE", "UPDATE")):
            return False
        return not (here == "IF" and previous == "DROP")

    def _is_module(self, word: str) -> bool:
        following = [self.tokens.peek(), self.tokens.peek(2)]
        return word in ("CREATE", "ALTER") and any(each in MODULES for each in following)

    def _pass_all(self, word: str) -> None:
        """MERGE ends with its semicolon, a view with the batch."""
        while not self.tokens.done:
            if self.tokens.peek() == ";" and not self._is_module_body(word):
                return
            self.tokens.place += 1

    def _is_module_body(self, word: str) -> bool:
        return word in ("CREATE", "ALTER")


def _is_cte(name: Token | None, after: Token | None) -> bool:
    if name is None or name.kind not in ("word", "bracket") or after is None:
        return False
    return after.upper in ("AS", "(")
