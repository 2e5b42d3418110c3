"""Connection strings and addresses of SQL Server, as scripts for other tools write them."""

import pytest

from jetbridge.backends.mssql.address import Address, parse
from jetbridge.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (
            "Server=db,1433;Database=sales;User Id=loader;Password=p;w",
            None,
        ),
        (
            "Server=db,1433;Database=sales;User Id=loader;Password={p;w}}x}",
            Address("db,1433", "sales", "loader", "p;w}x"),
        ),
        (
            " Data Source = db ; Initial Catalog = s ; UID=u;PWD=p;Encrypt=False;"
            "TrustServerCertificate=True;",
            Address("db", "s", "u", "p", "no", trust=True),
        ),
        ("mssql://u@db:1444/sales", Address("db,1444", "sales", "u")),
        (
            "mssql://u%40x:p%2Fw@db/s?encrypt=strict",
            Address("db,1433", "s", "u@x", "p/w", "strict"),
        ),
    ],
)
def test_text_is_read(text, address):
    if address is None:
        with pytest.raises(BadRequest, match="NAME=VALUE"):
            parse(text)
    else:
        assert parse(text) == address


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Server=db", "Server and Database"),
        ("Server=db;Database=s;Colour=red", "'Colour'"),
        ("Server=db;Database={s", "without its }"),
        ("Server=db;Database=s;Encrypt=maybe", "yes, no, strict"),
        ("Server=db;Database=s;TrustServerCertificate=perhaps", "yes or no"),
        ("postgres://u@db/s", "mssql://"),
        ("mssql://u@db:port/s", "number"),
        ("mssql:///s", "Server and Database"),
    ],
)
def test_other_text_is_refused(text, problem):
    with pytest.raises(BadRequest, match=problem):
        parse(text)


def test_values_of_the_driver_text_are_braced():
    address = Address("db", "s;x", "u", "p}w")
    text = address.for_odbc()
    assert text.startswith("Server={db};Database={s;x};UID={u};PWD={p}}w}")


def test_password_is_not_shown():
    address = Address("db", "s", "u", "secret-word")
    assert "secret-word" not in repr(address)
    assert address.title() == "db/s"
