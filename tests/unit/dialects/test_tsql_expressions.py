"""CHECK and DEFAULT, from DuckDB to T-SQL and back."""

import pytest

from jetbridge.dialects.tsql import constraint_reader
from jetbridge.dialects.tsql.expressions import check, default, is_cast_of
from jetbridge.dialects.tsql.types import Kind, canonical_constant, change_condition, kind_of
from jetbridge.errors import NotSupported

COLUMNS = {
    "qty": "bigint",
    "i": "int",
    "sm": "smallint",
    "n": "decimal(10,2)",
    "wide": "decimal(38,0)",
    "m": "money",
    "x": "float",
    "r": "real",
    "f": "bit",
    "name": "nvarchar(50)",
    "code": "varchar(9)",
    "u": "uniqueidentifier",
    "d": "date",
    "ts": "datetime2(7)",
    "short": "datetime2(0)",
    "tz": "datetimeoffset(7)",
    "tm": "time(7)",
    "dt": "datetime",
    "b": "varbinary(max)",
    "a]": "int",
}
BIN = "COLLATE Latin1_General_100_BIN2"
ID = "12345678-1234-1234-1234-123456789abc"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("QTY > 0", "([qty] > 0)"),
        ("((qty != -1) AND (NOT f))", "(([qty] <> (-1)) AND (NOT ([f] = 1)))"),
        ("qty IS NULL OR n >= 1.50", "(([qty] IS NULL) OR ([n] >= 1.50))"),
        ("NOT (b IS NULL)", "([b] IS NOT NULL)"),
        ("i IN (1, 2)", "(([i] = 1) OR ([i] = 2))"),
        ("n BETWEEN 1 AND 2.5", "(([n] >= 1) AND ([n] <= 2.5))"),
        ("(n * 2) - 1 < m", "((([n] * 2) - 1) < [m])"),
        ("i + sm > 0", "(([i] + [sm]) > 0)"),
        ("x > 0.1 AND x < -5", "(([x] > 0.1E0) AND ([x] < (-5E0)))"),
        ("r > 0.1", "([r] > 0.1)"),
        ("f = CAST('t' AS BOOLEAN)", "([f] = 1)"),
        ("f <> false", "([f] <> 0)"),
        ("CAST('f' AS BOOLEAN)", "(0 = 1)"),
        ("d > '2020-01-02'", "([d] > CONVERT(date, N'2020-01-02', 23))"),
        (
            "ts < CAST('2020-01-02 10:00:00.5' AS TIMESTAMP)",
            "([ts] < CONVERT(datetime2(7), N'2020-01-02T10:00:00.500000', 126))",
        ),
        (
            "tz < CAST('2020-01-02 10:00:00+01' AS TIMESTAMP WITH TIME ZONE)",
            "([tz] < CONVERT(datetimeoffset(7), N'2020-01-02T10:00:00+01:00'))",
        ),
        ("tm < CAST('10:00' AS TIME)", "([tm] < CONVERT(time(7), N'10:00:00'))"),
        (f"u <> '{ID}'", f"([u] <> CONVERT(uniqueidentifier, N'{ID}'))"),
        ("qty > CAST(5 AS BIGINT)", "([qty] > 5)"),
        ('"a]" > 0', "([a]]] > 0)"),
        (
            "name = 'it''s'",
            f"([name] {BIN} = N'it''s' {BIN} AND DATALENGTH([name]) = DATALENGTH(N'it''s'))",
        ),
        (
            "name <> CAST('b' AS VARCHAR)",
            f"([name] {BIN} <> N'b' {BIN} OR DATALENGTH([name]) <> DATALENGTH(N'b'))",
        ),
        (
            "code = 'b'",
            f"(CONVERT(nvarchar(max), [code]) {BIN} = N'b' {BIN} AND "
            "DATALENGTH(CONVERT(nvarchar(max), [code])) = DATALENGTH(N'b'))",
        ),
    ],
)
def test_checks_in_t_sql(given, made):
    assert check(given, COLUMNS) == made


