"""`jetbridge sql` on its default lake, as a process: everything of one sitting in one of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]

STATEMENTS = """
CREATE SCHEMA lake.s;
CREATE TABLE lake.s.t AS SELECT i AS id, 'n' || i AS name FROM range(1000) r(i);
ATTACH './other' AS o (TYPE lake);
CREATE SCHEMA o.s;
SET engine = 'spark';
CREATE TABLE o.s.u AS SELECT id, name FROM lake.s.t WHERE id % 2 = 0;
RESET engine;
MERGE INTO o.s.u AS u USING lake.s.t AS t ON u.id = t.id
  WHEN MATCHED AND t.id < 10 THEN DELETE WHEN NOT MATCHED AND t.id < 5 THEN INSERT BY NAME;
UPDATE o.s.u SET name = 'x' WHERE id = 1 RETURNING id, name;
SELECT count(*) AS n, sum(id)::BIGINT AS s FROM o.s.u;
SELECT count(*) AS n FROM o.s.u AT (VERSION => 1);
CREATE TABLE memory.s.v AS SELECT 1 AS a;
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    folder = tmp_path_factory.mktemp("sitting")
    command = [sys.executable, "-m", "jetbridge", "sql", "--format", "json", "-"]
    return subprocess.run(
        command, input=STATEMENTS, cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_sitting(done):
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    reports = [line["report"] for line in lines if "report" in line]
    rows = [line for line in lines if "report" not in line]
    assert [r["statement"] for r in reports if r.get("engine") == "spark"] == ["CREATE TABLE AS"]
    assert rows == [{"id": 1, "name": "x"}, {"n": 497, "s": 249484}, {"n": 500}]


def test_the_error_of_the_last_statement_is_told(done):
    assert done.returncode == 1
    assert done.stderr == (
        "jetbridge: schema 'memory.s' does not exist; create it with CREATE SCHEMA memory.s\n"
    )


def test_nothing_is_left_running_or_lying_about(done, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "sitting0"
    assert sorted(path.name for path in folder.iterdir()) == ["jetbridge-data", "other"]
    assert list(Path(folder).rglob(".jetbridge/staging/*")) == []
