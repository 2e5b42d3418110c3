"""Which statement does what."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from standins.tds.engine.ddl.statements import alter, create, drop, truncate
from standins.tds.engine.dml.run import delete, insert, merge, update
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.execute.evaluating import Variable, evaluated, scalar, set_variable
from standins.tds.engine.execute.options import set_option
from standins.tds.engine.execute.procedures import run_procedure
from standins.tds.engine.execute.selects import select
from standins.tds.engine.expressions.text_values import text_of
from standins.tds.engine.parse.ddl import type_text
from standins.tds.engine.parse.dml import with_clause
from standins.tds.engine.parse.script import Leaf
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.reading import again
from standins.tds.engine.types import parse_type
from standins.tds.values import Answer, Count, Database, Message, SqlError

Statement = Callable[[Any, Leaf], Iterator[Answer]]
TRANSACTION = ("TRAN", "TRANSACTION", "WORK")
USER_ERROR = 50000


def _declare(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("DECLARE")
    for part in Tokens(leaf.text, tokens.all[1:]).parted():
        inner = Tokens(part)
        name = inner.next().text
        inner.take("AS")
        if inner.peek() == "TABLE":
            raise unknown("a table variable")
        sql_type = parse_type(type_text(inner))
        if name.lower() in session.variables:
            raise error(134, name)
        session.variables[name.lower()] = Variable(sql_type)
        if inner.take("="):
            set_variable(session, name, inner.rest())
        elif not inner.done:
            inner.fail()
    return iter(())


def _set(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    tokens.need("SET")
    token = tokens.token()
    if token is not None and token.kind == "variable":
        name, sign = tokens.next().text, ""
        sign = tokens.next().text
        if not sign.endswith("="):
            raise error(102, sign)
        text = tokens.rest()
        if len(sign) == 2:
            text = f"{name} {sign[0]} ({text})"
        set_variable(interpreter.session, name, text)
    else:
        set_option(interpreter.session, tokens)
    return iter(())


def _select(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    yield from select(interpreter.session, leaf.text)


def _with(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    ctes = with_clause(tokens)
    if tokens.peek() == "SELECT":
        yield from select(interpreter.session, leaf.text)
        return
    rest = Leaf(tokens.peek(), tokens.rest(), leaf.ended)
    yield from _changing(interpreter, rest, ctes)


def _change(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    yield from _changing(interpreter, leaf, "")


def _changing(interpreter: Any, leaf: Leaf, ctes: str) -> Iterator[Answer]:
    session = interpreter.session
    if session.settings.fmtonly:
        return
    made = {"INSERT": insert, "UPDATE": update, "DELETE": delete, "MERGE": merge}[leaf.kind]
    answers, rows = again(lambda: made(session, leaf, ctes))
    session.state.rowcount = rows
    yield from answers


def _begin(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    if tokens.peek(1) not in TRANSACTION:
        raise error(102, tokens.peek(1))
    session = interpreter.session
    first = session.open is None
    begun = session.begin()
    if first:
        yield begun
    yield Count()


def _commit(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    count = session.open.count if session.open is not None else 0
    done = session.commit()
    if count == 1:
        yield done
    yield Count()


def _rollback(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("ROLLBACK")
    tokens.take(tokens.peek()) if tokens.peek() in TRANSACTION else None
    name = tokens.next().text if not tokens.done else ""
    if session.open is None:
        raise error(3903)
    if name and any(each.name == name.lower() for each in session.open.savepoints):
        session.open.roll_back_to(name)
    else:
        yield session.rollback()
    yield Count()


def _save(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    if session.open is None:
        raise error(628)
    session.open.save(Tokens(leaf.text).all[-1].name)
    yield Count()


def _use(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("USE")
    found = session.names.database(tokens.name())
    if not session.login.may_enter(found.name):
        raise SqlError(
            916, f'The server principal "{session.login.name}" is not able to access the database'
            f' "{found.name}" under the current security context.', 14,
        )  # fmt: skip
    old, session.database = session.database, found.name
    yield Database(found.name, old)
    yield Count()


def _print(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    text = leaf.text[len("PRINT") :]
    value = evaluated(interpreter.session, text, text_of)
    yield Message(0, "" if value is None else str(value))
    yield Count()


def _raiserror(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    tokens.need("RAISERROR")
    message, severity, state, *rest = tokens.inside().parted()
    session = interpreter.session
    text = str(scalar(session, message))
    values = tuple(scalar(session, each) for each in rest)
    shown = text % values if values else text.replace("%%", "%")
    level = int(scalar(session, severity))
    if level <= 10:
        yield Message(USER_ERROR if level else 0, shown, level, int(scalar(session, state)))
        yield Count()
        return
    raise SqlError(USER_ERROR, shown, level, int(scalar(session, state)))


def _throw(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    number, message, state = Tokens(leaf.text, tokens.all[1:]).parted()
    session = interpreter.session
    raise SqlError(
        int(scalar(session, number)), str(scalar(session, message)), 16, int(scalar(session, state))
    )


def _waitfor(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    tokens.need("WAITFOR", "DELAY")
    session = interpreter.session
    text = str(scalar(session, tokens.rest()))
    hours, minutes, seconds = (float(each) for each in (text.split(":") + ["0"])[:3])
    deadline = time.monotonic() + hours * 3600 + minutes * 60 + seconds
    while (left := deadline - time.monotonic()) > 0:
        if session.cancelled.wait(left):
            raise SqlError(3617, "The query was canceled.", 11)
    yield Count()


def _exec(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    yield from run_procedure(interpreter, leaf.text)


def _checkpoint(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    yield Count()


def _dbcc(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    raise unknown(leaf.text)


STATEMENTS: dict[str, Statement] = {
    "SELECT": _select,
    "WITH": _with,
    "INSERT": _change,
    "UPDATE": _change,
    "DELETE": _change,
    "MERGE": _change,
    "DECLARE": _declare,
    "SET": _set,
    "BEGIN": _begin,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SAVE": _save,
    "USE": _use,
    "PRINT": _print,
    "RAISERROR": _raiserror,
    "THROW": _throw,
    "WAITFOR": _waitfor,
    "TRUNCATE": truncate,
    "CREATE": create,
    "ALTER": alter,
    "DROP": drop,
    "EXEC": _exec,
    "EXECUTE": _exec,
    "CHECKPOINT": _checkpoint,
    "DBCC": _dbcc,
}
