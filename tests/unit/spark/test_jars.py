import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from jetbridge.errors import Unavailable
from jetbridge.spark import jars
from jetbridge.spark.jars import S3_FILES, choose_jars, fetching, ivy_folder, needed_jars

with zipfile.ZipFile(SMALL := io.BytesIO(), "w") as jar:
    jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), "")
WHOLE = SMALL.getvalue()
ICEBERG, SQLITE, POSTGRES, AWS = (
    replace(each, sha256=hashlib.sha256(WHOLE).hexdigest())
    for each in (jars.ICEBERG, jars.SQLITE, jars.POSTGRES, jars.AWS)
)
NEEDED = [ICEBERG, SQLITE]


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(WHOLE)


@pytest.fixture
def environment(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "jetbridge" / "ivy"


def test_ivy_names_a_jar_by_its_group_and_the_repository_does_not():
    assert SQLITE.coordinates == "org.xerial:sqlite-jdbc:3.50.3.0"
    assert SQLITE.file_names == (
        "org.xerial_sqlite-jdbc-3.50.3.0.jar",
        "sqlite-jdbc-3.50.3.0.jar",
    )


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ([], [ICEBERG, SQLITE]),
        (["jdbc:sqlite:/x.db", "http://rest"], [ICEBERG, SQLITE]),
        (["jdbc:sqlite:/x.db", "jdbc:postgresql://host/db"], [ICEBERG, SQLITE, POSTGRES]),
    ],
)
def test_postgres_driver_comes_only_with_a_postgres_catalog(uris, expected):
    assert needed_jars([{"uri": uri} for uri in uris] + [{"type": "hive"}]) == expected


def test_what_reads_s3_comes_only_with_files_there():
    assert needed_jars([{"io-impl": S3_FILES}]) == [ICEBERG, SQLITE, AWS]
    assert needed_jars([{"io-impl": "another.FileIO"}]) == [ICEBERG, SQLITE]


def test_jars_that_are_nowhere_are_fetched_into_the_cache(environment, cache):
    jars = choose_jars({}, NEEDED, environment)
    assert jars.source == "fetch"
    assert jars.settings == {
        "spark.jars.excludes": "org.checkerframework:checker-qual",
        "spark.jars.ivy": str(cache),
        "spark.jars.packages": f"{ICEBERG.coordinates},{SQLITE.coordinates}",
    }


def test_cached_jars_are_given_by_path_and_nothing_is_looked_up(environment, cache):
    put(cache / "jars", ICEBERG.file_names[0], SQLITE.file_names[0])
    jars = choose_jars({}, NEEDED, environment)
    assert (jars.source, jars.packages) == ("cache", ())
    assert jars.settings["spark.jars"].split(",") == [
        str(cache / "jars" / jar.file_names[0]) for jar in NEEDED
    ]
    assert "spark.jars.packages" not in jars.settings


def test_only_what_the_cache_lacks_is_fetched(environment, cache):
    put(cache / "jars", ICEBERG.file_names[0], SQLITE.file_names[0])
    jars = choose_jars({}, [*NEEDED, POSTGRES], environment)
    assert (jars.source, jars.packages) == ("fetch", (POSTGRES.coordinates,))
    assert len(jars.settings["spark.jars"].split(",")) == 2


