"""What SQL Server and its driver say, as the errors of this project: one sentence, its number.

The driver's exceptions for queries carry no number, so the connection is asked for it afterwards
(`connect`); those of its other half, which loads rows, have it in their text.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jetbridge.backends.mssql.connection.address import MOST_CONNECT_SECONDS, Address
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

# Of several errors the first says why, and the others what came of it.
_NUMBERED = re.compile(
    r"Sql Error: (\d+): Class \d+: State \d+: (.*?)(?=\nSql Error: |\Z)", re.DOTALL
)
_WHERE = re.compile(r" on \S* in .* at line \d+\s*$")
_DRIVER = re.compile(r"^Driver Error: .*?; DDBC Error: (?:\[[^\]]*\])*", re.DOTALL)
_LONGEST = 380
_STRICT = (
    'encrypt = "strict" needs SQL Server 2022 or later, and a certificate that is trusted here: '
    'with other servers say encrypt = "yes"'
)
DUPLICATE_KEY = (2627, 2601)
DEADLOCK = 1205
TABLE_EXISTS = 2714
UNKNOWN_TABLE = (208, 4902, 3701)
UNKNOWN_COLUMN = 207
UNKNOWN_SCHEMA = (2759, 2760)
LOGIN_FAILED = 18456
UNKNOWN_DATABASE = (4060, 911)
# Reads of one moment: of a database that does not allow them, and of tables kept in memory.
NO_SNAPSHOT, NO_SNAPSHOT_IN_MEMORY = 3952, 41332

# That of RAISERROR without one: the connection lives, so the server said something.
UNTOLD = 50000
_WAITED_NO_LONGER = "Timeout Error: Elapsed"
_CERTIFICATE = re.compile(r"certificate", re.IGNORECASE)
# What the driver refuses before it is sent, and the number that the server has for it.
_BY_WORDS = (
    (re.compile(r"NULL value into non-nullable column"), 515),
    (re.compile(r"Destination column '.*' not found"), UNKNOWN_COLUMN),
    (re.compile(r"length .* exceeds"), 2628),
)

# What the server says of statements with parameters: the driver has sent something else before the
# number can be asked for, or the number is that of a second error, "could not be prepared".
_UNPREPARED = 8180
_BY_SERVER = (
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

# The one number of Babelfish for all that it has none for; the words are PostgreSQL's.
_NO_NUMBER = 33557097
_BY_POSTGRES = (
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

Made = Callable[[str], ServerError]
_CLASSES: dict[Made, tuple[int, ...]] = {
    DuplicateKey: DUPLICATE_KEY,
    ConstraintViolation: (515, 547),
    BadRequest: (
        *(102, 156, 206, 207, 220, 232, 241, 242, 244, 245, 248, 257, 2628, 2705, 4815, 7339),
        *(8114, 8115, 8134, 8152, 15233),
    ),
    Conflict: (DEADLOCK, 3960, 3961, 1222, 41302, 41305, 41325),
    PermissionDenied: (229, 230, 262, 300, 916, 1088, 15247, 33504),
    LimitExceeded: (701, 1101, 1105, 8645, 9002, 40544),
    # A server that stops, rows of the catalog that moved while they were read without locks, or a
    # database in the cloud that moves or is throttled; tried again.
    Unavailable: (596, 601, 6005, 10928, 10929, 40197, 40501, 40613, 49918, 49919, 49920),
    NotSupported: (40517,),
    FailedPrecondition: (
        *(LOGIN_FAILED, *UNKNOWN_DATABASE, 3906, NO_SNAPSHOT, NO_SNAPSHOT_IN_MEMORY),
        # Something uses the table, the column or the key; or the rows do not suit a new constraint.
        *(1505, 1750, 1754, 1779, 3725, 3726, 3727, 3729, 3732, 4901, 4922, 4923, 5074, 8111),
        *(13552, 13559, 15336),
    ),
}
_BY_NUMBER: dict[int, Made] = {
    number: made for made, numbers in _CLASSES.items() for number in numbers
}
_REMEDIES = {
    LOGIN_FAILED: "check user and password",
    4060: "check the name of the database, and that the login may use it",
    911: "check the name of the database",
    DEADLOCK: "another statement held the same rows; run it again",
    3906: "it is read-only",
    NO_SNAPSHOT: "SET mssql_snapshot_reads = false, in the file of a server",
    NO_SNAPSHOT_IN_MEMORY: "SET mssql_snapshot_reads = false, in the file of a server",
    1222: "another statement holds the rows; run it again",
    262: "grant the login CREATE TABLE, and ALTER on the schema",
    229: "grant the login that right on the table",
    230: "grant the login that right on the column",
    300: "grant the login that right",
    1088: "check the name, and that the login may see it",
    15233: "SQL Server takes two names of tags for one: rename one of them",
    15247: "ask for the right, or use another login",
    9002: "back up or enlarge its log, then run the statement again",
    1105: "enlarge or free a file of the database",
}


def number_of(error: BaseException) -> int | None:
    found = _NUMBERED.search(str(error))
    return int(found[1]) if found else None


def _known(number: int, text: str) -> int:
    """That of SQL Server for what the words say."""
    known = {_NO_NUMBER: _BY_POSTGRES, UNTOLD: _BY_SERVER, _UNPREPARED: _BY_SERVER}.get(number, ())
    return next((found for words, found in known if words.search(text)), number)


def said(error: BaseException) -> str:
    """The words of the server, without those of the driver around them."""
    text = str(error)
    found = _NUMBERED.search(text)
    if found:
        return _short(_WHERE.sub("", found[2]).strip())
    return _short(_DRIVER.sub("", text).strip())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class DriverTimeout(Unavailable):
    """The driver's core waited no longer for a statement; the server undoes it."""


