"""Defines every error that may leave the server.

    ServerError                 INTERNAL
    ├── BadRequest              INVALID_ARGUMENT     the request itself is wrong
    │   └── ConstraintViolation                      NOT NULL or CHECK refused a row
    ├── AlreadyExists           ALREADY_EXISTS
    │   └── DuplicateKey                             UNIQUE or PRIMARY KEY refused a row
    ├── NotFound                NOT_FOUND
    ├── FailedPrecondition      FAILED_PRECONDITION  the state of the object forbids it
    ├── NotSupported            UNIMPLEMENTED        the object lacks the capability
    ├── Conflict                ABORTED              someone else changed the same rows
    ├── Unauthenticated         UNAUTHENTICATED
    ├── PermissionDenied        PERMISSION_DENIED
    ├── LimitExceeded           RESOURCE_EXHAUSTED
    ├── Cancelled               CANCELLED            the caller waits no longer
    ├── DeadlineExceeded        DEADLINE_EXCEEDED    the caller did not send in time
    └── Unavailable             UNAVAILABLE

The message is one short sentence that names the object and, where there is one, the remedy.
"""

import json
import os
import re
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar

_RECORD = "jetbridge-error:"


class ServerError(Exception):
    """Report an error that may leave the server: the base of all errors here.

    `status` is the name of a gRPC status code. `number` is the error number of the database behind
    a catalog, if there is one.
    """

    status: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    # The DuckDB exception class the Airport client raises for it (airport_macros.hpp knows three).
    duckdb_exception: ClassVar[str | None] = None
    number: int | None = None

    def to_record(self) -> str:
        """Return class, message and number as one line, which `error_from_text` reads back.

        The record survives any text around it, such as the tracebacks of Spark's workers. A class
        that is not in this module is recorded as the first of its bases that is.
        """
        name = next(c.__name__ for c in type(self).__mro__ if _CLASSES.get(c.__name__) is c)
        fields = {"class": name, "message": str(self), "number": self.number}
        return f"{_RECORD} {json.dumps(fields)}"


class BadRequest(ServerError):
    status = "INVALID_ARGUMENT"
    duckdb_exception = "InvalidInputException"


class ConstraintViolation(BadRequest):
    duckdb_exception = "ConstraintException"


class AlreadyExists(ServerError):
    status = "ALREADY_EXISTS"

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"{kind} {name!r} already exists{hint and '; ' + hint}")
        self.kind, self.name = kind, name


class DuplicateKey(AlreadyExists):
    duckdb_exception = "ConstraintException"

    def __init__(self, message: str) -> None:
        ServerError.__init__(self, message)


class NotFound(ServerError):
    status = "NOT_FOUND"

    def __init__(self, kind: str, name: str, hint: str = "") -> None:
        super().__init__(f"{kind} {name!r} does not exist{hint and '; ' + hint}")
        self.kind, self.name = kind, name


class FailedPrecondition(ServerError):
    status = "FAILED_PRECONDITION"
    duckdb_exception = "InvalidInputException"


class NotSupported(ServerError):
    status = "UNIMPLEMENTED"


class Conflict(ServerError):
    status = "ABORTED"
    retryable = True


class Unauthenticated(ServerError):
    status = "UNAUTHENTICATED"


class PermissionDenied(ServerError):
    status = "PERMISSION_DENIED"
    duckdb_exception = "PermissionException"


class LimitExceeded(ServerError):
    status = "RESOURCE_EXHAUSTED"


class Cancelled(ServerError):
    status = "CANCELLED"


class DeadlineExceeded(ServerError):
    status = "DEADLINE_EXCEEDED"


class Unavailable(ServerError):
    status = "UNAVAILABLE"
    retryable = True


_CLASSES: dict[str, type[ServerError]] = {
    cls.__name__: cls
    for cls in (
        ServerError,
        BadRequest,
        ConstraintViolation,
        AlreadyExists,
        DuplicateKey,
        NotFound,
        FailedPrecondition,
        NotSupported,
        Conflict,
        Unauthenticated,
        PermissionDenied,
        LimitExceeded,
        Cancelled,
        DeadlineExceeded,
        Unavailable,
    )
}


def error_from_text(text: str) -> ServerError | None:
    """Return the error of the last complete record in `text`, or None."""
    end = len(text)
    while (start := text.rfind(_RECORD, 0, end)) >= 0:
        error = _read_record(text[start + len(_RECORD) : end].lstrip())
        if error is not None:
            return error
        end = start
    return None


def _read_record(text: str) -> ServerError | None:
    try:
        fields: Any = json.JSONDecoder().raw_decode(text)[0]
        cls, message, number = _CLASSES[fields["class"]], fields["message"], fields["number"]
    except (ValueError, KeyError, TypeError):
        return None
    # Not by the constructor, because some classes write their own message.
    error = cls.__new__(cls, message)
    error.number = number
    if isinstance(error, AlreadyExists | NotFound):
        error.kind = error.name = ""
    return error


# Folders that are hidden even if this process may not list the root.
_USUAL = (
    "bin boot data dev etc home lib media mnt nix opt proc root run sbin srv sys tmp usr var work"
)
_SCHEME = r"(?:(?:jdbc:)?(?:file|sqlite):/{0,3})?"


def without_paths(text: str) -> str:
    """Return the text with only the last name of each absolute path: `…/name`.

    Only a path below a folder in the root of this machine is hidden: `1/2`, `a/b`, `/no/such` and
    `s3://bucket/tmp` stay as they are.
    """
    if "/" not in text:
        return text
    quoted, plain = _patterns()
    return plain.sub(_last, quoted.sub(_last_in_quotes, text))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a path in quotes, which may have blanks, and of any other path."""
    names = set(_USUAL.split())
    with suppress(OSError):
        names.update(os.listdir("/"))
    roots = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    start = rf"{_SCHEME}/(?:{roots})"
    return (
        re.compile(rf"(['\"`])({start}(?:/(?:(?!\1).)*)?)\1", re.DOTALL),
        re.compile(rf"(?<![\w./…-]){start}(?:/[^\s'\"`<>|,;:()\[\]{{}}]*|(?![\w-]))"),
    )


def _last_in_quotes(match: re.Match[str]) -> str:
    return f"{match[1]}{_name(match[2])}{match[1]}"


def _last(match: re.Match[str]) -> str:
    path = match[0].rstrip(".!?")
    return _name(path) + match[0][len(path) :]


def _name(path: str) -> str:
    return "…/" + path.rstrip("/").rpartition("/")[2]
