"""What the CTAS document says of SQL Server alone, by number; the rest is in the other files."""

import logging
import re

import pytest

from jetbridge.errors import AlreadyExists, BadRequest, NotFound, PermissionDenied, ServerError
from tests.helpers.mssql_orders import failing, refusing_rows, sent
from tests.pipeline.targets import Bench, bench

pytestmark = pytest.mark.mssql
FIVE = "SELECT i AS id, 'row ' || i AS name FROM range(5) r(i)"
ALL_TYPES = """
SELECT * FROM (VALUES
    (TRUE, 0::TINYINT, -5::SMALLINT, 7, -9007199254740993, 1.5::FLOAT, 1e300::DOUBLE, 12.34::DECIMAL(10,2),
     'it''s 😀 ünï ' || chr(10), '6b29fc40-ca47-1067-b31d-00dd010662da'::UUID, 'a\\x00b'::BLOB, DATE '0001-01-01',
     TIME '23:59:59.999999', TIMESTAMP '9999-12-31 23:59:59.999999', TIMESTAMPTZ '2020-02-29 12:00:00.000001+02'),
    (FALSE, 127::TINYINT, 0::SMALLINT, -7, 9007199254740993, -0.0::FLOAT, 0.1::DOUBLE, -99999999.99,
     '', '00000000-0000-0000-0000-000000000000'::UUID, ''::BLOB, DATE '9999-12-31',
     TIME '00:00:00', TIMESTAMP '0001-01-01 00:00:00', TIMESTAMPTZ '1970-01-01 00:00:00+00'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
) AS v(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
"""  # noqa: E501


@pytest.fixture(scope="module")
def server():
    with bench("mssql") as made:
        yield made


@pytest.fixture
def setting(server):
    """Set, and reset at the end."""
    names = []

    def change(name, value):
        server.sql(f"SET {name} = '{value}'")
        names.append(name)

    yield change
    for name in names:
        server.sql(f"RESET {name}")


def declared(server: Bench, table: str) -> list[tuple[str, str, int, int, int, bool]]:
    """Return columns as SQL Server itself reports them."""
    found = server.catalog.database.table("dbo", table)
    return [(c.name, c.type, c.length, c.precision, c.scale, c.nullable) for c in found.columns]


def types(server: Bench, table: str) -> list[str]:
    return [kind for _, kind, *_ in declared(server, table)]


def same(server: Bench, table: str, query: str) -> bool:
    less = f"FROM {table} EXCEPT ALL {query}"
    more = f"{query} EXCEPT ALL FROM {table}"
    return server.rows(f"SELECT count(*) FROM (({less}) UNION ALL ({more}))") == [(0,)]


def test_us1_1_columns_and_nullability(server):
    server.sql("CREATE TABLE t.dbo.ctas1 AS SELECT 1 AS id, 'x' AS name")
    found = [
        (name, kind, length, nullable)
        for name, kind, length, _, _, nullable in declared(server, "ctas1")
    ]
    assert found == [("id", "int", 4, False), ("name", "nvarchar", -1, True)]
    assert server.rows("FROM t.dbo.ctas1") == [(1, "x")]


@pytest.mark.parametrize("bulk", ["true", "false"])
def test_fr_002_fr_003_fr_016_the_table_is_made_before_any_row_is_sent(server, setting, bulk):
    """Create nothing but columns and NOT NULL; no row comes back."""
    setting("mssql_ctas_use_bcp", bulk)
    query = (
        "SELECT 7 AS \"a]b\", 1.5::DECIMAL(5,2) AS \"select\", 'x' AS s, 'a'::BLOB AS d, "
        "TIME '01:02:03' AS e, unnest([TIMESTAMP '2020-01-02', NULL]) AS f"
    )
    table = f'"fr]_002_{bulk}"'
    with sent(f"fr]]_002_{bulk}") as texts:
        server.sql(f"CREATE TABLE t.dbo.{table} AS {query}")
        assert server.rows(f'SELECT "a]b", s FROM t.dbo.{table}') == [(7, "x"), (7, "x")]
    made = (
        f"CREATE TABLE [dbo].[fr]]_002_{bulk}] ([a]]b] int NOT NULL, "
        "[select] decimal(5,2) NOT NULL, [s] nvarchar(max) NULL, [d] varbinary(max) NOT NULL, "
        "[e] time(7) NOT NULL, [f] datetime2(7) NULL)"
    )
    ddl, begin, rows, commit, *_ = texts
    assert (ddl, begin, commit) == (made, "SET XACT_ABORT ON; BEGIN TRANSACTION", "COMMIT")
    way = "BULK" if bulk == "true" else "INTO"
    assert rows.startswith(f"INSERT {way} [dbo].[fr]]_002_{bulk}] ([a]]b]")
    assert "OUTPUT" not in rows


