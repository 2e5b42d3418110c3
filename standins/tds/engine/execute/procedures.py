"""EXEC: texts, and the system procedures that are known."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from standins.tds.engine.ddl.alter import Alterations
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.execute.evaluating import Variable, scalar, set_variable
from standins.tds.engine.execute.flow import Leave
from standins.tds.engine.metadata.functions import split_name
from standins.tds.engine.metadata.procedures import CATALOG_PROCEDURES
from standins.tds.engine.parse.ddl import type_text
from standins.tds.engine.parse.script import parse_script
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.storage import locks
from standins.tds.engine.types import parse_type
from standins.tds.values import Answer, Count, Message, SqlError

MODES = {
    "SHARED": locks.S, "UPDATE": locks.U, "EXCLUSIVE": locks.X, "INTENTSHARED": locks.IS,
    "INTENTEXCLUSIVE": locks.IX,
}  # fmt: skip
RENAMED = "Caution: Changing any part of an object name could break scripts and stored procedures."


@dataclass(frozen=True)
class Given:
    """An argument: its text, for `= @x OUTPUT` also where the result goes."""

    name: str
    text: str
    output: bool
    word: str | None = None


class Arguments:
    """By name or by place, as the procedure declares them."""

    def __init__(self, session: Any, given: list[Given], procedure: str) -> None:
        self._session, self.given, self.procedure = session, given, procedure

    def find(self, place: int, *names: str) -> Given | None:
        wanted = {each.lower() for each in names}
        for at, each in enumerate(self.given):
            if each.name.lower() in wanted or (not each.name and at == place):
                return each
        return None

    def value(self, place: int, *names: str, default: Any = None) -> Any:
        found = self.find(place, *names)
        return default if found is None else self.evaluated(found)

    def required(self, place: int, *names: str) -> Any:
        if self.find(place, *names) is None:
            raise error(201, self.procedure, names[0])
        return self.value(place, *names)

    def evaluated(self, given: Given) -> Any:
        if given.word is not None:
            return given.word
        return None if given.text.upper() == "DEFAULT" else scalar(self._session, given.text)


def run_procedure(interpreter: Any, text: str) -> Iterator[Answer]:
    tokens = Tokens(text)
    tokens.next()
    if tokens.peek() == "(":
        yield from run_text(interpreter, _joined(interpreter.session, tokens.inside()))
        return
    result = ""
    token = tokens.token()
    if token is not None and token.kind == "variable" and tokens.peek(1) == "=":
        result = tokens.next().text
        tokens.need("=")
    name = tokens.dotted()[-1]
    arguments = Arguments(interpreter.session, _arguments(tokens), name)
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise error(2812, name)
    status = yield from found(interpreter, arguments)
    if result:
        set_variable(interpreter.session, result, str(status))


def _joined(session: Any, inside: Tokens) -> str:
    value = scalar(session, inside.rest())
    return "" if value is None else str(value)


def _arguments(tokens: Tokens) -> list[Given]:
    found = []
    for part in Tokens(tokens.text, tokens.all[tokens.place :]).parted():
        inner = Tokens(part)
        name = ""
        token = inner.token()
        if token is not None and token.kind == "variable" and inner.peek(1) == "=":
            name = inner.next().text
            inner.need("=")
        output = bool(inner.all) and inner.all[-1].upper in ("OUTPUT", "OUT")
        kept = inner.all[inner.place : -1] if output else inner.all[inner.place :]
        text = inner.text[kept[0].start : kept[-1].end] if kept else "NULL"
        word = None
        if len(kept) == 1 and kept[0].kind in ("word", "bracket"):
            word = None if kept[0].upper in ("NULL", "DEFAULT") else kept[0].name
        found.append(Given(name, text, output, word))
    return found


def run_text(
    interpreter: Any, text: str, variables: dict[str, Any] | None = None
) -> Iterator[Answer]:
    """A batch inside of a batch, with variables of its own."""
    session = interpreter.session
    outer, session.variables = session.variables, variables if variables is not None else {}
    try:
        yield from type(interpreter)(session, interpreter.guarded).run(parse_script(text))
    except Leave:
        pass
    finally:
        session.variables = outer


Procedure = Callable[[Any, Arguments], Generator[Answer, None, int]]


def _executesql(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    session = interpreter.session
    text = str(arguments.required(0, "@statement", "@stmt"))
    declared = arguments.value(1, "@params", "@parameters", default="") or ""
    variables: dict[str, Any] = {}
    back: list[tuple[str, str]] = []
    for place, part in enumerate(Tokens(str(declared)).parted(), 2):
        inner = Tokens(part)
        name = inner.next().text
        inner.take("AS")
        variables[name.lower()] = Variable(parse_type(type_text(inner)))
        given = arguments.find(place, name)
        if given is None:
            raise error(8178, text, name)
        variables[name.lower()].value = arguments.evaluated(given)
        if given.output:
            back.append((given.text, name.lower()))
    yield from run_text(interpreter, text, variables)
    for outer, inner_name in back:
        session.variables[outer.lower()].value = variables[inner_name].value
    return 0


def _rename(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    session = interpreter.session
    name = str(arguments.required(0, "@objname"))
    new = str(arguments.required(1, "@newname"))
    kind = str(arguments.value(2, "@objtype", default="") or "").upper()
    parts = split_name(name)
    if parts is None:
        raise error(15225, name, session.database, kind or "(null)")
    with session.statement() as transaction:
        Alterations(session, transaction).rename(parts, new, kind)
    yield Message(15477, RENAMED)
    return 0


def _getapplock(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    session = interpreter.session
    name = str(arguments.required(0, "@Resource"))
    mode = MODES.get(str(arguments.required(1, "@LockMode")).upper())
    owner_name = str(arguments.value(2, "@LockOwner", default="Transaction")).upper()
    timeout = arguments.value(3, "@LockTimeout", default=session.settings.lock_timeout)
    if mode is None:
        raise unknown("that mode of sp_getapplock")
    owner = session.open if owner_name == "TRANSACTION" else session.own_locks
    if owner is None:
        raise SqlError(50000, "You attempted to acquire a transactional application lock without an"
                       " active transaction.")  # fmt: skip
    resource = ("app", session.database.lower(), name)
    waited = session.core.locks.is_blocked(owner, resource, mode)
    owner.lock_timeout = session.settings.lock_timeout
    try:
        session.core.locks.acquire(owner, resource, mode, int(timeout))
    except SqlError as failure:
        if failure.number != 1222:
            raise
        return -1
    yield from ()
    return 1 if waited else 0


def _releaseapplock(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    session = interpreter.session
    name = str(arguments.required(0, "@Resource"))
    owner_name = str(arguments.value(1, "@LockOwner", default="Transaction")).upper()
    owner = session.open if owner_name == "TRANSACTION" else session.own_locks
    resource = ("app", session.database.lower(), name)
    held = session.core.locks.mode_of(owner, resource) if owner is not None else None
    if held is None:
        raise SqlError(1223, "Cannot release the application lock (Database Principal: 'public',"
                       f" Resource: '{name}') because it is not currently held.")  # fmt: skip
    session.core.locks.release(owner, resource, held)
    yield from ()
    return 0


def _add_extended_property(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    """Only of a schema; two names are compared as the texts of a collation without case."""
    session = interpreter.session
    name = str(arguments.required(0, "@name"))
    value = str(arguments.value(1, "@value", default="") or "")
    if str(arguments.value(2, "@level0type", default="")).upper() != "SCHEMA" or arguments.find(
        4, "@level1type"
    ):
        raise unknown("extended properties of anything but schemas")
    title = str(arguments.required(3, "@level0name"))
    database = session.names.database(session.database)
    schema = database.schema(title)
    if schema is None:
        raise error(15135, title)
    number = database.schemas[schema]
    with session.statement() as transaction:
        properties = database.properties.setdefault(number, {})
        if name.rstrip().lower() in {each.rstrip().lower() for each in properties}:
            raise error(15233, name, schema)
        properties[name] = value
        transaction.undo.append(lambda: properties.pop(name, None))
    yield Count()
    return 0


def _nothing(interpreter: Any, arguments: Arguments) -> Generator[Answer, None, int]:
    yield Count()
    return 0


PROCEDURES: dict[str, Procedure] = {
    "sp_executesql": _executesql,
    "sp_rename": _rename,
    "sp_addextendedproperty": _add_extended_property,
    "sp_getapplock": _getapplock,
    "sp_releaseapplock": _releaseapplock,
    "sp_updatestats": _nothing,
    **CATALOG_PROCEDURES,
}
