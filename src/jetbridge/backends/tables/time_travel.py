"""AT (VERSION => n) and AT (TIMESTAMP => t): the values, and what is said if nothing is there."""

from datetime import UTC, datetime, timedelta

from jetbridge.catalog import AsOf
from jetbridge.duckdb_engine import microseconds
from jetbridge.errors import BadRequest, NotFound

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_version(text: str) -> int:
    """The version of AT (VERSION => ...); raises BadRequest."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):  # noqa: PLR2004
        raise BadRequest(f"{text[:60]!r} is no version number")
    return int(text)


def parse_timestamp(text: str) -> int:
    """A timestamp as DuckDB writes it, in microseconds: its years go further than Python's.

    Without an offset it is UTC. Raises BadRequest.
    """
    since_epoch = microseconds(text)
    if since_epoch is None:
        raise BadRequest(f"{text[:60]!r} is no timestamp")
    return since_epoch


def to_microseconds(time: datetime) -> int:
    """The time (with its zone) on the scale of `parse_timestamp`."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def version_not_kept(table: str, point: AsOf, kept: str) -> NotFound:
    """The error for a point in time that cannot be read; `kept` says which can."""
    return NotFound(f"{point.unit.lower()} of table {table!r}", point.value[:60], kept)
