"""Translates errors about tables: unreadable files, and exceptions of Iceberg's Java library."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

from jetbridge.errors import (
    AlreadyExists,
    Conflict,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from jetbridge.spark.errors import is_java, java_message

ICEBERG_EXCEPTIONS = "org.apache.iceberg.exceptions."
# Longer messages are cut.
MESSAGE_CHARACTERS = 450
_REASON_CHARACTERS = 330
_LOCATION_CHARACTERS = 180
_FILE = re.compile(r"(?:\w+:)?/[^\s'\"]+\.(?:avro|orc|parquet|puffin|json)\b")
# DuckDB's words for a file outside of the folders that it may read.
_FORBIDDEN = "disabled by configuration"
# DuckDB's words for a partition name of another writer that Avro does not allow.
_AVRO_NAME = "Invalid Avro identifier"
_AVRO_HINT = (
    "; the name of a partition is not ASCII: repeat ALTER TABLE ... SET "
    "PARTITIONED BY, which names it anew, and run jetbridge optimize"
)
_HINT = "; if it belongs to the lake, name its folder in the property jetbridge.folders"


class CommitRefused(Unavailable):
    """Report that the catalog refused a commit, so that it certainly was not made."""


class StaleMetadata(Exception):  # noqa: N818 - never leaves the backend
    """Report that the table has another metadata file than the commit starts from."""


def unreadable_table(title: str, problem: object, location: str = "") -> Unavailable:
    """Return an error with table and file; `location` is left out if the problem names it first."""
    text = str(problem)
    reason = text.split("\n", 1)[0].strip().rstrip(".")
    location = location or _file_in(text)
    if location and location.rsplit("/", 1)[-1] not in reason[:_REASON_CHARACTERS]:
        reason = f"file {_cut(location)}: {reason}"
    hint = _HINT if _FORBIDDEN in reason else _AVRO_HINT if _AVRO_NAME in reason else ""
    return Unavailable(f"table {title!r} cannot be read: {reason[:_REASON_CHARACTERS]}{hint}")


def is_named(problem: object) -> bool:
    """Return whether the text of a problem names a file."""
    return bool(_file_in(str(problem)))


def _file_in(text: str) -> str:
    match = _FILE.search(text)
    return match[0] if match else ""


def _cut(location: str) -> str:
    if len(location) <= _LOCATION_CHARACTERS:
        return location
    return "..." + location[-_LOCATION_CHARACTERS:]


@contextmanager
def translating(title: str) -> Iterator[None]:
    """Raise what Java throws about a table as an error of ours."""
    # PySpark takes half a second to load, and scans are served before Spark runs.
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise translate(error, title) from error


def translate(error: Exception, title: str) -> Exception:
    """Return the Java error as one of ours, or itself if the tables below do not have it."""
    for name, build in _BY_CLASS.items():
        if is_java(error, ICEBERG_EXCEPTIONS + name):
            return build(title, java_message(error))
    message = str(error)
    for text, build in _BY_TEXT.items():
        if text in message:
            return build(title, message)
    return error


_UNKNOWN = (
    "the lake's catalog did not answer, so it is not known whether {!r} was changed; "
    "look at the table before you run the statement again"
)
_LOCKED = "another process has locked the lake's catalog; {!r} was not changed, try again"
_FULL = "the disk of the warehouse is full; {!r} was not changed, free some space there"
_SILENT = "the lake's catalog does not answer; look at {!r} before you run the statement again"
_REFUSED = (
    "the lake's catalog does not allow the server to change {!r}: check the server's credentials"
)

BuildError = Callable[[str, str], Exception]
_BY_CLASS: dict[str, BuildError] = {
    "CommitFailedException": lambda _title, _reason: StaleMetadata(),
    "CommitStateUnknownException": lambda title, _: Unavailable(_UNKNOWN.format(title)),
    "NoSuchTableException": lambda title, _: NotFound("table", title),
    "NoSuchNamespaceException": lambda title, _: NotFound("schema", title.rsplit(".", 1)[0]),
    "AlreadyExistsException": lambda title, _: AlreadyExists("table", title),
    "RESTException": lambda title, _: Unavailable(_SILENT.format(title)),
    "ServiceFailureException": lambda title, _: Unavailable(_SILENT.format(title)),
    "ServiceUnavailableException": lambda title, _: Unavailable(_SILENT.format(title)),
    "NotAuthorizedException": lambda title, _: PermissionDenied(_REFUSED.format(title)),
    "ForbiddenException": lambda title, _: PermissionDenied(_REFUSED.format(title)),
    "ValidationException": lambda title, reason: Conflict(
        f"table {title!r} was changed by someone else: {reason}"[:MESSAGE_CHARACTERS]
    ),
}
_BY_TEXT: dict[str, BuildError] = {
    "No space left": lambda title, _: LimitExceeded(_FULL.format(title)),
    "SQLITE_FULL": lambda title, _: LimitExceeded(_FULL.format(title)),
    "SQLITE_BUSY": lambda title, _: CommitRefused(_LOCKED.format(title)),
    "database is locked": lambda title, _: CommitRefused(_LOCKED.format(title)),
    "UncheckedSQLException": lambda title, _: Unavailable(_SILENT.format(title)),
}
