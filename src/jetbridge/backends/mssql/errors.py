"""Translates errors of SQL Server and its driver to those of this project, with their numbers.

Errors of the driver's ODBC half have no number, so `connection/odbc` asks the session for it.
Those of the core have it in their text.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    LimitExceeded,
    NotFound,
    NotSupported,
    PermissionDenied,
    ServerError,
    Unavailable,
)

# The first of several errors is the cause.
_NUMBERED = re.compile(
    r"Sql Error: (\d+): Class \d+: State \d+: (.*?)(?=\nSql Error: |\Z)", re.DOTALL
)
_WHERE = re.compile(r" on \S* in .* at line \d+\s*$")
_DRIVER = re.compile(r"^Driver Error: .*?; DDBC Error: (?:\[[^\]]*\])*", re.DOTALL)
_MAX_LENGTH = 380
DUPLICATE_KEY = (2627, 2601)
DEADLOCK = 1205
TABLE_EXISTS = 2714
UNKNOWN_TABLE = (208, 4902, 3701)
UNKNOWN_COLUMN = 207
UNKNOWN_SCHEMA = (2759, 2760)
LOGIN_FAILED = 18456
UNKNOWN_DATABASE = (4060, 911)
# Snapshot reads of a database that does not allow them, and of memory-optimized tables.
NO_SNAPSHOT, NO_SNAPSHOT_IN_MEMORY = 3952, 41332

# The number of RAISERROR without one: the connection works, so the server sent the error.
UNKNOWN_NUMBER = 50000
_TIMED_OUT = "Timeout Error: Elapsed"
# Messages of the driver for rows that it does not send, and the server's number for each.
_DRIVER_MESSAGES = (
    (re.compile(r"NULL value into non-nullable column"), 515),
    (re.compile(r"Destination column '.*' not found"), UNKNOWN_COLUMN),
    (re.compile(r"length .* exceeds"), 2628),
)

# Errors of statements with parameters. The driver sends another statement before the number can be
# queried, or the number is that of a second error, "could not be prepared".
_UNPREPARED = 8180
_SERVER_MESSAGES = (
    (re.compile(r"Invalid object name"), 208),
    (re.compile(r"Invalid column name"), UNKNOWN_COLUMN),
    (re.compile(r"deadlocked on .* resources"), DEADLOCK),
    (re.compile(r"Lock request time out period exceeded"), 1222),
    (re.compile(r"permission was denied on the object"), 229),
    (re.compile(r"permission was denied on the column"), 230),
    (re.compile(r"because snapshot isolation is not allowed in this database"), NO_SNAPSHOT),
    (re.compile(r"Snapshot isolation transaction failed .* modified by a DDL statement"), 3961),
    (
        re.compile(r"Memory optimized tables .* ISOLATION LEVEL is set to SNAPSHOT"),
        NO_SNAPSHOT_IN_MEMORY,
    ),
    (re.compile(r"Arithmetic overflow error"), 8115),
    (re.compile(r"Conversion failed when converting"), 245),
    (re.compile(r"Divide by zero error"), 8134),
)

# Babelfish's number for all errors of PostgreSQL that have no number in SQL Server.
_NO_NUMBER = 33557097
_POSTGRES_MESSAGES = (
    (re.compile(r'schema ".*" does not exist'), 2760),
    (re.compile(r'column ".*" of relation ".*" already exists'), 2705),
    (re.compile(r"column .* does not exist"), UNKNOWN_COLUMN),
    (re.compile(r'relation ".*" does not exist'), 208),
    (re.compile(r"invalid input syntax|is out of range"), 245),
    (re.compile(r"syntax error"), 102),
    (re.compile(r"permission denied|must be owner"), 229),
    (re.compile(r"could not serialize access"), 3960),
    (re.compile(r"not currently supported"), 40517),
)

_ErrorClass = Callable[[str], ServerError]
_CLASSES: dict[_ErrorClass, tuple[int, ...]] = {
    DuplicateKey: DUPLICATE_KEY,
    ConstraintViolation: (515, 547),
    BadRequest: (
        *(102, 156, 206, 207, 220, 232, 241, 242, 244, 245, 248, 257, 2628, 2705, 4815, 7339),
        *(8114, 8115, 8134, 8152, 15233),
    ),
    Conflict: (DEADLOCK, 3960, 3961, 1222, 41302, 41305, 41325),
    PermissionDenied: (229, 230, 262, 300, 916, 1088, 15247, 33504),
    LimitExceeded: (701, 1101, 1105, 8645, 9002, 40544),
    # The server stops, rows of the catalog moved while they were read without locks, or a database
    # in the cloud moves or is throttled. These are retried.
    Unavailable: (596, 601, 6005, 10928, 10929, 40197, 40501, 40613, 49918, 49919, 49920),
    NotSupported: (40517,),
    FailedPrecondition: (
        *(LOGIN_FAILED, *UNKNOWN_DATABASE, 3906, NO_SNAPSHOT, NO_SNAPSHOT_IN_MEMORY),
        # Something uses the table, column or key, or existing rows violate a new constraint.
        *(1505, 1750, 1754, 1779, 3725, 3726, 3727, 3729, 3732, 4901, 4922, 4923, 5074, 8111),
        *(13552, 13559, 15336),
    ),
}
_BY_NUMBER: dict[int, _ErrorClass] = {
    number: error_class for error_class, numbers in _CLASSES.items() for number in numbers
}
_REMEDIES = {
    LOGIN_FAILED: "check user and password",
    4060: "check the name of the database and the rights of the login",
    911: "check the name of the database",
    DEADLOCK: "another statement held the same rows; run it again",
    3906: "make the database writable",
    NO_SNAPSHOT: "SET mssql_snapshot_reads = false, in the file of a server",
    NO_SNAPSHOT_IN_MEMORY: "SET mssql_snapshot_reads = false, in the file of a server",
    1222: "another statement holds the rows; run it again",
    262: "grant the login CREATE TABLE, and ALTER on the schema",
    229: "grant the login that right on the table",
    230: "grant the login that right on the column",
    300: "grant the login that right",
    1088: "check the name and the rights of the login",
    15233: "SQL Server considers two names of tags equal: rename one of them",
    15247: "grant the login that right, or use another login",
    9002: "back up or enlarge its log, then run the statement again",
    1105: "enlarge or free a file of the database",
}


def number_of(error: BaseException) -> int | None:
    """Return the number in the text of an error of the core."""
    match = _NUMBERED.search(str(error))
    return int(match[1]) if match else None


_VAGUE_NUMBERS = {
    _NO_NUMBER: _POSTGRES_MESSAGES,
    UNKNOWN_NUMBER: _SERVER_MESSAGES,
    _UNPREPARED: _SERVER_MESSAGES,
}


def _number_by_message(number: int, text: str) -> int:
    """Return SQL Server's number for the message, if the number itself means nothing."""
    messages = _VAGUE_NUMBERS.get(number, ())
    return next((exact for pattern, exact in messages if pattern.search(text)), number)


