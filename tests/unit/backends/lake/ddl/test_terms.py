"""Layouts as people write them."""

import pytest

from jetbridge.backends.lake.ddl.layout_syntax import (
    TRANSFORMS,
    Ordering,
    PartitionTerm,
    parse_order,
    parse_partitions,
)
from jetbridge.errors import BadRequest

BUCKET, TRUNCATE, DAY = TRANSFORMS["bucket"], TRANSFORMS["truncate"], TRANSFORMS["day"]
PARTITIONS = {
    "": [],
    " \n": [],
    "region": [PartitionTerm(("region",))],
    "day(ts), bucket(8, id),truncate(4,name), region": [
        PartitionTerm(("ts",), DAY),
        PartitionTerm(("id",), BUCKET, 8),
        PartitionTerm(("name",), TRUNCATE, 4),
        PartitionTerm(("region",)),
    ],
    'DAYS ( "Order ""time""" )': [PartitionTerm(('Order "time"',), DAY)],
    'a."b.c".d': [PartitionTerm(("a", "b.c", "d"))],
    "größe": [PartitionTerm(("größe",))],
    "day": [PartitionTerm(("day",))],
}
ORDERS = {
    "": [],
    "id, ts DESC NULLS LAST": [
        Ordering(PartitionTerm(("id",))),
        Ordering(PartitionTerm(("ts",)), descending=True),
    ],
    "a asc nulls first": [Ordering(PartitionTerm(("a",)), nulls_first=True)],
    "desc desc, nulls nulls last": [
        Ordering(PartitionTerm(("desc",)), descending=True),
        Ordering(PartitionTerm(("nulls",))),
    ],
    'day(ts) desc, "DESC"': [
        Ordering(PartitionTerm(("ts",), DAY), descending=True),
        Ordering(PartitionTerm(("DESC",))),
    ],
}
WRONG = {
    "a b": "a comma is missing before 'b'",
    "a,": "a column is missing before 'the end'",
    ", a": "a column is missing before ','",
    "a.": "a column is missing before 'the end'",
    "8": "a column is missing before '8'",
    "week(ts)": "'week' is not one of bucket, day, hour, month, truncate, year",
    "day(ts": "')' is missing before 'the end'",
    "day()": "a column is missing before ')'",
    "day(8, ts)": "a column is missing before '8'",
    "bucket(id)": "bucket needs a number: bucket(8, column)",
    "bucket(0, id)": "bucket needs a number",
    "bucket(2147483648, id)": "bucket needs a number",
    f"bucket({'9' * 5000}, id)": "bucket needs a number",
    "bucket(8 id)": "',' is missing before 'id'",
    '"day"(ts)': "a comma is missing before '('",
    "a; DROP TABLE t": "'; DROP TABLE t' is not understood",
    '"': "is not understood",
    '""': "is not understood",
}


@pytest.mark.parametrize("text", PARTITIONS)
def test_partitions_are_understood(text):
    assert parse_partitions(text) == PARTITIONS[text]


@pytest.mark.parametrize("text", ORDERS)
def test_orders_are_understood(text):
    assert parse_order(text) == ORDERS[text]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30])
def test_what_is_not_understood_is_named(text):
    for parse, what in ((parse_partitions, "partition_by"), (parse_order, "sort_by")):
        with pytest.raises(BadRequest) as caught:
            parse(text)
        message = str(caught.value)
        assert message.startswith(f"{what} = ")
        assert WRONG[text] in message
        assert len(message) < 400


def test_an_order_may_not_be_told_twice():
    with pytest.raises(BadRequest, match="comma is missing before 'asc'"):
        parse_order("a desc asc")


def test_text_of_a_term_is_what_a_user_writes():
    (term,) = parse_partitions("Bucket(8, a.b)")
    assert term.text() == "bucket(8, a.b)"
