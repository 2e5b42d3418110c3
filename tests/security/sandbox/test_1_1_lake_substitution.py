"""Spark runs the text of a statement unchanged: it does not replace `${…}`."""

from collections.abc import Iterator

import pytest

from jetbridge.app.configuration import load_config
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.config import ConfigError
from jetbridge.errors import BadRequest
from jetbridge.spark.settings import SUBSTITUTE, complete
from tests.conformance.harness import rows
from tests.helpers import lakes
from tests.pipeline.targets import Bench, bench
from tests.security.running import Caller, running

pytestmark = pytest.mark.lake

PASSWORD = "correct-horse-battery"
REFERENCES = [
    "${env:HOME}",
    "${system:user.dir}",
    "${spark.app.id}",
    "${sparkconf:spark.app.name}",
    "${hiveconf:spark.app.name}",
    "${spark.sql.catalog.secretive.jdbc.password}",
    "price: ${amount}, ${",
]


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    """Open a lake, and a catalog whose password is one of the settings of Spark."""
    made = lakes.ready_lake()
    lakes.engine().add_catalog("secretive", {"type": "jdbc", "jdbc.password": PASSWORD})
    return made


@pytest.fixture(scope="module")
def caller(lake: LakeCatalog) -> Iterator[Caller]:
    name = lake.lake.name
    with running({name: lake, "mem": MemoryCatalog()}, name) as made:
        made.run("CREATE SCHEMA s; CREATE SCHEMA mem.s; CREATE TABLE s.one AS SELECT 1 AS n")
        yield made


def columns(lake: LakeCatalog, table: str) -> list[str]:
    return [field.name for field in lake.load_schema("s").load_table(table).info().schema]


def test_literals_are_stored_as_they_were_written(caller, lake):
    values = ", ".join(f"'{text}' AS c{number}" for number, text in enumerate(REFERENCES))
    for target in ("s.literals", "mem.s.literals"):
        query = f"SELECT {values} FROM s.one"
        (_, report) = caller.run(f"SET engine='spark'; CREATE OR REPLACE TABLE {target} AS {query}")
        assert report["engine"] == "spark"
    assert rows(lake.load_schema("s").load_table("literals")) == [tuple(REFERENCES)]
    caller.run("CREATE TABLE s.back AS SELECT * FROM mem.s.literals")
    assert rows(lake.load_schema("s").load_table("back")) == [tuple(REFERENCES)]


# Hadoop replaces other ones, in the schemas of Parquet files that Spark writes and reads.
HADOOPS = ["${user.dir}", "${env.HOME}", "${spark.sql.catalog.secretive.jdbc.password}"]


