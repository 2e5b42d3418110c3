"""Only functions that somebody has judged are called for clients.

Attacked: `run`, and CHECK, DEFAULT and USING by the actions of Airport, with functions that read
settings, files, secrets or the catalog, that run SQL of their own, or that stop the process.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.catalog.values import DEFAULT, default_of
from jetbridge.client import Client, connect
from jetbridge.errors import BadRequest
from tests.helpers.lakes import engine, folder, new_lake, reader
from tests.security.sandbox.clients import OURS, Caller, serving

SECRET_PLAN = "json_serialize_plan('FROM duckdb_settings()')"
# By the name that the refusal has to tell.
READING = {
    "json_serialize_plan": SECRET_PLAN,
    "json_serialize_sql": "json_serialize_sql('SELECT 1')",
    "json_deserialize_sql": "json_deserialize_sql('{}')",
    "current_setting": "current_setting('secret_directory')",
    "getvariable": "getvariable('x')",
    "getenv": "getenv('HOME')",
    "in_search_path": "in_search_path('a', 'b')",
    "txid_current": "txid_current()",
    "current_query": "current_query()",
    "pg_get_viewdef": "pg_get_viewdef(1)",
    "nextval": "nextval('s')",
    "write_log": "write_log('x')",
    "sleep_ms": "sleep_ms(1)",
    "pg_sleep": "pg_sleep(1)",
    "version": "version()",
    "stats": "stats(1)",
    "vector_type": "vector_type(1)",
    "setseed": "setseed(0.5)",
    "create_sort_key": "create_sort_key(1, 'ASC')",
    "no_such_function": "no_such_function(1)",
}
# In a stored expression these have no end, or see more than a row.
ONLY_IN_RUN = {
    "list_transform": "list_transform([1], x -> x)",
    "list_apply": "[x for x in [1]]",
    "list_aggregate": "list_aggregate([1], 'sum')",
    "levenshtein": "levenshtein('a', 'b')",
    "sum": "sum(1)",
    "unnest": "unnest([1])",
    "json_transform": "json_transform('1', '\"INT\"')",
}
TABLES = {
    "json_execute_serialized_sql": "json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "query": "query('SELECT 1')",
    "query_table": "query_table('t')",
    "duckdb_settings": "duckdb_settings()",
    "duckdb_secrets": "duckdb_secrets()",
    "duckdb_logs": "duckdb_logs()",
    "duckdb_tables": "duckdb_tables()",
    "pragma_database_size": "pragma_database_size()",
    "which_secret": "which_secret('s3://x', 's3')",
    "checkpoint": "checkpoint()",
    "force_checkpoint": "force_checkpoint()",
    "enable_logging": "enable_logging()",
    "read_avro": "read_avro('x.avro')",
    "read_duckdb": "read_duckdb('x.db')",
    "iceberg_metadata": "iceberg_metadata('x')",
    "histogram": "histogram('t', 'a')",
    "test_all_types": "test_all_types()",
    "nobody_knows": "nobody_knows()",
}
# DuckDB walks down JSON on its stack: a million levels stopped the process.
DEEP = "repeat('[', 1000000) || repeat(']', 1000000)"
STOPPING = (
    f"json_structure({DEEP})",
    f"json_contains({DEEP}, '1')",
    f"json_merge_patch({DEEP}, {DEEP})",
    f"({DEEP})::JSON::VARIANT",
    f"json_group_structure({DEEP})",
    "json_transform('[]', '" + "[" * 20_000 + '"INT"' + "]" * 20_000 + "')",
    "json_transform('[]', repeat('[', 20000) || '\"INT\"' || repeat(']', 20000))",
    "NULL::INT[100000][100000]",
    "from_json('null', '\"INTEGER[1500][1500]\"')",
    "json_transform('null', '{\"a\": \"INTEGER[1500 ][ 1500]\"}')",
    "json_transform('null', '\"INTEGER\\u005b1500]\\u005b1500]\"')",
    'from_json(\'{"a": 1}\', \'{"a": "variant"}\')',
)


@pytest.fixture(scope="module")
def ours() -> Iterator[Caller]:
    with serving() as (caller, _):
        yield caller


@pytest.fixture(scope="module")
def client(ours: Caller) -> Iterator[Client]:
    with connect(ours.location, "mema", token=OURS) as connected:
        yield connected


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", READING)
def test_1_3_run_refuses_functions_that_tell_of_the_server(ours: Caller, name: str) -> None:
    for text in (
        f"SELECT {READING[name]}",
        f"SELECT sum(a) OVER (ORDER BY {READING[name]}) FROM mema.s.t",
        f"SELECT list_transform([a], x -> {READING[name]}) FROM mema.s.t",
        f"FROM mema.s.t LIMIT (SELECT {READING[name]})",
        f"UPDATE mema.s.t SET b = {READING[name]}",
        f"INSERT INTO mema.s.t VALUES (1, {READING[name]})",
        f"DELETE FROM mema.s.t RETURNING {READING[name]}",
    ):
        answer = ours.run(text)
        assert (answer.status, name in answer.message) == ("PERMISSION_DENIED", True), answer


@pytest.mark.parametrize("name", TABLES)
def test_1_3_run_refuses_table_functions_by_name(ours: Caller, name: str) -> None:
    answer = ours.run(f"FROM {TABLES[name]}")
    assert (answer.status, name in answer.message) == ("PERMISSION_DENIED", True), answer


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", STOPPING)
def test_1_3_run_does_not_stop_the_process(ours: Caller, text: str) -> None:
    answer = ours.run(f"SELECT {text}")
    assert answer.status in ("PERMISSION_DENIED", "INVALID_ARGUMENT"), answer.message
    assert ours.run("SELECT 1").status == "OK"


def test_1_3_run_refuses_a_window_over_what_it_may_not_call(ours: Caller) -> None:
    answer = ours.run("SELECT nobody_knows(a) OVER () FROM mema.s.t")
    assert (answer.status, "nobody_knows" in answer.message) == ("PERMISSION_DENIED", True), answer


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(a), list(b ORDER BY a), string_agg(b, ','), max(a) FROM mema.s.t",
        "SELECT row_number() OVER (ORDER BY a), lag(a) OVER (ORDER BY a) FROM mema.s.t",
        "SELECT list_transform([1, 2], x -> x + 1), [x * 2 for x in [1, 2] if x > 1]",
        "SELECT repeat('x', 3), range(3), lpad('x', 5, '-'), levenshtein('a', 'b')",
        "SELECT date_trunc('month', DATE '2024-05-05'), now(), current_date, 'a' COLLATE de < 'b'",
        """SELECT '{"a": [1, 2]}'::JSON->>'$.a[0]', json_transform('{"a": 1}', '{"a": "INT"}')""",
        "SELECT b LIKE 'x%', b SIMILAR TO 'x+', b.upper() FROM mema.s.t",
        "SELECT unnest([1, 2]), {'a': 1}.a, MAP {'k': 1}['k'], TRY_CAST('x' AS INT)",
        "FROM range(3) r(i) JOIN generate_series(1, 3) g(j) ON i = j",
        "SELECT * EXCLUDE (a) FROM mema.s.t",
        "SELECT COLUMNS(c -> c LIKE 'a%') FROM mema.s.t",
        "FROM mema.s.t PIVOT (sum(a) FOR b IN ('x', 'y'))",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) FROM r",
    ],
)
def test_1_3_run_calls_what_is_harmless(ours: Caller, query: str) -> None:
    assert ours.run(query).status == "OK", ours.run(query).message


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", READING | ONLY_IN_RUN)
def test_1_3_stored_expressions_are_held_to_the_narrow_list(
    ours: Caller, client: Client, name: str
) -> None:
    text = {**READING, **ONLY_IN_RUN}[name]
    default = pa.field("d", pa.string(), metadata={DEFAULT: text.encode()})
    for attack in (
        lambda: client.create_table("s", "n", pa.schema([default])),
        lambda: client.add_column("s", "t", default),
        lambda: client.set_default("s", "t", "b", text),
        lambda: client.add_constraint("s", "t", f"CHECK ({text} IS NOT NULL)"),
        lambda: client.change_column_type("s", "t", pa.field("b", pa.string()), text),
    ):
        with pytest.raises(BadRequest, match=name):
            attack()
    for statement in (
        f"CREATE TABLE mema.s.n (d VARCHAR DEFAULT ({text}))",
        f"ALTER TABLE mema.s.t ALTER b SET DEFAULT {text}",
        f"ALTER TABLE mema.s.t ADD CHECK ({text} IS NOT NULL)",
        f"ALTER TABLE mema.s.t ALTER b TYPE VARCHAR USING {text}",
    ):
        answer = ours.run(statement)
        assert answer.status in ("INVALID_ARGUMENT", "PERMISSION_DENIED"), answer.message
    assert client.table("s", "t").schema.names == ["a", "b"]
    assert ours.run("FROM mema.s.n").status == "NOT_FOUND"


def test_1_3_a_client_gets_no_default_that_it_must_not_evaluate(client: Client) -> None:
    """It pastes a DEFAULT into statements of its own, which may read its own files."""
    made = pa.field("d", pa.string(), metadata={DEFAULT: b"upper('x') || now()"})
    listing = client.create_table("s", "good", pa.schema([made]))
    assert listing.schema.field("d").metadata[DEFAULT] == b"(upper('x') || now())"
    for text in ("(FROM read_text('/etc/hostname'))", "content FROM read_text('/etc/hostname')"):
        with pytest.raises(BadRequest):
            client.set_default("s", "good", "d", text)


@pytest.mark.lake
def test_1_3_a_default_that_others_planted_in_a_lake_is_not_sent() -> None:
    """Whoever may write the metadata of a table decides what its clients would paste."""
    lake = new_lake()
    warehouse = folder() / lake.lake.name
    harmless, planted = "upper('just a text')", "getenv('WHATEVER_IT_IS')"
    made = pa.field("d", pa.string(), metadata={DEFAULT: harmless.encode()})
    table = lake.create_schema(SchemaInfo("s")).create_table(CreateTable("t", pa.schema([made])))
    assert default_of(table.info().schema.field("d")) == harmless
    for file in warehouse.rglob("*.metadata.json"):
        file.write_text(file.read_text().replace(harmless, planted))
    again = LakeCatalog(lake.lake.name, warehouse, engine(), reader=reader())
    found = again.load_schema("s").load_table("t").info().schema.field("d")
    assert default_of(found) is None