def test_half_a_jar_is_fetched_again(environment, cache):
    put(cache / "jars", *(jar.file_names[0] for jar in NEEDED))
    whole = (cache / "jars" / SQLITE.file_names[0]).read_bytes()
    (cache / "jars" / SQLITE.file_names[0]).write_bytes(whole[: len(whole) // 2])
    assert choose_jars({}, NEEDED, environment).packages == (SQLITE.coordinates,)


def test_packages_of_the_user_are_kept_and_replace_ours(environment):
    mine = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.13.0"
    given = {"spark.jars.packages": f" {mine}, org.apache.hadoop:hadoop-aws:3.4.2"}
    jars = choose_jars(given, NEEDED, environment)
    assert jars.packages == (SQLITE.coordinates, mine, "org.apache.hadoop:hadoop-aws:3.4.2")


def test_folder_of_jars_needs_no_network(environment, tmp_path):
    put(tmp_path / "jars", ICEBERG.file_names[1], SQLITE.file_names[0])
    jars = choose_jars({}, NEEDED, {**environment, "JETBRIDGE_JARS": str(tmp_path / "jars")})
    assert (jars.source, jars.packages) == ("folder", ())
    assert [Path(each).name for each in jars.settings["spark.jars"].split(",")] == [
        ICEBERG.file_names[1],
        SQLITE.file_names[0],
    ]


def test_folder_that_lacks_a_jar_says_which(environment, tmp_path):
    put(tmp_path / "jars", ICEBERG.file_names[1])
    with pytest.raises(
        Unavailable, match=r"JETBRIDGE_JARS, lacks sqlite-jdbc-3\.50\.3\.0\.jar: put"
    ):
        choose_jars({}, NEEDED, {**environment, "JETBRIDGE_JARS": str(tmp_path / "jars")})


def test_jars_given_by_path_are_left_alone_but_made_absolute(environment, tmp_path, monkeypatch):
    put(tmp_path, "iceberg-spark-runtime-4.1_2.13-9.jar")
    monkeypatch.chdir(tmp_path)
    given = {"spark.jars": "iceberg-*.jar, hdfs://host/driver.jar"}
    jars = choose_jars(given, NEEDED, {**environment, "JETBRIDGE_JARS": "unused"})
    assert (jars.source, jars.packages) == ("given", ())
    iceberg = tmp_path / "iceberg-spark-runtime-4.1_2.13-9.jar"
    assert jars.settings["spark.jars"] == f"{iceberg},hdfs://host/driver.jar"


def test_jars_given_by_path_must_hold_iceberg(environment, tmp_path):
    put(tmp_path, "other.jar")
    with pytest.raises(Unavailable, match="must also name Iceberg's own jar"):
        choose_jars({"spark.jars": str(tmp_path / "other.jar")}, NEEDED, environment)


def test_given_jar_that_does_not_exist_is_refused(environment, tmp_path):
    path = tmp_path / "iceberg-spark-runtime.jar"
    with pytest.raises(Unavailable, match="which does not exist"):
        choose_jars({"spark.jars": str(path)}, NEEDED, environment)


def test_cache_is_where_the_user_says(environment, tmp_path):
    assert ivy_folder({"spark.jars.ivy": str(tmp_path)}, environment) == tmp_path
    assert ivy_folder({}, {}).parts[-3:] == (".cache", "jetbridge", "ivy")


def test_failed_download_says_which_jars_and_what_to_do(environment):
    told = str(choose_jars({}, NEEDED, environment).fetch_error())
    for part in (SQLITE.coordinates, "JETBRIDGE_JARS", "spark.jars", "spark.jars.repositories"):
        assert part in told
    assert len(told.splitlines()) == 1


def test_cache_that_cannot_be_written_is_named(environment, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    with (
        pytest.raises(Unavailable, match="the folder for Spark's jars, .*ivy, fails: "),
        fetching(choose_jars({}, NEEDED, environment)),
    ):
        pass


def test_jar_of_another_hash_is_not_taken_from_the_cache(environment, cache):
    put(cache / "jars", *(jar.file_names[0] for jar in NEEDED))
    (cache / "jars" / SQLITE.file_names[0]).write_bytes(WHOLE + b"more")
    jars = choose_jars({}, NEEDED, environment)
    assert jars.packages == (SQLITE.coordinates,)
    with pytest.raises(
        Unavailable, match=r"fetched jars do not have the expected SHA-256: .*sqlite-jdbc"
    ):
        jars.check_fetched_jars()
    put(cache / "jars", SQLITE.file_names[0])
    jars.check_fetched_jars()


def test_jar_of_another_hash_in_the_folder_is_named(environment, tmp_path):
    put(tmp_path / "jars", ICEBERG.file_names[1], SQLITE.file_names[1])
    (tmp_path / "jars" / ICEBERG.file_names[1]).write_bytes(WHOLE + b"more")
    with pytest.raises(
        Unavailable, match=r"iceberg-spark-runtime.*jar, in the folder .* has another SHA-256"
    ):
        choose_jars({}, NEEDED, {**environment, "JETBRIDGE_JARS": str(tmp_path / "jars")})


def test_every_jar_of_ours_has_a_hash():
    ours = [each for each in vars(jars).values() if isinstance(each, jars.Jar)]
    assert len(ours) == 4
    assert all(len(each.sha256) == 64 for each in ours)
