"""Types of the engine: what goes in, what comes out, how it compares."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    columns,
    connected,
    engine_of_a_module,
    fresh,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import Parameter, SqlType

engine = pytest.fixture(scope="module")(engine_of_a_module)
MOMENT = datetime(2024, 2, 29, 13, 14, 15, 123456)
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.fixture(scope="module")
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    yield made
    made.close()


# The type, a literal, and the value that comes back.
VALUES = [
    ("bit", "1", True),
    ("bit", "'true'", True),
    ("bit", "0", False),
    ("tinyint", "255", 255),
    ("smallint", "-32768", -32768),
    ("int", "2147483647", 2**31 - 1),
    ("bigint", "-9223372036854775808", -(2**63)),
    ("real", "1.5", 1.5),
    ("float", "1e300", 1e300),
    ("float", "'2.5'", 2.5),
    ("decimal(38, 10)", "1234567890123456789012345678.0123456789",
     Decimal("1234567890123456789012345678.0123456789")),
    ("decimal(5, 2)", "1.005", Decimal("1.01")),
    ("decimal(5, 2)", "-7", Decimal("-7.00")),
    ("money", "12.34567", Decimal("12.3457")),
    ("smallmoney", "-1.5", Decimal("-1.5000")),
    ("char(5)", "'ab'", "ab   "),
    ("nchar(3)", "N'ä'", "ä  "),
    ("varchar(10)", "N'grün€漢'", "grün€?"),
    ("nvarchar(10)", "N'漢字😀'", "漢字😀"),
    ("nvarchar(max)", "N''", ""),
    ("varchar(max)", "'x'", "x"),
    ("text", "'long'", "long"),
    ("binary(4)", "0xAB", b"\xab\0\0\0"),
    ("varbinary(4)", "0xAB", b"\xab"),
    ("varbinary(max)", "0x", b""),
    ("uniqueidentifier", "'00112233-4455-6677-8899-AABBCCDDEEFF'", GUID),
    ("uniqueidentifier", "N'{00112233-4455-6677-8899-aabbccddeeff}'", GUID),
    ("date", "'2024-02-29'", date(2024, 2, 29)),
    ("date", "'20240229'", date(2024, 2, 29)),
    ("date", "'0001-01-01'", date(1, 1, 1)),
    ("time(7)", "'13:14:15.1234567'", time(13, 14, 15, 123456)),
    ("time(3)", "'13:14:15.1236'", time(13, 14, 15, 124000)),
    ("time(0)", "'13:14:15.5'", time(13, 14, 16)),
    ("datetime2(7)", "'2024-02-29 13:14:15.1234567'", MOMENT),
    ("datetime2(3)", "'2024-02-29T13:14:15.1236'", datetime(2024, 2, 29, 13, 14, 15, 124000)),
    ("datetime2(0)", "'1969-12-31 23:59:59.5'", datetime(1970, 1, 1)),
    ("datetime2(7)", "'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("datetime", "'2024-02-29 13:14:15.001'", datetime(2024, 2, 29, 13, 14, 15)),
    ("datetime", "'2024-02-29 13:14:15.002'", datetime(2024, 2, 29, 13, 14, 15, 3000)),
    ("datetime", "'2024-02-29 13:14:15.005'", datetime(2024, 2, 29, 13, 14, 15, 7000)),
    ("datetime", "'2024-02-29 13:14:15.999'", datetime(2024, 2, 29, 13, 14, 16)),
    ("smalldatetime", "'2024-02-29 13:14:31'", datetime(2024, 2, 29, 13, 15)),
    ("datetimeoffset(7)", "'2024-02-29 13:14:15.1234567 +02:00'",
     datetime(2024, 2, 29, 11, 14, 15, 123456, tzinfo=UTC)),
]  # fmt: skip


def test_values_come_back_as_their_types_hold_them(session):
    heads = ", ".join(f"c{at} {kind} NULL" for at, (kind, _, _) in enumerate(VALUES))
    run(session, f"CREATE TABLE stored ({heads})")
    run(session, f"INSERT INTO stored VALUES ({', '.join(text for _, text, _ in VALUES)})")
    run(session, "INSERT INTO stored (c0) VALUES (NULL)")
    found, nulls = rows(
        session, "SELECT * FROM stored ORDER BY CASE WHEN c0 IS NULL THEN 1 ELSE 0 END"
    )
    assert list(found) == [wanted for _, _, wanted in VALUES]
    assert set(nulls) == {None}


def test_casts_give_the_same_as_storing(session):
    listed = ", ".join(f"CAST({text} AS {kind})" for kind, text, _ in VALUES if kind != "text")
    (found,) = rows(session, f"SELECT {listed}")
    assert list(found) == [wanted for kind, _, wanted in VALUES if kind != "text"]


def test_columns_are_described_as_they_were_declared(session):
    run(
        session,
        "CREATE TABLE described (a nvarchar(50) NOT NULL, b decimal(9, 2), c"
        " datetime2(3), d varchar(max), e int IDENTITY, f float(20), g char(7))",
    )
    found = columns(session, "SELECT * FROM described")
    assert [(each.name, each.type, each.nullable, each.identity) for each in found] == [
        ("a", SqlType("nvarchar", 50), False, False),
        ("b", SqlType("decimal", None, 9, 2), True, False),
        ("c", SqlType("datetime2", None, None, 3), True, False),
        ("d", SqlType("varchar"), True, False),
        ("e", SqlType("int"), False, True),
        ("f", SqlType("real"), True, False),
        ("g", SqlType("char", 7), True, False),
    ]


def test_outer_joins_make_columns_nullable(session):
    run(session, "CREATE TABLE j1 (a int NOT NULL); CREATE TABLE j2 (b int NOT NULL)")
    nullable = {
        "JOIN": [False, False],
        "LEFT JOIN": [False, True],
        "RIGHT JOIN": [True, False],
        "FULL JOIN": [True, True],
    }
    for join, wanted in nullable.items():
        found = columns(session, f"SELECT a, b FROM j1 {join} j2 ON a = b")
        assert [each.nullable for each in found] == wanted, join


PARAMETERS = [
    (SqlType("bit"), True),
    (SqlType("tinyint"), 7),
    (SqlType("bigint"), 2**40),
    (SqlType("float"), 0.1),
    (SqlType("decimal", None, 10, 3), Decimal("1.125")),
    (SqlType("nvarchar", 20), "grüße 漢'"),
    (SqlType("nvarchar"), "x" * 5000),
    (SqlType("varbinary", 8), b"\x00\xff"),
    (SqlType("uniqueidentifier"), GUID),
    (SqlType("date"), date(2024, 2, 29)),
    (SqlType("time", None, None, 7), time(1, 2, 3, 4)),
    (SqlType("datetime2", None, None, 6), MOMENT),
    (SqlType("datetimeoffset", None, None, 7), MOMENT.replace(tzinfo=timezone(timedelta(hours=2)))),
    (SqlType("int"), None),
    (SqlType("nvarchar", 5), None),
]


def test_parameters_come_back(session):
    given = [Parameter(f"@P{at}", kind, each) for at, (kind, each) in enumerate(PARAMETERS)]
    (found,) = rows(session, f"SELECT {', '.join(each.name for each in given)}", *given)
    assert list(found) == [each for _, each in PARAMETERS]


def test_variables_keep_their_types(session):
    (found,) = rows(
        session,
        "DECLARE @a nvarchar(3) = N'abcdef', @d decimal(5, 1) = 2.25, @t datetimeoffset"
        " = '2024-01-01 00:00 +01:00',"
        " @g uniqueidentifier = '00112233-4455-6677-8899-aabbccddeeff', @n int;"
        " SELECT @a, @d, @t, @g, @n",
    )
    assert found == ("abc", Decimal("2.3"), datetime(2023, 12, 31, 23, tzinfo=UTC), GUID, None)


EXPRESSIONS = [
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("-7 % 3", -1),
    ("7.0 / 2", Decimal("3.500000")),
    ("1 + 1.5", Decimal("2.5")),
    ("1.5 * 1.5", Decimal("2.25")),
    ("2 * 1e0", 2.0),
    ("'a' + N'b'", "ab"),
    ("5 & 3", 1),
    ("5 | 3", 7),
    ("5 ^ 3", 6),
    ("~5", -6),
    ("CAST(200 AS tinyint) + CAST(50 AS tinyint)", 250),
    ("2147483648", Decimal(2147483648)),
    ("CAST(1.9 AS int)", 1),
    ("CAST(-1.9 AS int)", -1),
    ("CAST('  12 ' AS int)", 12),
    ("CAST('' AS int)", 0),
    ("CAST(1e0 AS varchar(10))", "1"),
    ("CAST(5 AS nvarchar(5))", "5"),
    ("CAST(CAST('2024-02-29' AS date) AS varchar(20))", "2024-02-29"),
    (
        "CONVERT(varchar(30), CAST('2024-02-29 13:14:15.123' AS datetime), 121)",
        "2024-02-29 13:14:15.123",
    ),
    (
        "CONVERT(varchar(30), CAST('2024-02-29 13:14:15.1234567' AS datetime2(7)), 126)",
        "2024-02-29T13:14:15.1234560",
    ),
    ("CONVERT(varchar(8), CAST('2024-02-29' AS date), 112)", "20240229"),
    ("CAST(CAST('2024-02-09 01:04' AS datetime) AS varchar(30))", "Feb  9 2024  1:04AM"),
    (
        "CAST(CAST('00112233-4455-6677-8899-aabbccddeeff' AS uniqueidentifier) AS char(36))",
        str(GUID).upper(),
    ),
    ("TRY_CAST('x' AS int)", None),
    ("TRY_CONVERT(int, '5')", 5),
    ("CONVERT(varbinary(4), 258)", b"\0\0\x01\x02"),
    ("CONVERT(varchar(10), 0xAB, 1)", "0xAB"),
    ("CONVERT(varbinary(2), '0xAB01', 1)", b"\xab\x01"),
    ("CAST('abcdef' AS varchar(3))", "abc"),
    ("ISNULL(CAST(NULL AS varchar(2)), 'abc')", "ab"),
    ("COALESCE(NULL, 1, 2.5)", Decimal("1.0")),
    ("NULLIF(1, 1)", None),
    ("IIF(1 = 1, 'y', 'n')", "y"),  # codespell:ignore
    ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
    ("CASE WHEN 1 = 2 THEN 1 END", None),
    ("LEN(N'ab😀  ')", 4),
    ("DATALENGTH(N'ab ')", 6),
    ("DATALENGTH('ab ')", 3),
    ("DATALENGTH(0xABCD)", 2),
    ("LEFT('abc', 2) + RIGHT('abc', 1)", "abc"),
    ("SUBSTRING('abcdef', 2, 3)", "bcd"),
    ("CHARINDEX('C', 'abc')", 3),
    ("CHARINDEX('a', 'abca', 2)", 4),
    ("REPLACE('aXa', 'X', 'b')", "aba"),
    ("UPPER('ä') + LOWER('Ä')", "Ää"),
    ("LTRIM('  a') + RTRIM('b  ') + TRIM(' c ')", "abc"),
    ("REPLICATE('ab', 3)", "ababab"),
    ("QUOTENAME('a]b')", "[a]]b]"),
    ("QUOTENAME('it''s', '''')", "'it''s'"),
    ("CONCAT('a', NULL, 1, N'ä')", "a1ä"),
    ("ABS(-5)", 5),
    ("ROUND(2.567, 1)", Decimal("2.600")),
    ("FLOOR(2.7)", Decimal("2.0")),
    ("DATEADD(month, 1, CAST('2024-01-31' AS date))", date(2024, 2, 29)),
    ("DATEADD(ms, 5, CAST('2024-01-01' AS datetime2(3)))", datetime(2024, 1, 1, 0, 0, 0, 5000)),
    ("DATEDIFF(day, '2024-01-01', '2024-03-01')", 60),
    ("DATEDIFF(year, '2023-12-31', '2024-01-01')", 1),
    ("DATEPART(weekday, CAST('2024-02-29' AS date))", 5),
    ("YEAR('2024-02-29') * 100 + MONTH('2024-02-29')", 202402),
    ("EOMONTH('2024-02-01')", date(2024, 2, 29)),
    ("DATEFROMPARTS(2024, 2, 29)", date(2024, 2, 29)),
    ("CAST('2024-01-01' AS datetime) + 1", datetime(2024, 1, 2)),
    ("CAST(N'ä€' AS varbinary(max))", "ä€".encode("utf-16-le")),
    ("CAST('ä€' AS varbinary(max))", "ä€".encode("cp1252")),
    ("CAST(0x6100E400 AS nvarchar(5))", "aä"),
]


@pytest.mark.parametrize(
    ("text", "wanted"), EXPRESSIONS, ids=[each[0][:50] for each in EXPRESSIONS]
)
def test_expressions(session, text, wanted):
    found = value(session, f"SELECT {text}")
    assert found == wanted
    assert type(found) is type(wanted)


def test_clocks_are_near_each_other(session):
    (found,) = rows(
        session, "SELECT GETDATE(), SYSUTCDATETIME(), SYSDATETIMEOFFSET(), CURRENT_TIMESTAMP"
    )
    now = datetime.now(UTC)
    for each in found:
        moment = each if each.tzinfo else each.replace(tzinfo=UTC)
        assert abs((now - moment).total_seconds()) < 60


def test_new_ids_differ(session):
    (found,) = rows(session, "SELECT NEWID(), NEWID()")
    assert found[0] != found[1]


TRUE = [
    "'a' = 'A'",
    "'a' = 'a   '",
    "N'ä' = N'Ä'",
    "'a' < 'B'",
    "'B' > 'a'",
    "'e' < N'é' AND N'é' < 'f'",
    "'abc' LIKE 'A%'",
    "'a_c' LIKE 'a[_]c' AND NOT 'abc' LIKE 'a[_]c'",
    "'50%' LIKE '50!%' ESCAPE '!'",
    "'b' LIKE '[a-c]' AND 'd' LIKE '[^a-c]'",
    "'a' IN ('B', 'A')",
    "'a' NOT IN ('b')",
    "'abc' NOT LIKE 'x%'",
    "'b' BETWEEN 'A' AND 'C'",
    "'a' COLLATE Latin1_General_BIN2 <> 'A'",
    "'B' COLLATE Latin1_General_BIN2 < 'a'",
    "N'a' COLLATE Latin1_General_100_BIN2_UTF8 = N'a '",
    "'1' = 1",
    "CAST('2024-01-01' AS date) = '20240101'",
    "1 = 1.0",
    "1 = 1",
    "CAST('00000000-0000-0000-0000-010000000000' AS uniqueidentifier) >"
    " CAST('FF000000-0000-0000-0000-000000000000' AS uniqueidentifier)",
    "CAST('00000000-0000-0100-0000-000000000000' AS uniqueidentifier) <"
    " CAST('00000000-0000-0001-0000-000000000000' AS uniqueidentifier)",
    "EXISTS (SELECT 1)",
    "1 IN (SELECT x FROM (VALUES (1), (2)) v(x))",
    "'A' IN (SELECT 'a')",
    "NULL IS NULL",
    "1 IS NOT NULL",
    "1 IS NOT DISTINCT FROM 1",
    "0xAB = 0xAB",
]


@pytest.mark.parametrize("predicate", TRUE)
def test_what_is_true(session, predicate):
    assert value(session, f"SELECT CASE WHEN {predicate} THEN 1 ELSE 0 END") == 1


@pytest.mark.parametrize(
    "predicate",
    ["'a' = 'b'", "NULL = NULL", "'a' LIKE 'b%'", "N'é' = N'e'", "'A' COLLATE"
            " Latin1_General_BIN2 = 'a'",
     "1 IN (2, NULL)", "NOT 1 IN (2, NULL)", "'ab' LIKE 'a'", "0xAB = 0xAC"],
)  # fmt: skip
def test_what_is_not_true(session, predicate):
    assert value(session, f"SELECT CASE WHEN {predicate} THEN 1 ELSE 0 END") == 0


def test_groups_and_sets_know_no_case(session):
    source = "(VALUES ('a'), ('A '), ('b')) v(x)"
    assert sorted(
        row[1] for row in rows(session, f"SELECT x, COUNT(*) FROM {source} GROUP BY x")
    ) == [1, 2]
    assert len(rows(session, f"SELECT DISTINCT x FROM {source}")) == 2
    assert value(session, f"SELECT COUNT(DISTINCT x) FROM {source}") == 2
    assert len(rows(session, f"SELECT x FROM {source} UNION SELECT 'B'")) == 2
    assert rows(session, f"SELECT x FROM {source} EXCEPT SELECT 'A'") == [("b",)]
    assert rows(session, "SELECT MIN(x), MAX(x) FROM (VALUES ('b'), ('A'), ('C')) v(x)") == [
        ("A", "C")
    ]


def test_a_column_has_its_own_collation(session):
    run(
        session,
        "CREATE TABLE collated (k varchar(5) COLLATE Latin1_General_BIN2 PRIMARY KEY, v"
        " varchar(5))",
    )
    run(session, "INSERT INTO collated VALUES ('a', 'x'), ('A', 'y')")
    assert rows(session, "SELECT v FROM collated WHERE k = 'A'") == [("y",)]
    assert rows(session, "SELECT k FROM collated ORDER BY k") == [("A",), ("a",)]
    assert rows(session, "SELECT k FROM collated WHERE v = 'X'") == [("a",)]
    assert refused(session, "INSERT INTO collated VALUES ('A', 'z')").number == 2627


def test_the_order_of_uniqueidentifiers_is_that_of_sql_server(session):
    given = [
        "01000000-0000-0000-0000-000000000000",
        "00000000-0000-0000-0100-000000000000",
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-010000000000",
    ]
    listed = ", ".join(f"(CAST('{each}' AS uniqueidentifier))" for each in reversed(given))
    found = rows(session, f"SELECT x FROM (VALUES {listed}) v(x) ORDER BY x")
    assert [str(row[0]) for row in found] == given
