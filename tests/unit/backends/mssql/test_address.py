"""Connection strings and addresses of SQL Server, as scripts for other tools write them."""

import pytest

from jetbridge.backends.mssql.address import Address, is_url, parse
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
        ("mssql://u@db/s?colour=red", "encrypt and trustservercertificate"),
    ],
)
def test_other_text_is_refused(text, problem):
    with pytest.raises(BadRequest, match=problem):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "Server=db;Database=s;Password=a;hunter2;Encrypt=no",
        "Server=db;Database=s;Password=a;hunter2=x",
        "Server=db;Password={hunter2",
        "Server=db;Password=hunter2",
        "Server=db;Database=s;Password=hunter2;Encrypt=maybe",
        "mssql://u:hunter2[@db/s",
        "mssql://u:hunter2\u2100@db/s",
        "mssql://u:p?hunter2=1@db/s",
        "mssql://u:hunter2#@db/s",
        "postgres://u:hunter2@db/s",
    ],
)
def test_text_that_cannot_be_read_is_not_shown(text):
    with pytest.raises(BadRequest) as refused:
        parse(text)
    assert "hunter2" not in str(refused.value)


def test_password_may_look_like_an_address():
    assert parse("Server=db;Database=s;PWD=a://b").password == "a://b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mssql://u@db/s", True),
        (" SQLServer://db/s", True),
        ("Server=db;Database=s;Password=mssql://", False),
        ("s3://bucket/lake", False),
        ("./mssql", False),
    ],
)
def test_addresses_of_sql_server_are_known_by_their_beginning(text, expected):
    assert is_url(text) is expected


def test_values_of_the_driver_text_are_braced():
    address = Address("db", "s;x", "u", "p}w")
    text = address.for_odbc()
    assert text.startswith("Server={db};Database={s;x};UID={u};PWD={p}}w}")


def test_password_is_not_shown():
    address = Address("db", "s", "u", "secret-word")
    assert "secret-word" not in repr(address)
    assert address.title() == "db/s"


def test_the_size_of_packets_is_one_that_servers_have_to_confirm():
    """Encrypted connections take no more; 4096 and 8192 are what servers have by themselves."""
    assert 8192 < parse("Server=h;Database=d").for_core()["packet_size"] <= 16_383
