"""Workers that share no disk with the server: rows go over an object store, or not at all.

Each worker has a mount namespace of its own, in which the folder of the server's files is empty.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jetbridge.backends.lake.metadata.pointers import SPOOL
from tests.faults import pipeline_process
from tests.faults.pipeline_process import PipelineProcess
from tests.helpers import cluster
from tests.helpers.cluster import Cluster
from tests.integration.catalogs.object_store import BUCKET, LOGIN, running_object_store

pytestmark = [pytest.mark.lake, pytest.mark.full, pytest.mark.xdist_group(__name__)]

REFUSED = r"executor \d+ of Spark on (127.0.0.1|localhost) does not share the folder"


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the server and each worker a folder of its own."""
    return tmp_path_factory.mktemp("private")


@pytest.fixture(scope="module")
def spark(private: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster.running(tmp_path_factory.mktemp("cluster"), private) as running:
        yield running


@pytest.fixture
def alone(spark: Cluster, private: Path, tmp_path: Path) -> Iterator[PipelineProcess]:
    """Open a lake whose warehouse is a folder that only the server has.

    It ends with its test: a cluster gives all its workers to the first application.
    """
    memory = ["[catalogs.mem]", 'type = "memory"']
    lakes, settings = {"lake": private / "lake"}, cluster.settings(spark.url)
    with pipeline_process.running(tmp_path, lakes, settings, memory) as there:
        yield there


def test_a_lake_in_a_folder_that_workers_do_not_see_is_refused_at_the_first_statement(
    alone, private
):
    answer = alone.sql("CREATE SCHEMA lake.s; CREATE TABLE lake.s.t AS SELECT 1 AS n")
    assert answer["error"] == "FailedPrecondition", answer
    assert re.search(REFUSED, answer["message"])
    assert str(private / "lake") in answer["message"]
    assert "a warehouse in an object store" in answer["message"]


@pytest.fixture(scope="module")
def catalog_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stored") / "catalog.db"


@pytest.fixture(scope="module")
def stored(spark: Cluster, catalog_file: Path) -> Iterator[PipelineProcess]:
    """Open a lake in an object store, and a catalog that only the server can reach."""
    with running_object_store() as address:
        more = ["[catalogs.mem]", 'type = "memory"', "[catalogs.lake]", 'type = "lake"']
        values = {
            "warehouse": f"s3://{BUCKET}/lake",
            "uri": f"jdbc:sqlite:{catalog_file}",
            "s3.endpoint": address,
            "s3.path-style-access": "true",
            **LOGIN,
        }
        more += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items()]
        settings = cluster.settings(spark.url)
        with pipeline_process.running(catalog_file.parent, {}, settings, more) as there:
            there.rows("CREATE SCHEMA lake.s; CREATE SCHEMA mem.s")
            made = "SELECT i AS id, 'row ' || i AS name FROM range(1000) r(i)"
            there.rows(f"CREATE TABLE lake.s.source AS {made}")
            there.rows(f"INSERT INTO lake.s.source {made.replace('1000', '1000, 2000')}")
            yield there


QUERY = "SELECT id, name, id % 7 AS d, NULL AS nothing FROM lake.s.source"
SUMS = [{"n": 2000, "s": 1999000}]


@pytest.mark.parametrize("target", ["lake.s", "mem.s"])
def test_tables_get_all_rows_over_an_object_store(stored, target):
    for statement in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        report = stored.rows(f"SET engine = 'spark'; {statement} {target}.made AS {QUERY}")
        assert (report[0]["rows_written"], report[0]["engine"]) == (2000, "spark")
        stored.rows("RESET engine")
        found = stored.rows(f"SELECT count(*) AS n, sum(id)::BIGINT AS s FROM {target}.made")
        assert found == SUMS


def test_rows_of_a_query_come_over_an_object_store_in_their_order(stored):
    stored.rows("SET engine = 'spark'")
    found = stored.rows("SELECT id::TINYINT AS t FROM lake.s.source WHERE id < 100 ORDER BY id")
    stored.rows("RESET engine")
    assert [row["t"] for row in found] == list(range(100))


def test_jobs_change_a_sorted_table_in_an_object_store(stored):
    for text in (
        "CREATE TABLE lake.s.laid AS SELECT 0 AS id, 'a' AS name",
        "ALTER TABLE lake.s.laid SET SORTED BY (id)",
        "INSERT INTO lake.s.laid VALUES (1, 'b'), (2, 'c')",
        "UPDATE lake.s.laid SET name = 'd' WHERE id = 1",
        "DELETE FROM lake.s.laid WHERE id = 0",
        "MERGE INTO lake.s.laid USING (SELECT 2 AS id, 'e' AS name UNION ALL SELECT 3, 'f') m "
        "USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT",
    ):
        answer = stored.sql(text)
        assert "error" not in answer, (text, answer)
    found = stored.rows("SELECT id, name FROM lake.s.laid ORDER BY id")
    assert [(row["id"], row["name"]) for row in found] == [(1, "d"), (2, "e"), (3, "f")]


def test_no_table_of_a_spool_stays_in_the_catalog(stored, catalog_file):
    with closing(sqlite3.connect(catalog_file)) as connection:
        names = [row[0] for row in connection.execute("SELECT table_name FROM iceberg_tables")]
    assert "laid" in names
    assert [name for name in names if name.startswith(SPOOL)] == []
