import sys
from pathlib import Path

import pytest

from jetbridge.spark.settings import (
    ICEBERG_EXTENSIONS,
    catalog_settings,
    complete,
    is_local,
    log4j_properties,
    mask_secrets,
    properties_text,
    with_java_options,
    worker_python,
)

FOLDER = Path("/scratch")


def test_defaults_keep_everything_on_this_machine_and_in_the_scratch_folder():
    settings = complete({}, FOLDER)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.local.dir"] == "/scratch/local"
    assert settings["spark.sql.warehouse.dir"] == "/scratch/warehouse"
    assert 2 <= int(settings["spark.sql.shuffle.partitions"]) <= 8


def test_cluster_keeps_its_own_addresses_and_partitions():
    settings = complete({"spark.master": "spark://host:7077"}, FOLDER)
    assert not is_local(settings)
    assert not {"spark.driver.host", "spark.local.dir", "spark.sql.shuffle.partitions"} & set(
        settings
    )


def test_workers_are_started_by_the_daemon_that_reads_no_archives():
    settings = complete({}, FOLDER)
    assert settings["spark.python.daemon.module"] == "jetbridge.spark.worker_daemon"
    assert settings["spark.python.unix.domain.socket.enabled"] == "true"
    assert settings["spark.python.unix.domain.socket.dir"] == "/scratch/tmp"


def test_sockets_whose_names_would_be_too_long_and_those_of_a_cluster_stay_tcp():
    name = "spark.python.unix.domain.socket.enabled"
    assert name not in complete({}, FOLDER / ("x" * 60))
    assert name not in complete({"spark.master": "spark://host:7077"}, FOLDER)


def test_settings_of_the_user_stand():
    given = {"spark.driver.memory": "8g", "spark.sql.session.timeZone": "Europe/Berlin"}
    settings = complete(given, FOLDER)
    assert {name: settings[name] for name in given} == given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ICEBERG_EXTENSIONS),
        ("a.B", f"{ICEBERG_EXTENSIONS},a.B"),
        (f"a.B, {ICEBERG_EXTENSIONS}", f"a.B,{ICEBERG_EXTENSIONS}"),
    ],
)
def test_iceberg_is_among_the_extensions(given, expected):
    settings = complete({"spark.sql.extensions": given}, FOLDER)
    assert settings["spark.sql.extensions"] == expected


def test_options_of_the_user_come_after_ours_and_paths_are_quoted():
    given = {"spark.driver.extraJavaOptions": "-Dmine=1"}
    settings = with_java_options(given, Path('/a "b"'), Path("/a b/log4j2.properties"))
    options = settings["spark.driver.extraJavaOptions"]
    assert options.startswith('"-Dlog4j2.configurationFile=file:///a%20b/log4j2.properties" ')
    assert r'"-Djava.io.tmpdir=/a \"b\"/tmp"' in options
    assert options.endswith(" -Dmine=1")


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ({}, {}, sys.executable),
        ({"spark.master": "spark://host:7077"}, {}, "python3"),
        ({}, {"PYSPARK_PYTHON": "/opt/python"}, "/opt/python"),
        ({"spark.pyspark.python": "/mine"}, {"PYSPARK_PYTHON": "/opt/python"}, "/mine"),
    ],
)
def test_tasks_on_this_machine_run_in_our_python(settings, environment, expected):
    assert worker_python(settings, environment) == expected


def test_catalog_is_a_setting_and_one_for_each_property():
    assert catalog_settings("lake", {"type": "jdbc"}) == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
    }


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("spark.master", "local[*]", "local[*]"),
        ("spark.sql.catalog.a.jdbc.password", "hunter2", "***"),
        ("spark.hadoop.fs.s3a.secret.key", "hunter2", "***"),
        ("spark.hadoop.fs.s3a.access.key", "hunter2", "***"),
        ("spark.x.TOKEN", "hunter2", "***"),
        ("spark.x.credential", "hunter2", "***"),
        ("spark.x.uri", "jdbc:postgresql://h/d?user=u&password=p", "password=***"),
        ("spark.x.uri", "postgresql://u:hunter2@h/d", "postgresql://u:***@h/d"),
    ],
)
def test_no_secret_is_shown(name, value, expected):
    assert mask_secrets({name: value})[name].endswith(expected)


def test_properties_file_survives_every_character():
    text = properties_text({"spark.a": "x=1 # \\ \n ü 🚀", "b": ""})
    assert text.isascii()
    assert text.splitlines() == [
        r"spark\u002ea=x\u003d1\u0020\u0023\u0020\u005c\u0020\u000a\u0020\u00fc\u0020\ud83d\ude80",
        "b=",
    ]


@pytest.mark.parametrize(("verbose", "level"), [(False, "warn"), (True, "info")])
def test_log_goes_to_the_file_at_its_level(verbose, level):
    text = log4j_properties(Path("/logs/spark.log"), verbose=verbose)
    assert f"rootLogger.level = {level}" in text
    assert r"fileName = \u002flogs\u002fspark\u002elog" in text
    assert "Console" not in text


def test_signs_that_mean_something_to_log4j_are_escaped_in_the_path():
    lines = log4j_properties(Path("/a%i${b}$c")).splitlines()
    names = {line.split(" = ")[0]: line.split(" = ")[1] for line in lines if " = " in line}
    decoded = {name: value.encode().decode("unicode_escape") for name, value in names.items()}
    assert decoded["appender.file.fileName"] == "/a%i$${b}$c"
    assert decoded["appender.file.filePattern"] == "/a%%i$${b}$c.%i"
