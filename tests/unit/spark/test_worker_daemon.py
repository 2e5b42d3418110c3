"""The path of Spark's Python workers."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from jetbridge.spark.worker_daemon import remove_archives

VERSION = Path(pyspark.__file__).with_name("version.py").read_bytes()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "pyspark.zip"


def write_version(archive: Path, version: bytes) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("pyspark/version.py", version)


def test_path_has_no_archives_where_the_same_pyspark_is_installed(archive):
    write_version(archive, VERSION)
    path = [str(archive), "", *sys.path]
    assert remove_archives(path) == ["", *sys.path]


def test_archives_of_users_stay_on_the_path(archive, tmp_path):
    write_version(archive, VERSION)
    mine, damaged = tmp_path / "mine.zip", tmp_path / "damaged.zip"
    with zipfile.ZipFile(mine, "w") as file:
        file.writestr("mine.py", "")
    damaged.write_bytes(b"no archive")
    others = [str(mine), str(damaged), str(tmp_path / "missing.jar")]
    assert remove_archives([str(archive), *others, *sys.path]) == [*others, *sys.path]


def test_archives_that_spark_brings_are_known():
    home = Path(pyspark.__file__).parent
    archives = [*home.glob("python/lib/*.zip"), *home.glob("jars/spark-core_*.jar")]
    assert len(archives) == 3
    assert remove_archives([*map(str, archives), *sys.path]) == sys.path


def test_path_stays_where_the_installed_pyspark_has_another_version(archive):
    write_version(archive, b"__version__ = '0'")
    path = [str(archive), *sys.path]
    assert remove_archives(path) == path


def test_path_stays_where_pyspark_is_in_the_archive_only(archive):
    write_version(archive, VERSION)
    path = [str(archive), str(archive.parent)]
    assert remove_archives(path) == path


def test_daemon_starts_without_the_rest_of_jetbridge():
    code = "import jetbridge.spark.worker_daemon, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not {"grpc", "pyspark", "py4j", "jetbridge.app"} & loaded
