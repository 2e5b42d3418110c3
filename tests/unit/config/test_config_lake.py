"""`[catalogs.NAME]` of type `lake`: its own keys, Iceberg's properties, secrets, the warehouse."""

import logging
import os
from pathlib import Path

import pytest

from jetbridge.app.configuration import load_config
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.config import ConfigError

SECRET = "correct-horse-battery"


@pytest.fixture
def write(tmp_path):
    def write_file(text):
        path = tmp_path / "jetbridge.toml"
        path.write_text(text)
        return path

    return write_file


def lake_of(path, name="l", **given) -> LakeConfig:
    lake = load_config(path, **given).catalogs[name]
    assert isinstance(lake, LakeConfig)
    return lake


def test_keys_of_a_lake_have_the_defaults_of_the_backend():
    assert LakeConfig.enforce_keys_rows == LakeOptions("anywhere").enforce_keys_rows


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "{base}/./jetbridge-data"),
        ("warehouse = 'data'", "{base}/data"),
        ("warehouse = '/data/lake'", "/data/lake"),
        ("warehouse = '~/lake'", os.path.expanduser("~/lake")),
        ("warehouse = 's3://bucket/lake'", "s3://bucket/lake"),
        ("warehouse = 'file:///data/lake'", "file:///data/lake"),
        ("warehouse = 'main'\nuri = 'https://catalog.example'", "main"),
    ],
)
def test_warehouse_starts_at_the_folder_of_the_file(write, tmp_path, given, expected):
    path = write(f"[catalogs.l]\ntype = 'lake'\n{given}")
    assert lake_of(path).warehouse == expected.format(base=tmp_path)


def test_file_without_catalogs_has_the_default_lake_beside_it(write, tmp_path):
    lake = lake_of(write("[server]\nport = 0"), "lake")
    assert Path(lake.warehouse) == tmp_path / "jetbridge-data"


def test_other_keys_are_properties_of_iceberg_as_text(write):
    lake = lake_of(
        write(
            """
            [catalogs.l]
            type = "lake"
            enforce_keys_rows = 5
            uri = "jdbc:postgresql://db.example/lake"
            io-impl = "org.example.IO"
            s3.endpoint = "http://s3.example"
            "s3.path-style-access" = true
            clients = 4
            [catalogs.l.jdbc]
            user = "loader"
            """
        )
    )
    assert lake.enforce_keys_rows == 5
    assert lake.properties == {
        "uri": "jdbc:postgresql://db.example/lake",
        "io-impl": "org.example.IO",
        "s3.endpoint": "http://s3.example",
        "s3.path-style-access": "true",
        "clients": "4",
        "jdbc.user": "loader",
    }


def test_secrets_come_from_the_environment_and_are_never_shown(write, monkeypatch, caplog):
    monkeypatch.setenv("LAKE_PASSWORD", SECRET)
    path = write(
        "[catalogs.l]\ntype='lake'\njdbc.password_env='LAKE_PASSWORD'\ntoken='t0ken'\n"
        "[spark]\n'spark.hadoop.fs.s3a.secret.key_env' = 'LAKE_PASSWORD'"
    )
    with caplog.at_level(logging.DEBUG):
        config = load_config(path)
    lake = config.catalogs["l"]
    assert isinstance(lake, LakeConfig)
    assert lake.properties == {"jdbc.password": SECRET, "token": "t0ken"}
    assert config.spark == {"spark.hadoop.fs.s3a.secret.key": SECRET}
    for hidden in (SECRET, "t0ken"):
        assert hidden not in repr(config)
        assert hidden not in caplog.text


REFUSED = [
    ("warehouse = ''", "warehouse", "= '': must be the path of a folder"),
    ("warehouse = 7", "warehouse", "= 7: must be the path of a folder"),
    ("warehouse = 'jetbridge.toml'", "warehouse", "must be a folder; "),
    ("enforce_keys_rows = -1", "enforce_keys_rows", "= -1: must be a whole number, 0 or more"),
    ("enforce_keys_rows = '5'", "enforce_keys_rows", "= '5': must be a whole number"),
    ("warehose = 'x'", "warehose", "is not a key; did you mean 'warehouse'?"),
    ("enforce_key_rows = 1", "enforce_key_rows", "did you mean 'enforce_keys_rows'?"),
    ("s3.region = ['x']", "s3.region", "must be one value, not a list"),
    ("a.b = 'x'\n'a.b' = 'y'", "a.b", "sets 'a.b' a second time"),
    ("a.b = 'x'\na.b_env = 'HOME'", "a.b_env", "sets 'a.b' a second time"),
    ("a_env = 'JETBRIDGE_NO_SUCH'", "a_env", "'JETBRIDGE_NO_SUCH': the environment has no such"),
    ("a_env = 3", "a_env", "must be a string, the name of an environment variable"),
]


@pytest.mark.parametrize(("text", "key", "problem"), REFUSED)
def test_bad_key_of_a_lake_is_refused(write, text, key, problem):
    path = write(f"[catalogs.l]\ntype = 'lake'\n{text}")
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert str(refused.value).startswith(f"{path}: catalogs.l.{key} ")
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", ["'a b'", "'a.b'", "spark_catalog", "'x+'"])
def test_name_that_spark_cannot_take_is_refused(write, name):
    with pytest.raises(ConfigError, match="cannot be a lake: the name of a lake has letters"):
        load_config(write(f"[catalogs.{name}]\ntype = 'lake'"))


@pytest.mark.parametrize("same", ["data", "./data", "data/"])
def test_two_lakes_do_not_share_a_folder(write, same):
    text = "[catalogs.a]\ntype = 'lake'\nwarehouse = 'data'\n[catalogs.b]\ntype = 'lake'\n"
    with pytest.raises(ConfigError, match=r"is that of catalogs\.a, too; each lake needs a folder"):
        load_config(write(f"{text}warehouse = '{same}'"))


def test_two_catalog_servers_may_have_warehouses_of_one_name(write):
    one = "type = 'lake'\nwarehouse = 'main'\nuri = 'https://{}.example'\n"
    text = f"[catalogs.a]\n{one.format('a')}[catalogs.b]\n{one.format('b')}"
    assert len(load_config(write(text)).catalogs) == 2


def test_flag_sets_the_warehouse_of_the_default_lake(tmp_path):
    assert lake_of(None, "lake", warehouse=str(tmp_path)).warehouse == str(tmp_path)


def test_flag_sets_the_warehouse_of_the_only_lake_of_the_file(write):
    path = write("[catalogs.l]\ntype = 'lake'\nwarehouse = 'data'\nclients = 4")
    lake = lake_of(path, warehouse="here")
    assert (lake.warehouse, lake.properties) == ("here", {"clients": "4"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[catalogs.m]\ntype = 'memory'", "there is none"),
        (
            "[catalogs.a]\ntype = 'lake'\n[catalogs.b]\ntype = 'lake'\nwarehouse = 'b'",
            r"there are several \(a, b\)",
        ),
        ("[catalogs.l]\ntype = 'lake'", "must be the path of a folder"),
    ],
)
def test_warehouse_flag_needs_exactly_one_lake_and_a_folder(write, text, problem):
    with pytest.raises(ConfigError, match=f"^command line: --warehouse .*{problem}"):
        load_config(write(text), warehouse="" if "must be" in problem else "here")
