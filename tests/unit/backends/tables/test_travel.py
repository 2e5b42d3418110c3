"""The values of AT."""

from datetime import UTC, datetime

import pytest

from jetbridge.backends.tables.time_travel import (
    parse_timestamp,
    parse_version,
    to_microseconds,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import BadRequest


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" -1 ", -1), ("9" * 19, 10**19 - 1)])
def test_version_is_a_whole_number(text, number):
    assert parse_version(text) == number


@pytest.mark.parametrize("text", ["", "1.0", "x", "٣", "9" * 20])
def test_other_text_is_no_version(text):
    with pytest.raises(BadRequest, match="is not a version number"):
        parse_version(text)


def test_moments_and_times_are_on_one_scale():
    time = datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC)
    assert parse_timestamp("2024-02-29 12:00:00.000005") == to_microseconds(time)
    assert parse_timestamp("2024-02-29 14:00:00.000005+02") == to_microseconds(time)
    assert parse_timestamp("2024-02-29 13:00:00.000005 Europe/Berlin") == to_microseconds(time)


def test_other_text_is_no_moment():
    with pytest.raises(BadRequest, match="is not a timestamp"):
        parse_timestamp("soon")


def test_error_says_what_is_kept():
    error = version_not_kept("s.t", AsOf(AtUnit.VERSION, "9"), "versions 1 to 3 are kept")
    assert "version of table 's.t'" in str(error)
    assert "versions 1 to 3 are kept" in str(error)
