"""The scoreboard reads sqllogictest files, and judges their queries over the tables they make."""

from pathlib import Path

import pytest

from benchmarks.scoreboard.files import judge_file
from benchmarks.scoreboard.sqllogictest import Skipped, records

FILE = """# name: a comment
require parquet

statement ok
PRAGMA enable_verification

foreach type <signed> varchar

statement ok
CREATE OR REPLACE TABLE t AS SELECT CAST(i AS ${type}) AS v FROM range(9) r(i)

query I nosort
SELECT v, count(*) FROM t
GROUP BY v
----
1\t1

endloop

skipif windows
statement ok
CREATE TABLE never (a INT)

statement error
SELECT * FROM missing
----
does not exist

query I
SELECT random()

statement ok con1
BEGIN TRANSACTION

query I con1
SELECT 1

halt

query I
SELECT 2
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.test"
    file.write_text(FILE)
    return file


def test_records_of_a_file(path: Path):
    statements = [(record.kind, record.sql, record.connection) for record in records(path, {})]
    assert len([kind for kind, _, _ in statements if kind == "query"]) == 8
    assert ("query", "SELECT v, count(*) FROM t\nGROUP BY v", "") in statements
    assert ("ok", "BEGIN TRANSACTION", "con1") in statements
    assert statements[-1] == ("query", "SELECT 1", "con1")
    assert not any("never" in sql or "SELECT 2" in sql for _, sql, _ in statements)


def test_file_that_needs_another_extension_is_skipped(tmp_path: Path):
    file = tmp_path / "b.test"
    file.write_text("require spatial\n\nquery I\nSELECT 1\n")
    with pytest.raises(Skipped):
        list(records(file, {}))
    assert list(judge_file(file)) == []


def test_queries_are_judged_outside_of_transactions(path: Path):
    judged = [(sql, verdict and (verdict.whole, verdict.cut)) for sql, verdict in judge_file(path)]
    grouped = ("SELECT v, count(*) FROM t\nGROUP BY v", ("equal", "equal"))
    assert judged == [grouped] * 6 + [("SELECT random()", ("refused", "refused"))]
