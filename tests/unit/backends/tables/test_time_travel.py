"""The values of AT, and the error for a version that is not kept."""

from datetime import UTC, datetime

import pytest

from jetbridge.backends.tables.time_travel import (
    describe_kept_versions,
    parse_timestamp,
    parse_version,
    to_microseconds,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import BadRequest


@pytest.mark.parametrize(("text", "number"), [("7", 7), (" -1 ", -1), ("9" * 19, 10**19 - 1)])
def test_a_version_is_a_whole_number(text, number):
    assert parse_version(text) == number


@pytest.mark.parametrize("text", ["", "1.0", "x", "٣", "9" * 20])
def test_other_text_is_not_a_version(text):
    with pytest.raises(BadRequest, match="is not a version number"):
        parse_version(text)


def test_timestamps_and_times_have_one_scale():
    time = datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC)
    assert parse_timestamp("2024-02-29 12:00:00.000005") == to_microseconds(time)
    assert parse_timestamp("2024-02-29 14:00:00.000005+02") == to_microseconds(time)
    assert parse_timestamp("2024-02-29 13:00:00.000005 Europe/Berlin") == to_microseconds(time)


def test_other_text_is_not_a_timestamp():
    with pytest.raises(BadRequest, match="is not a timestamp"):
        parse_timestamp("soon")


def test_the_error_names_the_versions_that_are_kept():
    kept = describe_kept_versions(1, 3, datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC))
    error = version_not_kept("s.t", AsOf(AtUnit.VERSION, "9"), kept)
    assert str(error) == (
        "version of table 's.t' '9' does not exist; versions 1 to 3 are kept, "
        "the oldest from 2024-02-29 12:00:00.000005 UTC"
    )
