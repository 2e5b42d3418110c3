"""What clients are told of a table of SQL Server."""

import pyarrow as pa

from jetbridge.backends.mssql.metadata.catalog_views import (
    TableDescription,
    for_clients,
    is_filled_by_server,
)
from jetbridge.backends.mssql.types import ServerColumn


def column(name, kind="int", **more):
    return ServerColumn(name, kind, 8, 10, 0, more.pop("nullable", False), **more)


def described(*columns, checks=()):
    return TableDescription("dbo", "t", 1, "now", False, columns, (), checks)


def test_checks_and_defaults_are_shown_in_the_spelling_of_duckdb():
    table = described(column("A", default="((5))"), checks=("([A]>(0))",))
    assert for_clients(table) == (("(A > 0)",), {"A": "5"})


def test_what_duckdb_would_judge_otherwise_is_left_out():
    table = described(
        column("s", "nvarchar", default="(N'a')"),
        column("d", "date", default="(getdate())"),
        column("i", default="((99999999999))"),
        checks=("([s]=N'a')", "(len([s])>(1))", "([d] IS NOT NULL)"),
    )
    checks, defaults = for_clients(table)
    assert checks == ("(d IS NOT NULL)",)
    assert defaults == {"s": "'a'"}


def test_a_check_that_is_too_long_for_duckdb_is_left_out():
    many = " OR ".join(f"[i]=({number})" for number in range(3000))
    assert for_clients(described(column("i"), checks=(f"({many})",))) == ((), {})


def test_what_the_server_fills_in_may_be_null_for_clients():
    columns = (
        column("plain"),
        column("shown", default="((1))"),
        column("hidden", "uniqueidentifier", default="(newid())"),
        column("identity", identity=True),
        column("computed", computed=True),
        column("version", "timestamp"),
        column("optional", nullable=True),
    )
    assert [each.name for each in columns if is_filled_by_server(each)] == [
        "hidden",
        "identity",
        "computed",
        "version",
    ]
    schema = described(*columns).info(None).schema
    assert [each.name for each in schema if not each.nullable] == ["plain", "shown"]
    assert schema.field("shown").metadata == {b"default": b"1"}
    assert schema.field("version").type == pa.binary()
