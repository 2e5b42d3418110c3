"""Connection strings and addresses of SQL Server, as scripts for other tools write them."""

import pytest

from jetbridge.backends.mssql.connection.address import Address, is_url, parse
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
        ("Server=db;Port=1434;Database=s", Address("db,1434", "s")),
        ("Port=1434;Server=db,1434;Database=s", Address("db,1434", "s")),
        ("Server=db\\inst;Database=s", Address("db\\inst", "s")),
        ("Server=db;Database=s;UserID=u;Username=v", Address("db", "s", "v")),
        ("Server=db;Database=s;PWD=a;Password=b;Encrypt=no;Encrypt=1", Address("db", "s", "", "b")),
        (
            "Server=db;Database=s;Use Encryption for Data=0;Trust Server Certificate=1",
            Address("db", "s", encrypt="no", trust=True),
        ),
        ("Server=db;Database=s;Password= {a;b} ;Encrypt=no", Address("db", "s", "", "a;b", "no")),
        ('Server=db;Database=s;Password="a;""b\'=";UID=u', Address("db", "s", "u", "a;\"b'=")),
        ("Server=db;Database=s;Password='a;''b\"'", Address("db", "s", "", "a;'b\"")),
        ("Server=db;Database=s;Password=a'b\"c{d}", Address("db", "s", "", "a'b\"c{d}")),
        ("Server=db;Database=s;Password=", Address("db", "s")),
        ("mssql://u@db:1444/sales", Address("db,1444", "sales", "u")),
        ("mssql://u@db/sales/?applicationname=x&app=y", Address("db,1433", "sales", "u")),
        ("mssql://u@DB%5Cinst/s", Address("db\\inst", "s", "u")),
        ("mssql://u@db%5Cinst:7/s", Address("db\\inst,7", "s", "u")),
        ("mssql://db/s?ssl=0", Address("db,1433", "s", encrypt="no")),
        ("mssql://db/s?use_ssl=false", Address("db,1433", "s", encrypt="no")),
        ("mssql://db/s?encrypt=1&trustservercertificate=1", Address("db,1433", "s", trust=True)),
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
        ("Server=db;Database={s", "does not end with }"),
        ("Server=db;Database={s}x;UID=u", "does not end with }"),
        ("Server=db;Database='s", "does not end with '"),
        ("Server=db;Database=s;Port=x", "from 1 to 65535"),
        ("Server=db,1433;Database=s;Port=1434", "different ports"),
        ("Database=s;Port=1434", "without Server"),
        (
            "Server=db;Database=s;Trusted_Connection=yes",
            "Trusted_Connection must be no: jetbridge logs in",
        ),
        ("Server=db;Database=s;Integrated Security=SSPI", "Integrated Security must be no"),
        ("Server=db;Database=s;Authentication=ActiveDirectoryMsi", "must be SqlPassword"),
        ("Server=db;Database=s;authenticator=krb5", "jetbridge logs in with a user"),
        (
            "Server=db;Database=s;SchemaFilter=^dbo$",
            "SchemaFilter is not supported: the catalog has all schemas",
        ),
        (
            "Server=db;Database=s;TableFilter=^a",
            "TableFilter is not supported: the catalog has all schemas",
        ),
        ("Server=db;Database=s;Catalog=false", "Catalog must be true: tables are read"),
        (
            "mssql://u@db/s?schema_filter=a",
            "schema_filter is not supported: the catalog has all schemas",
        ),
        ("Server=db;Database=s;Encrypt=maybe", "yes, no, strict"),
        ("Server=db;Database=s;TrustServerCertificate=perhaps", "yes or no"),
        ("postgres://u@db/s", "mssql://"),
        ("mssql://u@db:port/s", "number"),
        ("mssql:///s", "Server and Database"),
        ("mssql://u@db/s?colour=red", "encrypt or trustservercertificate"),
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


@pytest.mark.parametrize("name", ["Colour", "Some Word"])
def test_unknown_name_after_the_password_is_told_by_its_place(name):
    with pytest.raises(
        BadRequest, match="pair 4 of the connection string has an unknown name"
    ) as refused:
        parse(f"Server=db;Database=s;Password=hunter2;{name}=x")
    assert name not in str(refused.value)


# As tools and documentation write them.
HARMLESS = """
    Persist Security Info=False;MultipleActiveResultSets=False;MARS_Connection=yes;
    Connection Timeout=30;Connect Timeout=30;Timeout=5;Command Timeout=30;Login Timeout=5;
    Application Name=nightly;App=x;App Name=x;application_name=x;Workstation ID=w;WSID=w;
    Driver={ODBC Driver 18 for SQL Server};Packet Size=4096;Pooling=true;Max Pool Size=100;
    Min Pool Size=0;ApplicationIntent=ReadOnly;MultiSubnetFailover=True;Language=us_english;
    ConnectRetryCount=3;ConnectRetryInterval=10;Trusted_Connection=No;Integrated Security=false;
    Authentication=SqlPassword;Catalog=true;
"""


def test_what_changes_nothing_is_ignored():
    found = parse(f"{HARMLESS}Server=db;Password=p;{HARMLESS}Database=s")
    assert found == Address("db", "s", "", "p")


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
