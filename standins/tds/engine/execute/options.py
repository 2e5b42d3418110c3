"""SET of options: those that matter here, and those that are taken and forgotten."""

from typing import Any

from standins.tds.engine.errors import error, unknown
from standins.tds.engine.parse.tokens import Tokens

IGNORED = {
    "ANSI_DEFAULTS", "ANSI_NULLS", "ANSI_NULL_DFLT_ON", "ANSI_NULL_DFLT_OFF", "ANSI_PADDING",
    "ANSI_WARNINGS", "ARITHABORT", "ARITHIGNORE", "CONCAT_NULL_YIELDS_NULL", "CONTEXT_INFO",
    "CURSOR_CLOSE_ON_COMMIT", "DATEFIRST", "DATEFORMAT", "FORCEPLAN", "LANGUAGE", "NOEXEC",
    "NUMERIC_ROUNDABORT", "PARSEONLY", "QUERY_GOVERNOR_COST_LIMIT", "QUOTED_IDENTIFIER",
    "REMOTE_PROC_TRANSACTIONS", "ROWCOUNT", "STATISTICS", "TEXTSIZE",
}  # fmt: skip
LEVELS = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT"}
PRIORITIES = {"LOW": -5, "NORMAL": 0, "HIGH": 5}


def set_option(session: Any, tokens: Tokens) -> None:
    if tokens.take("TRANSACTION", "ISOLATION", "LEVEL"):
        _isolation(session, tokens)
        return
    if tokens.take("IDENTITY_INSERT"):
        _identity_insert(session, tokens)
        return
    names = [tokens.name().upper()]
    while tokens.take(","):
        names.append(tokens.name().upper())
    value = tokens.rest()
    for name in names:
        _plain(session, name, value)


def _plain(session: Any, name: str, value: str) -> None:
    settings, on = session.settings, value.strip().upper() == "ON"
    if name in ("NOCOUNT", "XACT_ABORT", "FMTONLY"):
        setattr(settings, name.lower(), on)
    elif name == "IMPLICIT_TRANSACTIONS":
        if on:
            raise unknown("SET IMPLICIT_TRANSACTIONS ON")
    elif name == "LOCK_TIMEOUT":
        settings.lock_timeout = int(value)
    elif name == "DEADLOCK_PRIORITY":
        word = value.strip().upper()
        settings.deadlock_priority = PRIORITIES[word] if word in PRIORITIES else int(word)
    elif name not in IGNORED:
        raise unknown(f"SET {name}")


def _isolation(session: Any, tokens: Tokens) -> None:
    level = " ".join(tokens.rest().upper().split())
    if level not in LEVELS:
        raise error(102, level)
    if level == "SNAPSHOT" and session.open is not None and session.open.stamps:
        raise error(3951, session.database)
    session.settings.isolation = level


def _identity_insert(session: Any, tokens: Tokens) -> None:
    with session.statement():
        table = session.find(tokens.dotted())
        if table.identity is None:
            raise error(8106, table.full_name)
        settings = session.settings
        if not tokens.take("ON"):
            tokens.need("OFF")
            if settings.identity_insert == table.object_id:
                settings.identity_insert = None
            return
        if settings.identity_insert not in (None, table.object_id):
            other = session.table_by_id(settings.identity_insert)
            if other is not None:
                raise error(8107, other.long_name, table.long_name)
        settings.identity_insert = table.object_id
