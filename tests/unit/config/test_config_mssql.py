"""`[catalogs.NAME]` of type `mssql`: the server, who logs in, settings; no password in the file."""

import logging

import pytest

from jetbridge.app.configuration import load_config
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.config import ConfigError

SECRET = "correct-horse-battery"
SERVER = "server = 'db'\ndatabase = 'sales'\n"


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        path = tmp_path / "jetbridge.toml"
        path.write_text(f"[catalogs.m]\ntype = 'mssql'\n{text}")
        return path

    return write_file


def mssql_of(path) -> MssqlConfig:
    found = load_config(path).catalogs["m"]
    assert isinstance(found, MssqlConfig)
    return found


def test_server_and_database_are_enough(write):
    assert mssql_of(write(SERVER)) == MssqlConfig(address=Address("db", "sales"))


def test_every_key_is_read(write, tmp_path, monkeypatch):
    monkeypatch.setenv("SALES_PASSWORD", SECRET)
    (tmp_path / "spool").mkdir()
    text = (
        "server = 'db,1444'\ndatabase = 'sales'\nuser = 'loader'\n"
        "password_env = 'SALES_PASSWORD'\nencrypt = 'strict'\ntrust_server_certificate = true\n"
        "spool = 'spool'\nmssql_ctas_text_type = 'varchar'\n"
    )
    assert mssql_of(write(text)) == MssqlConfig(
        address=Address("db,1444", "sales", "loader", SECRET, "strict", trust=True),
        spool=str(tmp_path / "spool"),
        settings=MssqlSettings(ctas_text_type="VARCHAR"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mssql_ctas_use_bcp = false", MssqlSettings(ctas_use_bcp=False)),
        ("mssql_ctas_use_bcp = 'off'", MssqlSettings(ctas_use_bcp=False)),
        ("mssql_ctas_text_length = 40", MssqlSettings(ctas_text_length="40")),
        ("mssql_insert_batch_size = 7", MssqlSettings(insert_batch_size=7)),
        ("mssql_insert_batch_size = '7'", MssqlSettings(insert_batch_size=7)),
    ],
)
def test_settings_are_texts_or_what_toml_has_for_them(write, text, expected):
    assert mssql_of(write(SERVER + text)).settings == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "connection = 'Server=db,1;Database=s;User Id=u;Encrypt=no'",
            Address("db,1", "s", "u", "", "no"),
        ),
        ("connection = 'mssql://u@db/s'", Address("db,1433", "s", "u")),
        (
            "connection = 'mssql://u@db/s'\npassword_env = 'THE_PASSWORD'",
            Address("db,1433", "s", "u", SECRET),
        ),
        ("connection_env = 'THE_CONNECTION'", Address("db", "s", "u", SECRET)),
    ],
)
def test_connection_string_says_it_all(write, monkeypatch, text, expected):
    monkeypatch.setenv("THE_PASSWORD", SECRET)
    monkeypatch.setenv("THE_CONNECTION", f"Server=db;Database=s;User Id=u;Password={SECRET}")
    assert mssql_of(write(text)).address == expected


REFUSED = [
    ("database = 's'", "server", "is missing: server = "),
    ("server = 'db'", "database", "is missing: database = "),
    ("server = 7", "server", "= 7: must be a string"),
    (SERVER + f"password = '{SECRET}'", "password", 'password_env = "NAME"'),
    (SERVER + "password_env = 'NO_SUCH_NAME'", "password_env", "no such variable"),
    (SERVER + "password_env = 7", "password_env", "the name of an environment variable"),
    (SERVER + "encrypt = 'maybe'", "encrypt", "= 'maybe': must be one of yes, no, strict"),
    (SERVER + "trust_server_certificate = 1", "trust_server_certificate", "true or false"),
    (SERVER + "spool = 'nowhere'", "spool", "must be a folder that exists"),
    (SERVER + "spool = 7", "spool", "= 7: must be a string, the path of a folder"),
    (SERVER + "usr = 'x'", "usr", "did you mean 'user'?"),
    (SERVER + "mssql_ctas_txt_type = 'x'", "mssql_ctas_txt_type", "'mssql_ctas_text_type'?"),
    (SERVER + "mssql_ctas_text_type = 'x'", "mssql_ctas_text_type", "'NVARCHAR' or 'VARCHAR'"),
    (SERVER + "mssql_insert_batch_size = 0", "mssql_insert_batch_size", "from 1 to 1000000"),
    (SERVER + "mssql_ctas_use_bcp = 7", "mssql_ctas_use_bcp", "Must be true or false"),
    (SERVER + "mssql_ctas_use_bcp = [1]", "mssql_ctas_use_bcp", "must be a string, a whole number"),
    (SERVER + "connection = 'mssql://db/s'", "connection", "and server set the same option"),
    ("connection = 'x'\nconnection_env = 'Y'", "connection", "and connection_env set the same"),
    ("connection = 7", "connection", "must be a string"),
    ("connection = 'Server=db'", "connection", "needs at least Server and Database"),
    ("connection_env = 'NO_SUCH_NAME'", "connection_env", "no such variable"),
    (f"connection = 'mssql://u:{SECRET}@db/s'", "connection", "password_env"),
    (f"connection = 'Server=db;Pwd={SECRET}'", "connection", "cannot be read"),
    (f"connection = 'Server=db;Pwd=x;{SECRET}'", "connection", "cannot be read"),
    ("connection_env = 'THE_CONNECTION'\npassword_env = 'A'", "password_env", "a second time"),
]


@pytest.mark.parametrize(("text", "key", "problem"), REFUSED)
def test_bad_key_is_refused_with_what_is_allowed(write, monkeypatch, text, key, problem):
    monkeypatch.setenv("THE_CONNECTION", f"Server=db;Database=s;User Id=u;Password={SECRET}")
    with pytest.raises(ConfigError) as refused:
        load_config(write(text))
    assert refused.value.key == f"catalogs.m.{key}"
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)


def test_password_is_not_shown(write, monkeypatch, caplog):
    monkeypatch.setenv("SALES_PASSWORD", SECRET)
    with caplog.at_level(logging.DEBUG):
        path = write(SERVER + "password_env = 'SALES_PASSWORD'")
        config = load_config(path)
    assert mssql_of(path).address.password == SECRET
    assert SECRET not in repr(config)
    assert SECRET not in caplog.text
