"""Reads ATTACH, DETACH, CREATE SECRET and DROP SECRET.

No message quotes a value, since it may be a password.
"""

from jetbridge.catalog import OnConflict
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.statements import (
    Attach,
    CreateSecret,
    Detach,
    DropSecret,
    Statement,
)
from jetbridge.pipeline.parsing.tokens import TokenCursor
from jetbridge.pipeline.secrets import default_name

_SESSION_ONLY = "a secret lasts until the session ends"


def read_attach(cursor: TokenCursor) -> Statement:
    """Read ATTACH and its options."""
    cursor.expect("ATTACH")
    conflict = OnConflict.REPLACE if cursor.take("OR", "REPLACE") else OnConflict.ERROR
    cursor.take("DATABASE")
    if cursor.take("IF", "NOT", "EXISTS"):
        conflict = OnConflict.IGNORE
    location = cursor.string()
    if not cursor.take("AS"):
        raise BadRequest("ATTACH needs a name: ATTACH '...' AS name (TYPE ...)")
    alias = cursor.identifier()
    return Attach(location, alias, _options(cursor), conflict)


def read_detach(cursor: TokenCursor) -> Statement:
    cursor.expect("DETACH")
    cursor.take("DATABASE")
    if_exists = cursor.take("IF", "EXISTS")
    return Detach(cursor.identifier(), if_exists)


def take_secret(cursor: TokenCursor) -> bool:
    """Go past [TEMPORARY] SECRET if it comes after CREATE [OR REPLACE]; return whether it did."""
    if cursor.take("PERSISTENT", "SECRET"):
        raise NotSupported(f"PERSISTENT is not supported: {_SESSION_ONLY}")
    return (
        cursor.take("SECRET") or cursor.take("TEMPORARY", "SECRET") or cursor.take("TEMP", "SECRET")
    )


def read_create_secret(cursor: TokenCursor, on_conflict: OnConflict) -> Statement:
    """Read what follows CREATE SECRET."""
    if cursor.take("IF", "NOT", "EXISTS"):
        on_conflict = OnConflict.IGNORE
    name = "" if cursor.peek() == "(" else cursor.identifier()
    if cursor.take("IN"):
        raise NotSupported(f"IN is not supported: {_SESSION_ONLY}")
    options = _options(cursor)
    return CreateSecret(name or default_name(options.get("type", "")), options, on_conflict)


def read_drop_secret(cursor: TokenCursor) -> Statement:
    """Read what follows DROP SECRET."""
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.identifier()
    if cursor.take("FROM"):
        raise NotSupported(f"FROM is not supported: {_SESSION_ONLY}")
    cursor.end()
    return DropSecret(name, if_exists)


def _options(cursor: TokenCursor) -> dict[str, str]:
    """Read `(NAME value, ...)`; a name without a value means true."""
    options: dict[str, str] = {}
    if not cursor.take("("):
        cursor.end()
        return options
    more = not cursor.take(")")
    while more:
        name = cursor.identifier().lower()
        if name in options:
            raise BadRequest(f"the option {name.upper()} appears twice")
        options[name] = _value(cursor)
        more = cursor.take(",")
        if not more and not cursor.take(")"):
            raise BadRequest(f"the value of {name.upper()} must be one word or a string")
    cursor.end()
    return options


def _value(cursor: TokenCursor) -> str:
    if cursor.peek() in (",", ")"):
        return "true"
    return cursor.string() if cursor.is_string() else cursor.identifier()