def test_sc_003_every_type_and_its_edges(server):
    server.sql(f"CREATE TABLE t.dbo.sc_003 AS {ALL_TYPES}")
    assert types(server, "sc_003") == [
        "bit", "tinyint", "smallint", "int", "bigint", "real", "float", "decimal", "nvarchar",
        "uniqueidentifier", "varbinary", "date", "time", "datetime2", "datetimeoffset",
    ]  # fmt: skip
    assert [scale for *_, scale, _ in declared(server, "sc_003")][-3:] == [7, 7, 7]
    assert same(server, "t.dbo.sc_003", ALL_TYPES)


def test_fr_005_mode_a_gives_the_same_rows(server, setting):
    setting("mssql_ctas_use_bcp", "false")
    setting("mssql_insert_batch_size", "2")
    server.sql(f"CREATE TABLE t.dbo.fr_005 AS {ALL_TYPES}")
    assert same(server, "t.dbo.fr_005", ALL_TYPES)


def test_fr_005_a_row_that_is_larger_than_a_statement_may_be(server, setting):
    setting("mssql_ctas_use_bcp", "false")
    setting("mssql_insert_max_sql_bytes", "1024")
    with pytest.raises(BadRequest, match="mssql_insert_max_sql_bytes"):
        server.sql("CREATE OR REPLACE TABLE t.dbo.large AS SELECT repeat('x', 2000) AS s")


def test_fr_009_as_implemented_a_name_without_a_schema_is_in_dbo(server):
    report = server.report("CREATE TABLE t.fr_009 AS SELECT 1 AS id")
    assert report["target"] == "t.dbo.fr_009"
    assert [column[:2] for column in declared(server, "fr_009")] == [("id", "int")]
    with pytest.raises(AlreadyExists, match=r"'t\.dbo\.fr_009'"):
        server.sql("CREATE TABLE t.fr_009 AS SELECT 1 AS id")


@pytest.mark.parametrize("replaces", ["", "OR REPLACE "])
def test_fr_009_a_schema_that_is_not_there_is_told_before_anything_else_is_done(server, replaces):
    """Send nothing but queries of the catalog; the statement does not run."""
    query = "SELECT CASE WHEN i = 2 THEN error('the query ran') ELSE i END AS i FROM range(3) r(i)"
    problem = r"schema 't\.nope' does not exist; create it with CREATE SCHEMA t\.nope"
    with sent("fr_009_b") as texts, pytest.raises(NotFound, match=problem):
        server.sql(f"CREATE {replaces}TABLE t.nope.fr_009_b AS {query}")
    assert texts == []
    assert "nope" not in [schema.info().name for schema in server.catalog.list_schemas()]


@pytest.mark.parametrize("bulk", ["true", "false"])
def test_fr_007_sc_005_the_table_stays_empty_when_its_rows_fail(server, setting, bulk):
    setting("mssql_ctas_use_bcp", bulk)
    with refusing_rows(), pytest.raises(ServerError, match="has no rows"):
        server.sql(f"CREATE TABLE t.dbo.fr_007_{bulk} AS {FIVE}")
    assert server.rows(f"SELECT count(*) FROM t.dbo.fr_007_{bulk}") == [(0,)]


