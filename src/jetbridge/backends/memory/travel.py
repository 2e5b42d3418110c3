"""AT (VERSION => n) and AT (TIMESTAMP => t)."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from jetbridge.backends.memory.state import TableState
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.embedded import microseconds
from jetbridge.errors import BadRequest, NotFound

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def state_at(table: str, history: Sequence[TableState], point: AsOf) -> TableState:
    """The version asked for; raises NotFound that says which versions are kept."""
    if point.unit == AtUnit.VERSION:
        index = _version(point.value) - history[0].version
        found = 0 <= index < len(history)
    else:
        moment = _moment(point.value)
        index = bisect_right(history, moment, key=_written) - 1
        found = index >= 0
    if found:
        return history[index]
    first, last = history[0], history[-1]
    raise NotFound(
        f"{point.unit.lower()} of table {table!r}",
        point.value[:60],
        f"kept are versions {first.version} to {last.version}, from {first.time:%F %T.%f} UTC on",
    )


def _version(text: str) -> int:
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):  # noqa: PLR2004
        raise BadRequest(f"{text[:60]!r} is no version number")
    return int(text)


def _moment(text: str) -> int:
    """A timestamp as DuckDB writes it, in microseconds: its years go further than Python's.

    Without an offset it is UTC.
    """
    since_epoch = microseconds(text)
    if since_epoch is None:
        raise BadRequest(f"{text[:60]!r} is no timestamp")
    return since_epoch


def _written(state: TableState) -> int:
    return (state.time - _EPOCH) // timedelta(microseconds=1)
