"""Errors as SQL Server numbers and words them."""

from typing import Any

from standins.tds.engine.error_texts import TEXTS
from standins.tds.values import SqlError

UNKNOWN = 40000  # of the stand-in alone
MARK = "\x01"  # parts number and text inside the message of DuckDB's error()

# After these nothing more of the batch runs, and an open transaction is rolled back.
BATCH_ABORTING = {
    241,
    242,
    244,
    245,
    248,
    295,
    296,
    1205,
    3960,
    3951,
    3952,
    8114,
    8169,
    9002,
    3930,
    3998,
}
# These stop the batch (nothing was compiled); a transaction stays open.
SCOPE_ABORTING = {
    102, 103, 105, 156, 134, 137, 205, 206, 207, 208, 209, 213, 109, 110, 120, 121, 257, 1033, 4104,
    4121, 8117, 8120, 8155, 8156, 10713, 10738, 264, 911, 343, UNKNOWN,
}  # fmt: skip


def error(number: int, *parts: Any, state: int = 1) -> SqlError:
    severity, text = TEXTS[number]
    return SqlError(number, text.format(*parts), severity, state)


def unknown(what: str) -> SqlError:
    """What is not known is refused, never guessed."""
    return error(UNKNOWN, what)


def raised(number: int, *parts: str) -> str:
    """DuckDB SQL that raises the error; `parts` are SQL expressions of type VARCHAR."""
    text = TEXTS[number][1].replace("'", "''")
    pieces = text.split("{}")
    joined = [f"'{MARK}{number}{MARK}{pieces[0]}'"]
    for part, piece in zip(parts, pieces[1:], strict=True):
        joined += [f"coalesce({part}, 'NULL')", f"'{piece}'"]
    return f"error({' || '.join(joined)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