def test_fr_007_sc_006_drop_on_failure(server, setting):
    setting("mssql_ctas_drop_on_failure", "true")
    with refusing_rows(), pytest.raises(ServerError, match="1105"):
        server.sql(f"CREATE TABLE t.dbo.sc_006 AS {FIVE}")
    assert "sc_006" not in server.tables()


def test_fr_008_both_errors_are_told(server, setting):
    setting("mssql_ctas_drop_on_failure", "true")
    with refusing_rows(drop=True), pytest.raises(ServerError) as failed:
        server.sql(f"CREATE TABLE t.dbo.fr_008 AS {FIVE}")
    assert re.search(r"1105.*and table dbo\.fr_008 could not be dropped: .*3726", str(failed.value))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    ["a]b", "select", "with space", "ünïcödé 😀", "x" * 128, "a.b", "'quoted'", '"double"', "[br"],
)
def test_fr_010_any_name_of_a_column_and_a_table(server, name):
    quoted = '"' + name.replace('"', '""') + '"'
    server.sql(f"CREATE OR REPLACE TABLE t.dbo.{quoted} AS SELECT 7 AS {quoted}, 'x' AS other")
    assert server.rows(f"SELECT {quoted} FROM t.dbo.{quoted} WHERE {quoted} = 7") == [(7,)]
    assert name in server.tables()
    server.sql(f"DROP TABLE t.dbo.{quoted}")


def test_fr_010_a_name_that_is_too_long(server):
    with pytest.raises(BadRequest, match="128 characters"):
        server.sql(f"CREATE TABLE t.dbo.long AS SELECT 1 AS {'x' * 129}")
    assert "long" not in server.tables()


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("[1] AS l, 1::HUGEINT AS h", r"column 'l' \(INTEGER\[\]\), 'h' \(HUGEINT\); cast"),
        ("1::HUGEINT AS h", r"'h' \(HUGEINT\); cast .*, or SET mssql_ctas_extended_types = true$"),
    ],
)
def test_fr_012_sc_004_every_column_without_a_type_is_named(server, columns, told):
    with pytest.raises(BadRequest, match=told):
        server.sql(f"CREATE TABLE t.dbo.fr_012 AS SELECT 1 AS a, {columns}")
    assert "fr_012" not in server.tables()


def test_types_beyond_the_table(server, setting):
    setting("mssql_ctas_extended_types", "true")
    query = (
        "SELECT 255::UTINYINT AS a, 65535::USMALLINT AS b, 4294967295::UINTEGER AS c, "
        "18446744073709551615::UBIGINT AS d, 99999999999999999999999999999999999999::HUGEINT AS e"
    )
    server.sql(f"CREATE TABLE t.dbo.extended AS {query}")
    assert types(server, "extended") == ["tinyint", "int", "bigint", "decimal", "decimal"]
    assert server.rows("FROM t.dbo.extended")[0][:4] == (255, 65535, 4294967295, 2**64 - 1)
    assert int(server.rows("FROM t.dbo.extended")[0][4]) == 10**38 - 1


@pytest.mark.parametrize(("value", "kind"), [("NVARCHAR", "nvarchar"), ("varchar", "varchar")])
def test_us5_fr_013_sc_007_text_type(server, setting, value, kind):
    setting("mssql_ctas_text_type", value)
    server.sql("CREATE OR REPLACE TABLE t.dbo.text_type AS SELECT 'x' AS s")
    assert declared(server, "text_type")[0][1:3] == (kind, -1)


def test_a_text_type_that_is_none(server):
    with pytest.raises(
        BadRequest, match="Invalid mssql_ctas_text_type: 'TEXT'. Must be 'NVARCHAR' or 'VARCHAR'"
    ):
        server.sql("SET mssql_ctas_text_type = 'TEXT'")


def test_fr_017_decimals_are_clamped(server):
    server.sql(
        "CREATE TABLE t.dbo.fr_017 AS SELECT 0.5::DECIMAL(38,38) AS a, 1::DECIMAL(38,0) AS b"
    )
    assert [d[3:5] for d in declared(server, "fr_017")] == [(38, 38), (38, 0)]


