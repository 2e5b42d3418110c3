"""Spark SQL: names and values are quoted, whatever is in them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jetbridge.dialects import spark
from jetbridge.errors import BadRequest


def test_names_are_quoted():
    assert spark.qualify(["a", "b`c", "d.e"]) == "`a`.`b``c`.`d.e`"
    with pytest.raises(BadRequest, match="NUL"):
        spark.identifier("a\0b")


def test_statements_on_a_branch():
    target = spark.qualify(["lake", "s", "t", "branch_b"])
    assert spark.insert(target, "v", ["a", "b c"]) == (
        "INSERT INTO `lake`.`s`.`t`.`branch_b` (`a`, `b c`) SELECT `a`, `b c` FROM `v`"
    )
    on = "MERGE INTO t t USING `v` s ON t.`_row_id` = s.`_row_id` WHEN MATCHED THEN"
    assert spark.merge_update("t", "v", "_row_id", ["a", "b"]) == (
        f"{on} UPDATE SET t.`a` = s.`a`, t.`b` = s.`b`"
    )
    assert spark.merge_delete("t", "v", "_row_id") == f"{on} DELETE"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (7, "7"),
        ("plain", "'plain'"),
        (r"it's \ so", r"'it\'s \\ so'"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "TIMESTAMP '2026-01-02 03:04:05.000006 UTC'"),
        (
            datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            "TIMESTAMP '2026-01-01 22:00:00.000000 UTC'",
        ),
    ],
)
def test_values_are_quoted(value, text):
    assert spark.literal(value) == text


def test_procedures_take_names_values_and_maps():
    text = spark.call("lake", "do_it", ["s", "it's"], retain_last=1, options={"a": "x", "b": "'"})
    assert text == (
        "CALL `lake`.system.`do_it`(table => '`s`.`it\\'s`', retain_last => 1, "
        "options => map('a', 'x', 'b', '\\''))"
    )


def test_questions_about_files():
    assert "FROM `lake`.`s`.`t`.`files` GROUP BY" in spark.files_by_kind(["lake", "s", "t"])
    assert spark.count_manifests(["l", "t"]) == "SELECT count(*) FROM `l`.`t`.`manifests`"