def is_given_up(error: BaseException) -> bool:
    return _WAITED_NO_LONGER in str(error)


def given_up(error: BaseException) -> DriverTimeout:
    return DriverTimeout(
        "SQL Server did not end a statement within the 30 seconds that its driver waits: "
        f"{said(error)}; run it again, or write fewer rows at once"
    )


def translated(error: BaseException, number: int | None, doing: str = "") -> ServerError:
    """`number` None: it came from the driver itself, most often because the connection is gone."""
    begins = f"{doing}: " if doing else ""
    if number is None:
        return Unavailable(
            f"{begins}the connection to SQL Server failed: {said(error)}; check that the server "
            "runs and can be reached, then run the statement again"
        )
    number = _known(number, said(error))
    remedy = _REMEDIES.get(number, "")
    text = f"{begins}SQL Server says {number}: {said(error)}{remedy and '; ' + remedy}"
    return _numbered(_BY_NUMBER.get(number, ServerError)(text), number)


def not_loaded(error: BaseException) -> ServerError:
    """A bulk load that failed: by the server, by the driver that refused a row, or on the way."""
    number = number_of(error)
    if number is not None:
        return translated(error, number)
    text = said(error)
    number = next((number for words, number in _BY_WORDS if words.search(text)), None)
    if number is None and isinstance(error, RuntimeError):
        return translated(error, None)
    made = BadRequest if number is None else _BY_NUMBER[number]
    begins = "NOT NULL constraint failed" if made is ConstraintViolation else "rows do not fit"
    return _numbered(made(f"{begins}: {text}"), number)


def not_connected(error: BaseException, number: int | None, address: Address) -> ServerError:
    title = address.title()
    made = translated(error, number, title)
    if number is None and _CERTIFICATE.search(str(error)):
        made = FailedPrecondition(
            f"{title}: the certificate of the server is not trusted here: {said(error)}; install "
            "that of its authority, or say TrustServerCertificate=yes (trust_server_certificate = "
            "true in the file), which takes anybody's"
        )
    elif number is None and address.encrypt == "strict":
        made = Unavailable(f"{made}; {_STRICT}")
    return _connecting(made)


def not_answered(address: Address) -> ServerError:
    remedy = _STRICT if address.encrypt == "strict" else "check server and port"
    return _connecting(
        Unavailable(
            f"{address.title()}: SQL Server has not answered the login within "
            f"{MOST_CONNECT_SECONDS} seconds; {remedy}"
        )
    )


def without_password(address: Address, error: BaseException) -> ServerError:
    """The login was refused; what the driver says of an empty password is not always clear."""
    return _connecting(
        FailedPrecondition(
            f"{address.title()}: the password of user {address.user!r} is empty: set the variable "
            "that password_env names in the file, or MSSQL_PASSWORD for ATTACH; the server says: "
            f"{said(error)}"
        )
    )


def _connecting(error: ServerError) -> ServerError:
    vars(error)["connecting"] = True
    return error


def was_connecting(error: BaseException) -> bool:
    """Whether there was no connection to begin with."""
    return bool(vars(error).get("connecting"))


def _numbered(error: ServerError, number: int | None) -> ServerError:
    vars(error)["number"] = number
    return error


def server_number(error: BaseException) -> int | None:
    """The number that the server gave; None if it said nothing."""
    number: int | None = vars(error).get("number")
    return number


@contextmanager
def naming(table: str) -> Iterator[None]:
    """Errors about `schema.table`: what is there or missing is named, and has its remedy."""
    try:
        yield
    except ServerError as error:
        number = server_number(error)
        says = f"SQL Server says {number}"
        if number == TABLE_EXISTS:
            hint = f"use CREATE OR REPLACE TABLE to replace it ({says})"
            raise _numbered(AlreadyExists("table", table, hint), number) from error
        if number in UNKNOWN_TABLE:
            raise _numbered(NotFound("table", table, says), number) from error
        if number == UNKNOWN_COLUMN:
            raise _numbered(Conflict(f"{table} was altered meanwhile: {error}"), number) from error
        if number in UNKNOWN_SCHEMA:
            schema = table.partition(".")[0]
            hint = f"create it with CREATE SCHEMA ({says})"
            raise _numbered(NotFound("schema", schema, hint), number) from error
        raise