def test_a_negative_tinyint_is_named_with_its_row(server, setting):
    query = "SELECT (3 - i)::TINYINT AS small FROM range(6) r(i)"
    with pytest.raises(
        BadRequest, match=r"column 'small', row 4: -1 does not fit tinyint.*SMALLINT"
    ):
        server.sql(f"CREATE TABLE t.dbo.tiny AS {query}")
    assert "tiny" not in server.tables()
    setting("mssql_ctas_tinyint", "SMALLINT")
    server.sql(f"CREATE TABLE t.dbo.tiny AS {query}")
    assert types(server, "tiny") == ["smallint"]
    assert same(server, "t.dbo.tiny", query)


@pytest.mark.parametrize(
    "value", ["'nan'::DOUBLE", "'-inf'::FLOAT", "DATE '10000-01-01'", "TIMESTAMP 'infinity'"]
)
def test_values_that_sql_server_has_not_are_named_before_anything_is_made(server, value):
    with pytest.raises(BadRequest, match="column 'v', row 1"):
        server.sql(f"CREATE TABLE t.dbo.odd AS SELECT unnest([NULL, {value}]) AS v")
    assert "odd" not in server.tables()


@pytest.mark.parametrize(
    ("texts", "kind", "length"),
    [
        ("NVARCHAR", "nvarchar", {"a": 20, "b": 40, "c": -1, "d": 20}),
        ("VARCHAR", "varchar", {"a": 10, "b": 50, "c": 8000, "d": 10}),
    ],
)
def test_text_length_auto(server, setting, texts, kind, length):
    """Count bytes, as SQL Server does: nvarchar(10) has 20 of them."""
    setting("mssql_ctas_text_type", texts)
    setting("mssql_ctas_text_length", "auto")
    query = "SELECT 'abc' AS a, repeat('é', 11) AS b, repeat('x', 5000) AS c, NULL::VARCHAR AS d"
    server.sql(f"CREATE OR REPLACE TABLE t.dbo.auto AS {query}")
    assert set(types(server, "auto")) == {kind}
    assert {name: size for name, _, size, *_ in declared(server, "auto")} == length


def test_default_string_length(server, setting):
    setting("mssql_default_string_length", "30")
    server.sql("CREATE OR REPLACE TABLE t.dbo.thirty AS SELECT 'abc' AS a")
    assert declared(server, "thirty")[0][1:3] == ("nvarchar", 60)


def test_us7_3_or_replace_keeps_the_old_table_until_the_new_one_is_complete(server):
    server.sql(f"CREATE TABLE t.dbo.us7_3 AS {FIVE}")
    with refusing_rows(), pytest.raises(ServerError, match="1105"):
        server.sql("CREATE OR REPLACE TABLE t.dbo.us7_3 AS SELECT 1 AS other")
    assert same(server, "t.dbo.us7_3", FIVE)


def test_us7_3_fr_020_the_way_that_is_not_atomic(server, setting):
    setting("mssql_ctas_atomic_replace", "false")
    server.sql(f"CREATE TABLE t.dbo.fr_020 AS {FIVE}")
    with refusing_rows(), pytest.raises(ServerError, match="has no rows"):
        server.sql("CREATE OR REPLACE TABLE t.dbo.fr_020 AS SELECT 1 AS other")
    assert [name for name, *_ in declared(server, "fr_020")] == ["other"]


@pytest.mark.parametrize("atomic", ["true", "false"])
def test_us7_3_fr_020_what_is_left_when_the_new_table_cannot_be_made(server, setting, atomic):
    setting("mssql_ctas_atomic_replace", atomic)
    table = f"fr_020_{atomic}"
    server.sql(f"CREATE TABLE t.dbo.{table} AS {FIVE}")
    with failing(262, "CREATE TABLE"), pytest.raises(PermissionDenied, match="262"):
        server.sql(f"CREATE OR REPLACE TABLE t.dbo.{table} AS SELECT 1 AS other")
    if atomic == "true":
        assert same(server, f"t.dbo.{table}", FIVE)
    else:
        assert table not in server.tables()
        with pytest.raises(NotFound):
            server.sql(f"FROM t.dbo.{table}")