@pytest.mark.parametrize(
    ("given", "piece"),
    [
        ("length(name) > 1", "LENGTH(name)"),
        ("qty / 2 > 1", "qty / 2"),
        ("qty % 2 = 0", "qty % 2"),
        ("name > 'a'", "name > 'a'"),
        ("name BETWEEN 'a' AND 'b'", "name BETWEEN 'a' AND 'b'"),
        ("f = (qty > 0)", "qty > 0"),
        ("f > true", "f > TRUE"),
        ("f IS TRUE", "f IS TRUE"),
        ("name LIKE 'a%'", "name LIKE 'a%'"),
        ("b = CAST('x' AS BLOB)", "CAST('x' AS BLOB)"),
        ("n > x", "n > x"),
        ("r > qty", "r > qty"),
        ("tz > '2020-01-01'", "tz > '2020-01-01'"),
        ("d > 'yesterday'", "d > 'yesterday'"),
        ("d > '2020-02-30'", "d > '2020-02-30'"),
        ("qty = NULL", "NULL"),
        ("CAST(qty AS VARCHAR) = '1'", "CAST(qty AS TEXT)"),
        ("TRY_CAST('t' AS BOOLEAN)", "TRY_CAST('t' AS BOOLEAN)"),
        ("CAST(1.5 AS INTEGER) = i", "CAST(1.5 AS INT)"),
        ("CAST('x' AS DATE) = d", "CAST('x' AS DATE)"),
        (f"u < '{ID}'", f"u < '{ID}'"),
        ("wide < 0.5", "wide < 0.5"),
        ("wide * n > 1", "wide * n"),
        ("x + 1 > 0", "x + 1"),
        ("-qty > 0", "-qty"),
        ("- -1 > qty", "- -1"),
        ("qty > 1e3", "1e3"),
        (f"qty > {'9' * 39}", "9" * 39),
        ("nope > 0", "nope"),
        ("t.qty > 0", "t.qty"),
        ("qty", "qty"),
        ("i IN (SELECT 1)", "i IN"),
        ("dt > CAST('2020-01-01' AS TIMESTAMP)", "dt >"),
        ("name = 'a' COLLATE nocase", "COLLATE"),
    ],
)
def test_what_is_not_certain_is_refused_by_name(given, piece):
    with pytest.raises(NotSupported) as caught:
        check(given, COLUMNS)
    assert piece in str(caught.value)
    assert "create the constraint in SQL Server" in str(caught.value)


def test_what_cannot_be_parsed_is_refused():
    with pytest.raises(NotSupported, match="cannot be translated"):
        check("((", COLUMNS)
    with pytest.raises(NotSupported, match=r"x{50}\.\.\."):
        check("x" * 200, COLUMNS)


@pytest.mark.parametrize("text", ["qty > 1 {# OR f #}", "qty > {% f %} 1", "qty > 1 OR {{ f }}"])
def test_what_sqlglot_would_take_for_a_template_is_refused(text):
    with pytest.raises(NotSupported, match="braces"):
        check(text, COLUMNS)
    with pytest.raises(NotSupported, match="braces"):
        default(text, "uniqueidentifier", "u")
    assert not is_cast_of("qty {# + 1 #}", "qty", "BIGINT")


def test_long_chains_are_read_and_deep_ones_refused():
    """Longer than Python calls itself."""
    many = " OR ".join(f"[i]=({number})" for number in range(1100))
    assert (constraint_reader.check(f"({many})", COLUMNS) or "").count(" OR ") == 1099
    assert check(" OR ".join(["i = 1"] * 1100), COLUMNS).count(" OR ") == 1099
    deep = "i = 1 AND (i = 2 OR (" * 60 + "i = 3" + "))" * 60
    with pytest.raises(NotSupported):
        check(deep, COLUMNS)


@pytest.mark.parametrize("clock", ["now()", "current_timestamp", "get_current_timestamp()"])
def test_the_clock_is_a_default_of_a_moment_with_a_zone(clock):
    assert default(clock, "datetimeoffset(7)", "a") == "SYSDATETIMEOFFSET()"
    with pytest.raises(NotSupported, match=r"column 'a'.* in SQL Server"):
        default(clock, "datetime2(7)", "a")


def test_random_ids_are_defaults():
    for call in ("uuid()", "gen_random_uuid()", "uuidv4()"):
        assert default(call, "uniqueidentifier", "a") == "NEWID()"
    with pytest.raises(NotSupported):
        default("uuidv7()", "uniqueidentifier", "a")
    with pytest.raises(NotSupported):
        default("uuid()", "nvarchar(max)", "a")