@pytest.mark.parametrize("text", HADOOPS)
def test_names_of_columns_stay_as_they_are_in_files_between_engines(caller, lake, text):
    made = f'CREATE OR REPLACE TABLE mem.s.passed AS SELECT n AS "{text}" FROM s.one'
    caller.run(f"SET engine='spark'; {made}")
    caller.run("CREATE OR REPLACE TABLE s.passed AS FROM mem.s.passed")
    assert columns(lake, "passed") == [text]
    assert rows(lake.load_schema("s").load_table("passed")) == [(1,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", HADOOPS)
def test_fields_whose_names_would_be_replaced_are_refused_or_left_to_duckdb(caller, lake, text):
    query = f"SELECT {{'x': n, '{text}': n}} AS f FROM s.one"
    answer = caller.ask(f"SET engine='spark'; CREATE OR REPLACE TABLE mem.s.inner AS {query}")
    assert answer.status == "INVALID_ARGUMENT"
    assert f"Spark cannot write the field '{text}'" in answer.message
    by_size = "SET engine='auto'; SET spark_from='1B'"
    report = caller.run(f"{by_size}; CREATE OR REPLACE TABLE mem.s.inner AS {query}")[-1]
    assert report["engine"] == "duckdb"
    caller.run("CREATE OR REPLACE TABLE s.passed AS FROM mem.s.inner")
    assert rows(lake.load_schema("s").load_table("passed")) == [({"x": 1, text: 1},)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", HADOOPS)
def test_rows_of_a_sorted_table_keep_columns_of_such_names(caller, lake, text):
    caller.run(f"CREATE OR REPLACE TABLE s.odd AS SELECT 0 AS n, 'a' AS \"{text}\"")
    caller.run("ALTER TABLE s.odd SET SORTED BY (n)")
    caller.run("INSERT INTO s.odd VALUES (1, 'b')")
    caller.run(f"UPDATE s.odd SET \"{text}\" = 'c' WHERE n = 0")
    assert rows(lake.load_schema("s").load_table("odd")) == [(0, "c"), (1, "b")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", REFERENCES)
def test_names_stay_as_they_are(caller, lake, text):
    """Names of a table, a column and a field; also where Spark itself looks up the table."""
    table = f'"of {text}"'
    made = f"CREATE OR REPLACE TABLE s.{table} AS SELECT n AS \"{text}\", {{'{text}': n}} AS f"
    caller.run(f"SET engine='spark'; {made} FROM s.one")
    copy = f"CREATE OR REPLACE TABLE s.named AS FROM s.{table}"
    if "." in text:  # the lake stores such a field under another name, and Spark would look there
        refused = caller.ask(f"SET engine='spark'; {copy}")
        assert refused.status == "FAILED_PRECONDITION"
        assert "the column f" in refused.message
        caller.run(copy)
    else:
        caller.run(f"SET engine='spark'; {copy}")
    assert columns(lake, "named") == [text, "f"]
    assert rows(lake.load_schema("s").load_table("named")) == [(1, {text: 1})]


def test_comments_and_aliases_stay_as_they_are(caller, lake):
    query = 'SELECT /* ${env:HOME} */ "${system:user.dir}".n FROM s.one AS "${system:user.dir}"'
    caller.run(f"SET engine='spark'; CREATE OR REPLACE TABLE s.noted AS {query} -- ${{env:HOME}}")
    assert rows(lake.load_schema("s").load_table("noted")) == [(1,)]


def test_rows_written_by_a_job_into_a_sorted_table_stay_as_they_are(caller, lake):
    caller.run("CREATE TABLE s.laid AS SELECT 0 AS n, '' AS t")
    caller.run("ALTER TABLE s.laid SET SORTED BY (n)")
    caller.run("INSERT INTO s.laid VALUES (1, '${env:HOME}')")
    assert rows(lake.load_schema("s").load_table("laid")) == [(0, ""), (1, "${env:HOME}")]


@pytest.fixture(scope="module")
def local() -> Iterator[Bench]:
    """Run the local command, which may use Spark's own dialect."""
    with bench("lake") as made:
        made.sql("CREATE TABLE t.dbo.one AS SELECT 1 AS n")
        yield made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", REFERENCES)
def test_text_in_the_dialect_of_spark_stays_as_it_is(local, text):
    local.sql("SET dialect = 'spark'")
    query = f"SELECT '{text}' AS a, n AS `{text}` FROM {local.catalog.lake.name}.dbo.one"
    try:
        assert local.rows(query) == [(text, 1)]
        local.sql(f"CREATE OR REPLACE TABLE t.dbo.spoken AS {query} -- {text}")
    finally:
        local.sql("RESET dialect")
    assert local.rows("FROM t.dbo.spoken") == [(text, 1)]


def test_path_in_the_dialect_of_spark_is_not_looked_up(local):
    """The file would exist if Spark replaced the variable in the path."""
    local.sql("SET dialect = 'spark'")
    try:
        with pytest.raises(BadRequest, match="Failed to create plan for direct query"):
            local.rows("SELECT * FROM text.`${env:HOME}/../etc/hostname`")
    finally:
        local.sql("RESET dialect")


@pytest.mark.parametrize("name", ["spark.sql.variable.substitute", "SPARK.SQL.VARIABLE.SUBSTITUTE"])
def test_a_statement_cannot_turn_substitution_on(caller, local, name):
    assert caller.ask(f"SET {name} = true").status == "INVALID_ARGUMENT"
    assert caller.ask(f'SET "{name}" = true').status == "INVALID_ARGUMENT"
    for dialect in ("spark", "duckdb"):
        local.sql(f"SET dialect = '{dialect}'")
        with pytest.raises(Exception, match="there is no setting|expected TO"):
            local.sql(f"SET {name} = true")
        local.sql("RESET dialect")
    with lakes.engine().session() as session:
        assert session.spark.conf.get(SUBSTITUTE) == "false"


def test_the_configuration_cannot_turn_substitution_on(tmp_path):
    file = tmp_path / "jetbridge.toml"
    for value in ("true", '"true"', '"TRUE "'):
        file.write_text(f'[spark]\n"{SUBSTITUTE}" = {value}\n')
        with pytest.raises(ConfigError, match=rf"{SUBSTITUTE}.*must be false"):
            load_config(file)
    file.write_text(f'[spark]\n"{SUBSTITUTE}" = false\n')
    assert load_config(file).spark == {SUBSTITUTE: "false"}


def test_a_program_cannot_turn_substitution_on(tmp_path):
    assert complete({SUBSTITUTE: "true"}, tmp_path)[SUBSTITUTE] == "false"
