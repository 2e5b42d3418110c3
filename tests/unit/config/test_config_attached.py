"""ATTACH and CREATE SECRET of a SQL Server: where its address comes from."""

import pytest

from jetbridge.app.sessions import config_for_attach, parse_secret
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.config import CatalogConfig
from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.statements import Attach

WORD = "hunter2"
MSSQL = {"type": "mssql"}


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    monkeypatch.delenv("MSSQL_PASSWORD", raising=False)


def no_secret(*_) -> None:
    """Finds no secret."""


def mssql(place, options=None, secret=None) -> MssqlConfig:
    statement = Attach(place, "m", MSSQL if options is None else options)
    _, found = config_for_attach(statement, lambda *_: secret)
    assert isinstance(found, MssqlConfig)
    return found


@pytest.mark.parametrize(
    ("place", "options", "expected"),
    [
        ("./o", {}, LakeConfig(warehouse="./o")),
        ("s3://bucket/o", {"type": "LAKE"}, LakeConfig(warehouse="s3://bucket/o")),
        ("", {"type": "memory"}, CatalogConfig("memory")),
        ("mssql://u@db/s", {}, MssqlConfig(address=Address("db,1433", "s", "u"))),
        ("SQLServer://db:7/s", {}, MssqlConfig(address=Address("db,7", "s"))),
        ("Server=db;Database=s", {"type": "MSSQL"}, MssqlConfig(address=Address("db", "s"))),
    ],
)
def test_type_or_else_the_address_says_what_is_attached(place, options, expected):
    assert config_for_attach(Attach(place, "o", options), no_secret) == (expected.type, expected)


@pytest.mark.parametrize(
    "place",
    [f"Server=db;Database=s;Password={WORD}", f"UID=u;PWD={WORD}", "Data Source=db"],
)
def test_connection_string_without_its_type_is_no_folder(place):
    with pytest.raises(BadRequest, match=r"write \(TYPE mssql\)") as refused:
        config_for_attach(Attach(place, "m"), no_secret)
    assert WORD not in str(refused.value)


def test_other_types_are_refused_with_those_there_are():
    with pytest.raises(BadRequest, match="TYPE postgres is not one of lake, memory, mssql"):
        config_for_attach(Attach("x", "m", {"type": "postgres"}), no_secret)


SECRET = {"server": "db,1433", "database": "s", "user": "u", "password": "of-secret"}
NAMED = {"type": "mssql", "secret": "x"}


@pytest.mark.parametrize(
    ("place", "options", "secret", "password"),
    [
        (f"mssql://u:{WORD}@db/s", NAMED, SECRET, WORD),
        ("mssql://u@db/s", NAMED, SECRET, "of-secret"),
        ("mssql://u@other/s", NAMED, SECRET, "of-secret"),
        ("mssql://u@other/s", NAMED, {"user": "x"}, "of-environment"),
        ("mssql://u@db/s", MSSQL, SECRET, "of-secret"),
        ("Server=DB;Database=s", MSSQL, SECRET, "of-secret"),
        ("mssql://u@other/s", MSSQL, SECRET, "of-environment"),
        ("mssql://u@other/s", MSSQL, {"password": "p"}, "p"),
        ("mssql://u@db/s", MSSQL, None, "of-environment"),
    ],
)
def test_password_is_that_of_the_address_or_the_secret_or_the_environment(
    monkeypatch, place, options, secret, password
):
    monkeypatch.setenv("MSSQL_PASSWORD", "of-environment")
    assert mssql(place, options, secret).address.password == password


def test_without_any_password_it_is_empty():
    assert mssql("mssql://u@db/s").address == Address("db,1433", "s", "u", "")


@pytest.mark.parametrize("options", [NAMED, MSSQL])
def test_empty_address_is_all_from_the_secret(options):
    secret = {**SECRET, "encrypt": "strict", "trust": "yes"}
    expected = Address("db,1433", "s", "u", "of-secret", "strict", trust=True)
    assert mssql("", options, secret).address == expected


def test_address_comes_before_the_secret():
    found = mssql("mssql://me@db/t?encrypt=no", NAMED, {**SECRET, "encrypt": "strict"}).address
    assert found == Address("db,1433", "t", "me", "of-secret", "no")


def test_settings_are_options_with_or_without_their_beginning():
    options = {**MSSQL, "mssql_ctas_text_type": "varchar", "insert_batch_size": "7"}
    options["default_table_kind"] = "COLUMNSTORE"
    found = mssql("mssql://db/s", options).settings
    assert (found.ctas_text_type, found.insert_batch_size) == ("VARCHAR", 7)
    assert found.ctas_table_kind == "columnstore"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"secrt": "x"}, "no option SECRT; did you mean SECRET?"),
        (
            {"colour": "x"},
            "Known options: TYPE, SECRET, READ_ONLY, READ_WRITE, APPLICATION_NAME, mssql",
        ),
        ({"ctas_text_type": "x"}, "'NVARCHAR' or 'VARCHAR'"),
    ],
)
def test_other_options_are_refused(options, problem):
    with pytest.raises(BadRequest, match=problem):
        mssql("mssql://db/s", {**MSSQL, **options})