def test_fr_021_sc_013_the_log_tells_sizes_rows_seconds_and_the_phase(server, monkeypatch, caplog):
    monkeypatch.setenv("MSSQL_DML_DEBUG", "1")
    caplog.set_level(logging.DEBUG, "jetbridge.backends.mssql")
    server.sql(f"CREATE TABLE t.dbo.fr_021 AS {FIVE}")
    said = "\n".join(record.getMessage() for record in caplog.records)
    for part in (
        r"5 rows produced",
        r"DDL statement of \d+ bytes",
        r"DDL phase took",
        r"DML phase took",
        r"5 rows inserted",
    ):
        assert re.search(part, said), said
    with refusing_rows(), pytest.raises(ServerError):
        server.sql(f"CREATE TABLE t.dbo.fr_021_x AS {FIVE}")
    assert "failed in the DML phase" in caplog.text
    assert "secret" not in caplog.text


def test_fr_021_a_table_that_cannot_be_made(server, monkeypatch, caplog):
    monkeypatch.setenv("MSSQL_DEBUG", "1")
    monkeypatch.delenv("MSSQL_DML_DEBUG", raising=False)
    with sent("fr_021_y") as texts, failing(262, "CREATE TABLE"), pytest.raises(PermissionDenied):
        server.sql(f"CREATE TABLE t.dbo.fr_021_y AS {FIVE}")
    (ddl,) = texts
    said = [each.getMessage() for each in caplog.records if "fr_021_y" in each.getMessage()]
    assert said[:2] == [
        "CTAS dbo.fr_021_y: 5 rows produced by the query",
        f"CTAS dbo.fr_021_y: DDL statement of {len(ddl)} bytes",
    ]
    assert "CTAS dbo.fr_021_y: failed in the DDL phase: " in said[-1]
    assert "262" in said[-1]
    assert not [each for each in said if "DML" in each or "inserted" in each]


def test_fr_021_nothing_is_said_unless_it_is_asked_for(server, monkeypatch, caplog):
    monkeypatch.delenv("MSSQL_DML_DEBUG", raising=False)
    monkeypatch.delenv("MSSQL_DEBUG", raising=False)
    caplog.set_level(logging.DEBUG, "jetbridge.backends.mssql")
    server.sql(f"CREATE OR REPLACE TABLE t.dbo.fr_021_n AS {FIVE}")
    assert "phase" not in caplog.text


def test_edge_a_query_that_fails_makes_nothing(server):
    with pytest.raises(ServerError):
        server.sql(
            "CREATE TABLE t.dbo.failing AS SELECT CASE WHEN i = 900 THEN error('no') ELSE i END "
            "AS i FROM range(1000) r(i)"
        )
    assert "failing" not in server.tables()


def test_errors_name_the_object_and_the_remedy(server):
    server.sql(f"CREATE TABLE t.dbo.there AS {FIVE}")
    with pytest.raises(
        AlreadyExists, match=r"table 't.dbo.there' already exists; use CREATE OR REPLACE"
    ):
        server.sql(f"CREATE TABLE t.dbo.there AS {FIVE}")
    with pytest.raises(
        NotFound, match=r"schema 't.none' does not exist; create it with CREATE SCHEMA"
    ):
        server.sql(f"CREATE TABLE t.none.x AS {FIVE}")
    with pytest.raises(NotFound, match=r"table 't.dbo.missing' does not exist"):
        server.sql("FROM t.dbo.missing")


def test_columnstore(server, setting):
    setting("mssql_ctas_table_kind", "columnstore")
    server.sql(f"CREATE TABLE t.dbo.columnar AS {FIVE}")
    assert same(server, "t.dbo.columnar", FIVE)
    ((kind,),) = server.catalog.database.server.query(
        "SELECT type_desc FROM sys.indexes WHERE object_id = OBJECT_ID(N'dbo.columnar')"
    )
    assert kind == "CLUSTERED COLUMNSTORE"
