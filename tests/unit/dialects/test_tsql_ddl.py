"""T-SQL of DDL, piece by piece."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest

from jetbridge.dialects.tsql import ddl
from jetbridge.errors import BadRequest


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "1"),
        (5, "5"),
        (-5, "(-5)"),
        (0.1, "0.1E0"),
        (-1e300, "(-1e+300)"),
        (Decimal("-1.50"), "(-1.50)"),
        (Decimal("1E+3"), "1000"),
        ("it's", "N'it''s'"),
        (b"\x0a\xff", "0x0AFF"),
        (date(2020, 1, 2), "N'2020-01-02'"),
        (datetime(2020, 1, 2, 3, 4, 5), "N'2020-01-02T03:04:05'"),
        (datetime(2020, 1, 2, tzinfo=UTC), "N'2020-01-02T00:00:00+00:00'"),
        (time(3, 4, 5, 6), "N'03:04:05.000006'"),
        (UUID(int=1), "N'00000000-0000-0000-0000-000000000001'"),
    ],
)
def test_constants(value, written):
    assert ddl.constant(value) == written


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), [1]])
def test_values_that_are_no_constants(value):
    with pytest.raises(BadRequest, match="SQL Server has no"):
        ddl.constant(value)


def test_columns_and_keys():
    assert ddl.column("a]", "int", required=True) == "[a]]] int NOT NULL"
    made = ddl.column("a", "int", required=False, default="5", fill_existing=True)
    assert made == "[a] int NULL DEFAULT 5 WITH VALUES"
    assert ddl.key(["a", "b"], primary=True, nonclustered=True) == (
        "PRIMARY KEY NONCLUSTERED ([a], [b])"
    )
    assert ddl.recreate_key([("a", True), ("b", False)], primary=False, clustered=True) == (
        "UNIQUE CLUSTERED ([a] DESC, [b])"
    )
    kept = ddl.recreate_key([("a", False)], primary=True, clustered=False, ignore_duplicates=True)
    assert kept == "PRIMARY KEY NONCLUSTERED ([a]) WITH (IGNORE_DUP_KEY = ON)"


def test_altering():
    assert ddl.add("dbo", "t", "CHECK (1 = 1)", name="c", trusted=False) == (
        "ALTER TABLE [dbo].[t] WITH NOCHECK ADD CONSTRAINT [c] CHECK (1 = 1)"
    )
    assert ddl.disable_constraint("dbo", "t", "c") == "ALTER TABLE [dbo].[t] NOCHECK CONSTRAINT [c]"
    made = ddl.alter_column(
        "dbo", "t", "a", "nvarchar(9)", required=True, collation="Latin1_General_BIN2"
    )
    assert made == (
        "ALTER TABLE [dbo].[t] ALTER COLUMN [a] nvarchar(9) COLLATE Latin1_General_BIN2 NOT NULL"
    )
    assert ddl.rename_column("dbo", "t", "a'", "b'") == (
        "EXEC sp_rename N'[dbo].[t].[a'']', N'b''', N'COLUMN'"
    )
    with pytest.raises(BadRequest):
        ddl.rename_column("dbo", "t", "a", "b" * 129)


def test_a_violation_of_no_column_is_a_row_as_well():
    assert ddl.find_violation("dbo", "t", "1 = 0", []) == (
        "SELECT TOP (1) 1 FROM [dbo].[t] WHERE NOT (1 = 0)"
    )


DEFINITION = "([Qty]>(0) AND [dbo].[f]([a]]b])=N'[no]''[no]' AND [x]=CONVERT([date],'2020',(23)))"


def test_columns_of_a_definition():
    assert ddl.columns_in(DEFINITION) == {"qty", "a]b", "x"}
    assert ddl.columns_in("CAST([a] AS [date])") == {"a"}


def test_a_column_of_a_definition_gets_another_name():
    assert ddl.rename_column_in("([Qty]>(0) OR [q]='[qty]')", "qty", "a]") == (
        "([a]]]>(0) OR [q]='[qty]')"
    )
    assert ddl.rename_column_in(DEFINITION, "no", "yes") == DEFINITION
