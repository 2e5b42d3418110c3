"""When `optimize` need not ask Spark."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jetbridge.backends.lake.maintenance.optimize import _may_expire
from jetbridge.backends.lake.maintenance.table_contents import FileKind, TableContents
from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.table_state import TableState, read_state

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = int(MOMENT.timestamp() * 1000)
MAIN = {"main": {"snapshot-id": 2, "type": "branch"}}
MEGABYTE = 1024 * 1024
DATA, DELETES = 0, 1


def state(**raw: Any) -> TableState:
    """Two snapshots, the first of them older than the moment."""
    snapshots = [{"snapshot-id": 1, "timestamp-ms": LIMIT - 1}, {"snapshot-id": 2}]
    snapshots[1]["timestamp-ms"] = LIMIT + 1
    given = {"snapshots": snapshots, "refs": MAIN, "default-spec-id": 0, **raw}
    given |= {"format-version": 3, "location": "t", "last-column-id": 0}
    given["current-snapshot-id"] = given["snapshots"][-1]["snapshot-id"]
    return read_state(MetadataPointer("s", "t", "t.json"), json.dumps(given).encode())


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, True),
        ({"refs": None}, True),
        ({"snapshots": [{"snapshot-id": 2, "timestamp-ms": LIMIT - 9}]}, False),
        ({"snapshots": [{"snapshot-id": 1, "timestamp-ms": LIMIT + 1}] * 2}, False),
    ],
    ids=["an old one", "format 1", "the current one stays", "all are young"],
)
def test_snapshots_expire_if_they_are_old(raw, expected):
    assert _may_expire(state(**raw), MOMENT) is expected


@pytest.mark.parametrize(
    "refs",
    [
        {**MAIN, "tag": {"snapshot-id": 2, "type": "tag", "max-ref-age-ms": 1}},
        {"main": {**MAIN["main"], "max-snapshot-age-ms": 1}},
    ],
    ids=["a tag", "main has rules"],
)
def test_what_has_rules_of_its_own_is_left_to_iceberg(refs):
    young = [{"snapshot-id": 2, "timestamp-ms": LIMIT + 1}]
    assert _may_expire(state(snapshots=young, refs=refs), MOMENT)


def file(content: int = DATA, *, size: int = MEGABYTE, spec: int = 0, order: int = 0) -> FileKind:
    return FileKind(content, "PARQUET" if content == DATA else "PUFFIN", spec, order, 1, size, 10)


@pytest.mark.parametrize(
    ("kinds", "raw", "expected"),
    [
        ([], {}, True),
        ([file()], {}, True),
        ([file(), file()], {}, False),
        ([file(), file(DELETES)], {}, False),
        ([file()], {"default-spec-id": 1}, False),
        ([file()], {"default-sort-order-id": 1}, False),
        ([file(size=600 * MEGABYTE)], {}, False),
        ([file()], {"properties": {"write.target-file-size-bytes": "1000"}}, False),
    ],
    ids=["none", "one", "two", "deleted rows", "partitions", "order", "large", "small target"],
)
def test_one_file_is_left_alone_if_it_is_as_it_should_be(kinds, raw, expected):
    assert TableContents(kinds, 1).is_one_file(state(**raw)) is expected
