"""Reads ALTER TABLE: each form, and the change that it makes."""

from collections.abc import Callable

from jetbridge.catalog import (
    AddCheck,
    AddKey,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.errors import NotSupported
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterAction,
    ChangeColumnType,
    SetLayout,
)
from jetbridge.pipeline.parsing.tokens import TokenCursor

_ALLOWED = "use ADD, DROP, RENAME, ALTER COLUMN, SET PARTITIONED BY or SET SORTED BY"


def read_alter_action(cursor: TokenCursor) -> AlterAction:
    """Read what follows the name of the table; raises NotSupported for an unknown form."""
    layout = _layout(cursor)
    if layout is not None:
        return layout
    form = cursor.peek()
    read = _FORMS.get(form)
    if read is None:
        raise NotSupported(f"ALTER TABLE ... {form} is not supported: {_ALLOWED}")
    cursor.take(form)
    return read(cursor)


def _layout(cursor: TokenCursor) -> SetLayout | None:
    """Read SET or RESET of PARTITIONED BY and SORTED BY; return None for another form."""
    resets = cursor.peek() == "RESET"
    for word in ("PARTITIONED", "SORTED"):
        if cursor.take("RESET" if resets else "SET", word):
            cursor.expect("BY")
            text = ""
            if not resets:
                cursor.expect("(")
                text = cursor.inside()
            cursor.end()
            return SetLayout(text, None) if word == "PARTITIONED" else SetLayout(None, text)
    return None


def _add(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CONSTRAINT"):
        cursor.identifier()
    if cursor.peek() in ("CHECK", "PRIMARY", "UNIQUE", "FOREIGN"):
        return _constraint(cursor)
    cursor.take("COLUMN")
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    path = cursor.dotted_name()
    if cursor.contains("PRIMARY", "KEY"):
        raise NotSupported("add the column first, then ADD PRIMARY KEY (...)")
    return AddDeclaredColumn(path, cursor.rest(), if_not_exists)


def _constraint(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CHECK"):
        cursor.expect("(")
        expression = cursor.inside()
        cursor.end()
        return AddCheck(expression)
    if cursor.take("PRIMARY", "KEY"):
        return AddKey(UniqueKey(cursor.names_in_brackets(), primary=True))
    if cursor.take("UNIQUE"):
        return AddKey(UniqueKey(cursor.names_in_brackets()))
    raise NotSupported("foreign keys are not supported")


def _drop(cursor: TokenCursor) -> AlterAction:
    if cursor.take("CONSTRAINT"):
        raise NotSupported("constraints cannot be dropped: create a new table without it")
    cursor.take("COLUMN")
    if_exists = cursor.take("IF", "EXISTS")
    path = cursor.dotted_name()
    cascade = cursor.take("CASCADE")
    cursor.take("RESTRICT")
    cursor.end()
    if len(path) > 1:
        return RemoveField(path, if_exists, cascade)
    return RemoveColumn(path[0], if_exists, cascade)


def _rename(cursor: TokenCursor) -> AlterAction:
    if cursor.take("TO"):
        name = cursor.identifier()
        cursor.end()
        return RenameTable(name)
    cursor.take("COLUMN")
    path = cursor.dotted_name()
    cursor.expect("TO")
    name = cursor.identifier()
    cursor.end()
    return RenameField(path, name) if len(path) > 1 else RenameColumn(path[0], name)


def _alter_column(cursor: TokenCursor) -> AlterAction:
    cursor.take("COLUMN")
    column = cursor.identifier()
    if cursor.take("SET", "NOT", "NULL"):
        return SetNotNull(column)
    if cursor.take("DROP", "NOT", "NULL"):
        return DropNotNull(column)
    if cursor.take("DROP", "DEFAULT"):
        return SetDefault(column, "NULL")
    if cursor.take("SET", "DEFAULT"):
        return SetDefault(column, cursor.rest())
    cursor.take("SET", "DATA")
    cursor.expect("TYPE")
    data_type = cursor.until("USING")
    expression = cursor.rest() if cursor.take("USING") else ""
    return ChangeColumnType(column, data_type, expression)


_FORMS: dict[str, Callable[[TokenCursor], AlterAction]] = {
    "ADD": _add,
    "DROP": _drop,
    "RENAME": _rename,
    "ALTER": _alter_column,
}