@pytest.mark.parametrize(
    "options",
    [
        {"read_only": "true"},
        {"read_only": "false", "read_write": "true"},
        {"application_name": "nightly"},
        {"catalog": "true", "order_pushdown": "false", "lazy_validation": "TRUE"},
    ],
)
def test_options_that_say_nothing_about_the_address_leave_it(options):
    expected = MssqlConfig(address=Address("db,1433", "s"))
    assert mssql("mssql://db/s", {**MSSQL, **options}) == expected


OF_THE_EXTENSION = [
    ({"schema_filter": WORD}, "SCHEMA_FILTER is not supported: the catalog has all schemas"),
    ({"table_filter": WORD}, "TABLE_FILTER is not supported: the catalog has all schemas"),
    ({"catalog": "false"}, "CATALOG must be true: tables are read by name"),
    ({"order_pushdown": "true"}, "ORDER_PUSHDOWN must be false: jetbridge sorts rows itself"),
    ({"lazy_validation": "false"}, "LAZY_VALIDATION must be true: ATTACH does not connect"),
    ({"access_token": WORD}, "ACCESS_TOKEN is not supported: jetbridge logs in with a user"),
    ({"authenticator": "krb5"}, "AUTHENTICATOR is not supported: jetbridge logs in with a user"),
]


@pytest.mark.parametrize(("options", "problem"), OF_THE_EXTENSION)
def test_what_only_the_extension_can_do_is_one_sentence(options, problem):
    for refusing in (lambda given: mssql("mssql://db/s", given), parse_secret):
        with pytest.raises(BadRequest, match=problem) as refused:
            refusing({**MSSQL, **options})
        assert WORD not in str(refused.value)


def test_without_an_address_and_a_secret_there_is_nothing_to_attach():
    with pytest.raises(BadRequest, match="needs at least Server and Database"):
        mssql("")


def test_secret_says_what_an_address_says():
    given = {
        "type": "MSSQL",
        "host": "db",
        "port": "1444",
        "database": "s",
        "user": "u",
        "password": WORD,
        "encrypt": "strict",
        "trust_server_certificate": "true",
    }
    assert parse_secret(given) == {
        "server": "db,1444",
        "database": "s",
        "user": "u",
        "password": WORD,
        "encrypt": "strict",
        "trust": "true",
    }


def test_secret_of_the_extension_is_taken():
    given = {"host": "db", "provider": "CONFIG", "scope": "mssql://db", "use_encrypt": "false"}
    given |= {"application_name": "nightly", "catalog": "true"}
    assert parse_secret({**MSSQL, **given}) == {"server": "db,1433", "encrypt": "false"}


@pytest.mark.parametrize(
    ("options", "server"), [({}, "db\\x"), ({"port": "7"}, "db\\x,7")], ids=["no port", "port"]
)
def test_named_instance_has_no_port_of_its_own(options, server):
    assert parse_secret({**MSSQL, "host": "db\\x", **options}) == {"server": server}
    secret = {"server": "db\\x", "password": "of-secret"}
    assert mssql("Server=DB\\x;Database=s", MSSQL, secret).address.password == "of-secret"


def test_password_of_a_secret_may_be_in_the_environment(monkeypatch):
    monkeypatch.setenv("THE_PASSWORD", WORD)
    made = parse_secret({"type": "mssql", "host": "db", "password_env": "THE_PASSWORD"})
    assert made == {"server": "db,1433", "password": WORD}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"type": "s3"}, "TYPE mssql"),
        ({"host": "db"}, "TYPE mssql"),
        ({**MSSQL, "hst": "db"}, "no option HST; did you mean HOST?"),
        ({**MSSQL, "port": "1"}, "PORT requires HOST"),
        ({**MSSQL, "scope": "mssql://db"}, "SCOPE requires HOST"),
        ({**MSSQL, "provider": "credential_chain"}, "PROVIDER must be config"),
        ({**MSSQL, "host": "db", "port": "70000"}, "from 1 to 65535"),
        ({**MSSQL, "host": "db", "port": "-1"}, "from 1 to 65535"),
        ({**MSSQL, "encrypt": "maybe"}, "Encrypt must be one of"),
        ({**MSSQL, "trust_server_certificate": "maybe"}, "must be yes or no"),
        ({**MSSQL, "password_env": "NO_SUCH_NAME"}, "'NO_SUCH_NAME': the environment has no such"),
        ({**MSSQL, "password_env": "A"}, "both set the password: remove one"),
    ],
)
def test_bad_secret_is_refused_without_its_password(options, problem):
    given = (
        options if options.get("password_env") == "NO_SUCH_NAME" else options | {"password": WORD}
    )
    with pytest.raises(BadRequest, match=problem) as refused:
        parse_secret(given)
    assert WORD not in str(refused.value)