def message_of(error: BaseException) -> str:
    """Return the server's message without the driver's text around it."""
    text = str(error)
    match = _NUMBERED.search(text)
    if match:
        return _shorten(_WHERE.sub("", match[2]).strip())
    return _shorten(_DRIVER.sub("", text).strip())


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


class DriverTimeout(Unavailable):
    """Report that the driver's core abandoned a statement after 30 seconds; it is rolled back."""


def is_driver_timeout(error: BaseException) -> bool:
    """Return whether the driver's core abandoned the statement."""
    return _TIMED_OUT in str(error)


def driver_timeout(error: BaseException) -> DriverTimeout:
    """Return the error for a statement that the driver's core abandoned."""
    return DriverTimeout(
        "a statement took longer than the 30 seconds that the driver of SQL Server waits: "
        f"{message_of(error)}; run it again, or write fewer rows at once"
    )


def translate_error(error: BaseException, number: int | None, doing: str = "") -> ServerError:
    """Return the error for a number of SQL Server.

    An error without a number comes from the driver, usually because the connection is lost.
    """
    prefix = f"{doing}: " if doing else ""
    if number is None:
        return Unavailable(
            f"{prefix}the connection to SQL Server failed: {message_of(error)}; check that the "
            "server runs and can be reached, then run the statement again"
        )
    number = _number_by_message(number, message_of(error))
    remedy = _REMEDIES.get(number, "")
    text = f"{prefix}SQL Server says {number}: {message_of(error)}{remedy and '; ' + remedy}"
    return _with_number(_BY_NUMBER.get(number, ServerError)(text), number)


def load_error(error: BaseException) -> ServerError:
    """Return the error of a bulk load that the server or the driver refused, or whose connection
    was lost.
    """
    number = number_of(error)
    if number is not None:
        return translate_error(error, number)
    text = message_of(error)
    number = next((exact for pattern, exact in _DRIVER_MESSAGES if pattern.search(text)), None)
    if number is None and isinstance(error, RuntimeError):
        return translate_error(error, None)
    error_class = BadRequest if number is None else _BY_NUMBER[number]
    not_null = error_class is ConstraintViolation
    prefix = "NOT NULL constraint failed" if not_null else "rows do not fit"
    return _with_number(error_class(f"{prefix}: {text}"), number)


def mark_connecting(error: ServerError) -> ServerError:
    """Mark an error as one about opening a connection, and return it."""
    vars(error)["connecting"] = True
    return error


def was_connecting(error: BaseException) -> bool:
    """Return whether the error is about opening a connection."""
    return bool(vars(error).get("connecting"))


def _with_number(error: ServerError, number: int | None) -> ServerError:
    error.number = number
    return error


def server_number(error: BaseException) -> int | None:
    """Return the server's number; None if the error is not the server's."""
    return error.number if isinstance(error, ServerError) else None


@contextmanager
def name_errors(table: str) -> Iterator[None]:
    """Name `schema.table` and a remedy in errors about existing and missing objects."""
    try:
        yield
    except ServerError as error:
        number = server_number(error)
        cause = f"SQL Server says {number}"
        if number == TABLE_EXISTS:
            hint = f"use CREATE OR REPLACE TABLE to replace it ({cause})"
            raise _with_number(AlreadyExists("table", table, hint), number) from error
        if number in UNKNOWN_TABLE:
            raise _with_number(NotFound("table", table, cause), number) from error
        if number == UNKNOWN_COLUMN:
            raise _with_number(
                Conflict(f"{table} was altered by another session: {error}"), number
            ) from error
        if number in UNKNOWN_SCHEMA:
            schema = table.partition(".")[0]
            hint = f"create it with CREATE SCHEMA ({cause})"
            raise _with_number(NotFound("schema", schema, hint), number) from error
        raise
