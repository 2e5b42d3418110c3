"""The flow of a batch: blocks, IF, WHILE, TRY … CATCH, and what an error ends."""

from collections.abc import Iterator
from typing import Any

from standins.tds.engine.errors import BATCH_ABORTING, SCOPE_ABORTING, error, unknown
from standins.tds.engine.execute.flow import BatchEnds, Leave
from standins.tds.engine.execute.selects import fetched, is_assignment
from standins.tds.engine.execute.statements import STATEMENTS
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.parse.dialect import check_syntax, parse_condition
from standins.tds.engine.parse.script import Block, If, Leaf, Node, Try, While
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.reading import again
from standins.tds.values import Answer, SqlError

USER_ERROR = 50000
CANCELLED = 3617


class Interpreter:
    def __init__(self, session: Any, guarded: int = 0) -> None:
        self.session = session
        self.guarded = guarded  # how many TRY blocks are around

    def batch(self, script: Block) -> Iterator[Answer]:
        """A whole batch; what cannot be parsed anywhere in it runs nowhere."""
        _check_syntax(script)
        try:
            yield from self.run(script)
        except Leave:
            pass
        except BatchEnds as ends:
            raise ends.failure from None
        if self.session.open is not None and self.session.open.doomed:
            yield self.session.rollback()
            raise error(3998)

    def run(self, node: Node) -> Iterator[Answer]:
        match node:
            case Leaf():
                yield from self._leaf(node)
            case Block(body):
                for each in body:
                    yield from self.run(each)
            case If(condition, then, otherwise):
                chosen = then if self._holds(condition) else otherwise
                yield from self.run(chosen or Block(()))
            case While(condition, body):
                yield from self._loop(condition, body)
            case Try(body, handler):
                yield from self._try(body, handler)

    def _loop(self, condition: str, body: Node) -> Iterator[Answer]:
        while self._holds(condition):
            try:
                yield from self.run(body)
            except Leave as leave:
                if leave.word == "BREAK":
                    return
                if leave.word == "RETURN":
                    raise

    def _try(self, body: Block, handler: Block) -> Iterator[Answer]:
        self.guarded += 1
        try:
            yield from self.run(body)
        except SqlError as failure:
            self.guarded -= 1
            if failure.number == CANCELLED:
                raise
            self.session.state.caught.append(failure)
            try:
                yield from self.run(handler)
            finally:
                self.session.state.caught.pop()
        else:
            self.guarded -= 1

    def _holds(self, text: str) -> bool:
        """A condition; an error in it counts as that of a statement."""
        try:
            return again(lambda: self._tested(text))
        except SqlError as failure:
            self._decide(failure)
            raise

    def _tested(self, text: str) -> bool:
        with self.session.statement() as transaction:
            compiler = self.session.compiler()
            predicate = compiler.predicate(parse_condition(text), Scope())
            sql = f"SELECT CASE WHEN {predicate} THEN 1 ELSE 0 END"
            ((found,),) = fetched(self.session, transaction, compiler, sql)
            return bool(found)

    def _leaf(self, leaf: Leaf) -> Iterator[Answer]:
        state = self.session.state
        if leaf.kind in ("RETURN", "BREAK", "CONTINUE"):
            raise Leave(leaf.kind)
        if leaf.kind == "THROW" and len(Tokens(leaf.text).all) == 1:
            if not state.caught:
                raise error(102, "THROW")
            yield from self._fail(state.caught[-1], thrown=True)
            return
        made = STATEMENTS.get(leaf.kind)
        if made is None:
            raise unknown(f"the statement {leaf.kind}")
        try:
            yield from made(self, leaf)
            yield from self._reports()
            state.error = 0
        except SqlError as failure:
            yield from self._reports()
            yield from self._fail(failure, thrown=leaf.kind == "THROW")

    def _reports(self) -> Iterator[Answer]:
        reports, self.session.reports = self.session.reports, []
        yield from reports

    def _fail(self, failure: SqlError, thrown: bool) -> Iterator[Answer]:
        session = self.session
        session.state.error = failure.number
        if self.guarded:
            self._doom(failure)
            raise failure
        if self._rolls_back(failure) and session.open is not None:
            yield session.rollback()
        if thrown or failure.number in BATCH_ABORTING | SCOPE_ABORTING | {CANCELLED}:
            raise BatchEnds(failure)
        if self.session.settings.xact_abort and failure.number != USER_ERROR:
            raise BatchEnds(failure)
        session.state.rowcount = 0
        yield failure

    def _decide(self, failure: SqlError) -> None:
        """For an error outside of a statement that answers."""
        self.session.state.error = failure.number
        if self.guarded:
            self._doom(failure)
            return
        if self._rolls_back(failure) and self.session.open is not None:
            self.session.rollback()
        raise BatchEnds(failure)

    def _rolls_back(self, failure: SqlError) -> bool:
        if failure.number == CANCELLED:
            return bool(self.session.settings.xact_abort)
        aborts = self.session.settings.xact_abort and failure.number != USER_ERROR
        return aborts or failure.number in BATCH_ABORTING

    def _doom(self, failure: SqlError) -> None:
        """Inside TRY a transaction that would be rolled back can only be so by CATCH."""
        if self._rolls_back(failure) and self.session.open is not None:
            self.session.open.doomed = True
            if failure.number == 1205:
                self.session.open.victim = False


def _check_syntax(node: Node) -> None:
    match node:
        case Leaf(kind, text) if kind == "SELECT" and not is_assignment(text):
            check_syntax(text)
        case Block(body):
            for each in body:
                _check_syntax(each)
        case If(_, then, otherwise):
            _check_syntax(then)
            if otherwise is not None:
                _check_syntax(otherwise)
        case While(_, body) | Try(body, _):
            _check_syntax(body)
