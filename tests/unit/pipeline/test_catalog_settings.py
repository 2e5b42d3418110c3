"""SET, RESET and SHOW of settings that a kind of catalog has, and what its catalogs get of them."""

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CanConfigure, supports
from jetbridge.errors import BadRequest
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from tests.unit.pipeline.configurable import SETTINGS, ConfigurableCatalog

VARCHAR = {"mssql_ctas_text_type": "VARCHAR"}


@pytest.fixture
def catalogs():
    return {"m": ConfigurableCatalog(), "memory": MemoryCatalog()}


@pytest.fixture
def session(catalogs):
    values = SettingValues(SETTINGS, ignored={"mssql_query_timeout"})
    opened = Session(catalogs, SessionResources(settings=values))
    sql(opened, "CREATE SCHEMA m.s; CREATE SCHEMA memory.s; USE m.s")
    yield opened
    opened.close()


def sql(session, text):
    """The rows of the last statement."""
    rows = [outcome.table().to_pylist() for outcome in run(session, text)]
    return rows[-1]


@pytest.fixture
def seen(catalogs):
    """Return the settings of the latest look at a table of the catalog that has some."""
    return lambda: catalogs["m"].seen[-1]


def test_the_catalog_of_these_tests_has_the_capability_and_memory_has_not(catalogs):
    assert [supports(each, CanConfigure) for each in catalogs.values()] == [True, False]


def test_create_table_as_gets_what_was_set_before_it(session, seen):
    sql(session, "CREATE TABLE a AS SELECT 1 AS x")
    assert seen() == ("a", {})
    sql(session, "SET mssql_ctas_text_type = 'varchar'; CREATE TABLE b AS SELECT 1 AS x")
    assert seen() == ("b", {"mssql_ctas_text_type": "varchar"})
    sql(session, "RESET mssql_ctas_text_type; CREATE TABLE c AS SELECT 1 AS x")
    assert seen() == ("c", {})


def test_insert_gets_what_was_set_before_it(session, seen):
    sql(session, "CREATE TABLE a AS SELECT 1 AS x")
    sql(session, "SET MSSQL_CTAS_USE_BCP = off; INSERT INTO a VALUES (2)")
    assert seen() == ("a", {"mssql_ctas_use_bcp": "off"})
    assert sql(session, "SELECT sum(x)::INT AS n FROM a") == [{"n": 3}]


def test_other_catalogs_of_the_session_work_on(session):
    sql(session, "SET mssql_ctas_text_type = 'VARCHAR'; CREATE TABLE memory.s.a AS SELECT 1 AS x")
    assert sql(session, "FROM memory.s.a") == [{"x": 1}]


def test_what_is_set_in_a_transaction_holds_for_its_next_statement(session, seen):
    sql(session, "CREATE TABLE a AS SELECT 1 AS x; BEGIN; SELECT * FROM a")
    sql(session, "SET mssql_ctas_text_type = 'VARCHAR'; INSERT INTO a VALUES (2)")
    assert seen() == ("a", VARCHAR)
    sql(session, "COMMIT")


def test_settings_hold_for_the_session_that_set_them_only(session, seen, catalogs):
    other = Session(catalogs, SessionResources(settings=SettingValues(SETTINGS)))
    sql(session, "SET mssql_ctas_text_type = 'VARCHAR'")
    sql(other, "CREATE TABLE m.s.a AS SELECT 1 AS x")
    assert seen() == ("a", {})
    other.close()


def test_clients_of_a_server_may_set_them(session, seen, catalogs):
    resources = SessionResources(AccessRules(), settings=SettingValues(SETTINGS))
    client = Session(catalogs, resources)
    sql(client, "SET mssql_ctas_text_type = 'VARCHAR'; CREATE TABLE m.s.a AS SELECT 1 AS x")
    assert seen() == ("a", VARCHAR)
    with pytest.raises(BadRequest, match="for the local command only"):
        sql(client, "SET dialect = spark")
    client.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SHOW mssql_ctas_text_type", "NVARCHAR"),
        ("SET mssql_ctas_text_type = varchar; SHOW mssql_ctas_text_type", "VARCHAR"),
        ("SHOW MSSQL_CTAS_USE_BCP", "true"),
        ("SET mssql_ctas_use_bcp = 0; SHOW mssql_ctas_use_bcp", "false"),
        ("SET mssql_ctas_use_bcp = 0; RESET mssql_ctas_use_bcp; SHOW mssql_ctas_use_bcp", "true"),
        ("SHOW engine", "auto"),
    ],
)
def test_show_tells_the_value_as_it_counts(session, text, shown):
    assert [*sql(session, text)[0].values()] == [shown]


def test_show_settings_lists_those_of_both_kinds(session):
    rows = sql(session, "SET mssql_ctas_text_type = 'VARCHAR'; SHOW settings")
    names = {row["name"]: (row["value"], row["description"]) for row in rows}
    assert list(names) == ["engine", "dialect", "spark_from", *SETTINGS]
    assert names["mssql_ctas_text_type"] == ("VARCHAR", "the type of texts")


def test_setting_goes_by_another_name_too(session, seen):
    sql(session, "SET Mssql_Text_Type = 'varchar'; CREATE TABLE a AS SELECT 1 AS x")
    assert seen() == ("a", {"mssql_ctas_text_type": "varchar"})
    assert [*sql(session, "SHOW mssql_text_type")[0].values()] == ["VARCHAR"]
    with pytest.raises(BadRequest, match="Must be 'NVARCHAR' or 'VARCHAR'"):
        sql(session, "SET mssql_text_type = 'TEXT'")
    sql(session, "RESET mssql_text_type")
    assert session.settings.catalog_overrides == {}


@pytest.mark.parametrize("statement", ["SET {} = 1", "SET GLOBAL {} = '1'", "RESET {}"])
def test_settings_of_the_extension_that_mean_nothing_here_are_taken_and_said_so(session, statement):
    (report,) = sql(session, statement.format("MSSQL_query_timeout"))
    assert (report["target"], report["note"]) == ("MSSQL_query_timeout", "it has no effect here")
    assert session.settings.catalog_overrides == {}


@pytest.mark.parametrize("statement", ["SET {} = 1", "RESET {}", "SHOW {}"])
def test_unknown_name_is_one_error_with_near_names_and_all_names(session, statement):
    with pytest.raises(BadRequest) as refused:
        sql(session, statement.format("mssql_ctas_txt_type"))
    assert "'mssql_ctas_txt_type'; did you mean mssql_ctas_text_type?" in str(refused.value)
    known = ", ".join(["engine", "dialect", "spark_from", *SETTINGS])
    assert f"The settings are {known}" in str(refused.value)


def test_bad_value_is_refused_at_once_and_changes_nothing(session):
    sql(session, "SET mssql_ctas_text_type = 'VARCHAR'")
    with pytest.raises(BadRequest, match="Must be 'NVARCHAR' or 'VARCHAR'"):
        sql(session, "SET mssql_ctas_text_type = 'TEXT'")
    assert session.settings.catalog_overrides == VARCHAR
