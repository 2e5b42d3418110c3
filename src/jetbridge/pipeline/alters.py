"""ALTER TABLE: the words of each form, and the change that it asks for."""

from collections.abc import Callable

import pyarrow as pa

from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    Alteration,
    CanAlter,
    CanLayOut,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
    supports,
)
from jetbridge.embedded.declarations import declared
from jetbridge.embedded.workbench import Desk
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Outcome, Session
from jetbridge.pipeline.statements import Alter
from jetbridge.pipeline.tokens import Words
from jetbridge.sqltext.quoting import identifier

_ALLOWED = "use ADD, DROP, RENAME, ALTER COLUMN, SET PARTITIONED BY or SET SORTED BY"


def alter(session: Session, statement: Alter) -> Outcome:
    places = session.places()
    path = places.path(statement.target)
    name = ".".join(path)
    try:
        table = places.live_table(path)
    except NotFound:
        if not statement.if_exists:
            raise
        return Outcome(Report("ALTER TABLE", name, note="there is none; nothing was done"))
    words = Words(statement.text)
    layout = _layout(words)
    if layout is not None:
        if not supports(table, CanLayOut):
            raise NotSupported(f"table {name!r} has no partitions and no order")
        table.lay_out(*layout)
        return Outcome(Report("ALTER TABLE", name, note="for rows to come; see jetbridge optimize"))
    with session.desk() as desk:
        change = read_alteration(desk, words)
    if not supports(table, CanAlter):
        raise NotSupported(f"table {name!r} takes no ALTER TABLE")
    table.alter(change)
    return Outcome(Report("ALTER TABLE", name))


def _layout(words: Words) -> tuple[str | None, str | None] | None:
    """`SET PARTITIONED BY (...)` and `SET SORTED BY (...)`; RESET takes them away."""
    resets = words.peek() == "RESET"
    for word in ("PARTITIONED", "SORTED"):
        if words.take("RESET" if resets else "SET", word):
            words.expect("BY")
            text = ""
            if not resets:
                words.expect("(")
                text = words.inside()
            words.end()
            return (text, None) if word == "PARTITIONED" else (None, text)
    return None


def read_alteration(desk: Desk, words: Words) -> Alteration:
    """Raises NotSupported for a form that is not known, and what DuckDB finds wrong."""
    read = _FORMS.get(words.peek())
    if read is None:
        raise NotSupported(f"ALTER TABLE ... {words.peek()} is not supported: {_ALLOWED}")
    words.take(words.peek())
    return read(desk, words)


def _add(desk: Desk, words: Words) -> Alteration:
    if words.take("CONSTRAINT"):
        words.identifier()
    if words.peek() in ("CHECK", "PRIMARY", "UNIQUE", "FOREIGN"):
        return _constraint(words)
    words.take("COLUMN")
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    path = _path(words)
    if words.finds("PRIMARY", "KEY"):
        raise NotSupported("add the column first, then ADD PRIMARY KEY (...)")
    field = _column(desk, f"{identifier(path[-1])} {words.rest()}")
    if len(path) > 1:
        return AddField(path[:-1], field, if_not_exists)
    return AddColumn(field, if_not_exists)


def _column(desk: Desk, text: str) -> pa.Field:
    """One column, as CREATE TABLE would declare it."""
    found = declared(desk, f"({text})")
    if len(found.schema) != 1:
        raise BadRequest("ALTER TABLE takes one column at a time")
    return found.schema.field(0)


def _path(words: Words) -> tuple[str, ...]:
    parts = [words.identifier()]
    while words.take("."):
        parts.append(words.identifier())
    return tuple(parts)


def _constraint(words: Words) -> Alteration:
    if words.take("CHECK"):
        words.expect("(")
        expression = words.inside()
        words.end()
        return AddCheck(expression)
    if words.take("PRIMARY", "KEY"):
        return AddKey(UniqueKey(words.names_in_brackets(), primary=True))
    if words.take("UNIQUE"):
        return AddKey(UniqueKey(words.names_in_brackets()))
    raise NotSupported("foreign keys are not supported")


def _drop(_: Desk, words: Words) -> Alteration:
    if words.take("CONSTRAINT"):
        raise NotSupported("constraints cannot be dropped: create the table anew without it")
    words.take("COLUMN")
    if_exists = words.take("IF", "EXISTS")
    path = _path(words)
    cascade = words.take("CASCADE")
    words.take("RESTRICT")
    words.end()
    if len(path) > 1:
        return RemoveField(path, if_exists, cascade)
    return RemoveColumn(path[0], if_exists, cascade)


def _rename(_: Desk, words: Words) -> Alteration:
    if words.take("TO"):
        name = words.identifier()
        words.end()
        return RenameTable(name)
    words.take("COLUMN")
    path = _path(words)
    words.expect("TO")
    name = words.identifier()
    words.end()
    return RenameField(path, name) if len(path) > 1 else RenameColumn(path[0], name)


def _alter_column(desk: Desk, words: Words) -> Alteration:
    words.take("COLUMN")
    column = words.identifier()
    if words.take("SET", "NOT", "NULL"):
        return SetNotNull(column)
    if words.take("DROP", "NOT", "NULL"):
        return DropNotNull(column)
    if words.take("DROP", "DEFAULT"):
        return SetDefault(column, "NULL")
    if words.take("SET", "DEFAULT"):
        return SetDefault(column, words.rest())
    words.take("SET", "DATA")
    words.expect("TYPE")
    kind = words.until("USING")
    expression = words.rest() if words.take("USING") else ""
    field = _column(desk, f"c {kind}")
    return ChangeType(field.with_name(column), expression)


_FORMS: dict[str, Callable[[Desk, Words], Alteration]] = {
    "ADD": _add,
    "DROP": _drop,
    "RENAME": _rename,
    "ALTER": _alter_column,
}
