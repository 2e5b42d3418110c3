"""Reads the values of AT (VERSION => n) and AT (TIMESTAMP => t), and reports what is not kept."""

from datetime import UTC, datetime, timedelta

from jetbridge.catalog import AsOf
from jetbridge.duckdb_engine import microseconds
from jetbridge.errors import BadRequest, NotFound

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_version(text: str) -> int:
    """Return the version of AT (VERSION => ...); raise BadRequest."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):  # noqa: PLR2004
        raise BadRequest(f"{text[:60]!r} is not a version number")
    return int(text)


def parse_timestamp(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp as DuckDB writes it; raise BadRequest.

    A timestamp without an offset is UTC. DuckDB's years go further than Python's, so the result
    is a number.
    """
    since_epoch = microseconds(text)
    if since_epoch is None:
        raise BadRequest(f"{text[:60]!r} is not a timestamp")
    return since_epoch


def to_microseconds(time: datetime) -> int:
    """Return the microseconds since 1970 of a time with a zone."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def describe_kept_versions(oldest: int, newest: int, since: datetime) -> str:
    """Return which versions AT can read, for an error message."""
    return f"versions {oldest} to {newest} are kept, the oldest from {since:%F %T.%f} UTC"


def version_not_kept(table: str, point: AsOf, kept: str) -> NotFound:
    """Return the error for a version that cannot be read; `kept` says which can."""
    return NotFound(f"{point.unit.lower()} of table {table!r}", point.value[:60], kept)