@pytest.mark.parametrize(
    ("expression", "kind", "found"),
    [
        ("CAST(X AS INTEGER)", "INTEGER", True),
        ("(x)::DECIMAL(10,2)", "DECIMAL(10,2)", True),
        ("x", "VARCHAR", True),
        ("CAST(x AS BIGINT)", "INTEGER", False),
        ("TRY_CAST(x AS INTEGER)", "INTEGER", False),
        ("CAST(y AS INTEGER)", "INTEGER", False),
        ("CAST(x + 1 AS INTEGER)", "INTEGER", False),
        ("((", "INTEGER", False),
    ],
)
def test_plain_casts_of_a_column(expression, kind, found):
    assert is_cast_of(expression, "x", kind) is found


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("([qty]>(0))", '("qty" > 0)'),
        ("([qty]>(0) AND NOT [i]=(-5))", '(("qty" > 0) AND (NOT ("i" = -5)))'),
        ("([qty] IS NULL OR [b] IS NOT NULL)", '(("qty" IS NULL) OR ("b" IS NOT NULL))'),
        ("((0)<[n])", '(0 < "n")'),
        ("([i]+(1)>[qty])", '(("i" + 1) > "qty")'),
        ("([f]=(1))", '("f" = TRUE)'),
        ("([x]>(1.0e-001))", '("x" > 1.0e-001)'),
        ("([a]]]>(0))", '("a]" > 0)'),
        ("([d]>CONVERT([date],N'2020-01-01',(23)))", "(\"d\" > CAST('2020-01-01' AS DATE))"),
        ("([d]>CAST(N'2020-01-01' AS date))", "(\"d\" > CAST('2020-01-01' AS DATE))"),
        ("([tm]<'10:00:00')", "(\"tm\" < CAST('10:00:00' AS TIME))"),
        # In these DuckDB would be another judge than SQL Server.
        ("([name]=N'a')", None),
        ("([name] like N'a%')", None),
        ("(len([name])>(1))", None),
        ("([sm]+(1)>(0))", None),
        ("([i]+(3000000000.)>(0))", None),
        ("([n]*(2)>(0))", None),
        ("([wide]<(0.5))", None),
        ("([f]=(2))", None),
        ("([short]>='2020-01-01')", None),
        ("([ts]>=CONVERT([datetime2](0),N'2020-01-01T00:00:00.5'))", None),
        ("([d]>CONVERT([varchar](4),'2020-01-01'))", None),
        ("([d]>'01/02/2020')", None),
        ("([dt]>'2020-01-01')", None),
        (f"([u]<'{ID}')", None),
        ("([qty]>N'5')", None),
        ("((1)=(1))", None),
        ("([nope]>(0))", None),
        ("((([i]", None),
        ("([i] IS NULL IS NULL)", None),
    ],
)
def test_checks_that_clients_may_judge(given, shown):
    assert constraint_reader.check(given, COLUMNS) == shown


@pytest.mark.parametrize(
    ("given", "kind", "shown"),
    [
        ("((5))", "int", "5"),
        ("((-5.))", "bigint", "-5"),
        ("((5.5))", "int", None),
        ("((1))", "bit", "TRUE"),
        ("(N'it''s')", "nvarchar(9)", "'it''s'"),
        ("('x')", "char(3)", "'x'"),
        ("((5))", "nvarchar(9)", None),
        ("(N'5')", "int", None),
        ("((1.50))", "decimal(10,2)", "1.50"),
        ("((1.555))", "decimal(10,2)", None),
        ("((-1.0e+003))", "float", "-1.0e+003"),
        ("(N'1')", "float", None),
        ("('2020-01-01')", "date", "CAST('2020-01-01' AS DATE)"),
        ("('2020-01-01')", "datetime", None),
        ("('2020-01-01T10:00:00.5')", "datetime2(0)", None),
        ("(0x4142)", "varbinary(9)", "CAST('\\x41\\x42' AS BLOB)"),
        ("(0x1)", "binary(9)", "CAST('\\x01' AS BLOB)"),
        ("(NULL)", "int", None),
        ("(getdate())", "datetime2(7)", None),
        ("(newid())", "uniqueidentifier", None),
        ("(suser_sname())", "nvarchar(9)", None),
        ("(NEXT VALUE FOR [dbo].[s])", "int", None),
        ("((", "int", None),
    ],
)
def test_defaults_that_clients_may_fill_in(given, kind, shown):
    assert constraint_reader.default(given, kind) == shown


def test_kinds_of_types():
    assert kind_of("decimal") == Kind("decimal", "decimal", 18)
    assert kind_of("datetime2") == Kind("datetime2", "timestamp", scale=7)
    assert kind_of("no type at all").family == "other"
    assert canonical_constant("2020-01-01 10:00:00 +01:00", "zoned") == "2020-01-01T10:00:00+01:00"
    assert canonical_constant("5", "whole") is None


@pytest.mark.parametrize(
    ("old", "new", "possible"),
    [
        ("int", "bigint", True),
        ("int", "nvarchar(max)", True),
        ("decimal(10,2)", "nvarchar(max)", True),
        ("money", "nvarchar(max)", False),
        ("bit", "nvarchar(max)", False),
        ("uniqueidentifier", "nvarchar(max)", False),
        ("float", "decimal(10,2)", False),
        ("varbinary(max)", "varbinary(9)", True),
        ("nvarchar(max)", "varbinary(max)", False),
        ("date", "datetime2(7)", True),
    ],
)
def test_types_change_where_both_servers_convert_alike(old, new, possible):
    assert (change_condition(old, new) is not None) is possible
