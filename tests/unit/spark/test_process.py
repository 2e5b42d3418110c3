"""The child process, with a script in the place of Spark's."""

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from jetbridge.errors import Unavailable
from jetbridge.spark import jvm as process
from jetbridge.spark import startup as attempt_module
from jetbridge.spark.jvm import FetchFailed, Java, Jvm, Launch
from jetbridge.spark.startup import StartAttempt, StartRequest
from tests.helpers.waiting import wait_until

SECRET = "hunter2"


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """Starts a shell script instead of a JVM; what still runs is killed."""
    running: list[Jvm] = []

    def launch(script: str, **settings: str) -> Jvm:
        (tmp_path / "bin").mkdir()
        submit = tmp_path / "bin" / "spark-submit"
        submit.write_text(f"#!/bin/sh\n{script}\n")
        submit.chmod(0o755)
        folder = tmp_path / "folder"
        folder.mkdir()
        java = Java(tmp_path / "java", 17)
        running.append(Jvm(Launch(java, settings, folder, tmp_path / "spark.log")))
        return running[0]

    monkeypatch.setattr(process, "spark_home", lambda: tmp_path)
    yield launch
    for each in running:
        each.kill()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Invalid maximum heap size: -Xmxlots", "spark.driver.memory is not valid"),
        ("Could not reserve enough space for object heap", "not enough memory for spark.driver"),
        ("x: UnsupportedClassVersionError: y", "a jar is made for a newer Java"),
        ("java.lang.IllegalStateException: odd", "java.lang.IllegalStateException: odd"),
        ("nothing that helps", "exit code 1"),
    ],
)
def test_reason_of_a_failed_start_is_read_from_its_output(launched, line, reason, tmp_path):
    (tmp_path / "spark.log").write_text("Exception: of the run before\n")
    jvm = launched(f"echo '{line}' >&2; exit 1")
    with pytest.raises(Unavailable, match=f"did not start: .*{reason}.*; see .*spark.log"):
        jvm.connect(10)


@pytest.mark.parametrize(
    "line",
    [":: problems ::  unresolved dependency: a#b;1: not found", "Server access error at url"],
)
def test_jars_that_ivy_did_not_get_are_told_apart(launched, line):
    with pytest.raises(FetchFailed):
        launched(f"echo '{line}'; exit 1").connect(10)


def test_start_that_takes_too_long_is_killed(launched):
    jvm = launched("exec sleep 60")
    with pytest.raises(Unavailable, match=r"did not start within 0\.2 s"):
        jvm.connect(0.2)
    assert not jvm.runs()


def test_settings_go_through_a_file_that_only_we_read(launched, tmp_path):
    jvm = launched('echo "$@" > arguments; exec sleep 60', **{"spark.x.password": SECRET})
    arguments = tmp_path / "folder" / "arguments"
    wait_until(lambda: arguments.exists() and arguments.read_text())
    assert SECRET not in arguments.read_text()
    properties = tmp_path / "folder" / "spark.properties"
    assert SECRET in properties.read_text()
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    jvm.kill()
    assert jvm.exit_reason() == "killed by signal 9"


def test_environment_is_ours_where_it_must_be(launched, tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("SPARK_HOME", "/opt/another")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    jvm = launched("env > environment; pwd > folder")
    assert jvm.wait(10)
    lines = (tmp_path / "folder" / "environment").read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["SPARK_HOME"] == str(tmp_path)
    assert variables["JAVA_HOME"] == str(tmp_path / "java")
    assert variables["PYSPARK_PYTHON"] == sys.executable
    assert variables["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "PYSPARK_GATEWAY_PORT" not in variables
    assert (tmp_path / "folder" / "folder").read_text().strip() == str(tmp_path / "folder")


def test_process_ends_when_its_input_does(launched):
    jvm = launched("cat")
    assert jvm.runs()
    jvm.end()
    assert jvm.exit_reason() == "exit code 0"


def test_process_that_does_not_end_is_killed(launched, monkeypatch):
    monkeypatch.setattr(process, "END_SECONDS", 0.2)
    jvm = launched("exec sleep 60")
    jvm.end()
    assert jvm.exit_reason() == "killed by signal 9"


def test_process_is_out_of_reach_of_ctrl_c(launched):
    jvm = launched("exec sleep 60")
    assert os.getpgid(jvm.pid) != os.getpgid(0)


@pytest.mark.parametrize("code", [3, 52])
def test_lack_of_memory_is_told_with_its_remedy(launched, code):
    jvm = launched(f"exit {code}")
    assert jvm.wait(10)
    assert jvm.exit_reason() == "out of memory: raise the setting spark.driver.memory"


def attempted(tmp_path: Path, **changes: Path) -> StartAttempt:
    places = {"log_file": tmp_path / "spark.log", "scratch": tmp_path} | changes
    return StartAttempt(StartRequest({}, {}, verbose=False, **places))


def test_missing_pyspark_is_told_with_its_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Unavailable, match=r"pip install 'jetbridge\[lake\]'"):
        attempted(tmp_path).open()


@pytest.fixture
def with_java(monkeypatch, tmp_path):
    monkeypatch.setattr(attempt_module, "find_java", lambda: Java(tmp_path, 17))
    monkeypatch.setattr(attempt_module, "refuse_a_second", lambda: None)


@pytest.mark.parametrize("place", ["log_file", "scratch"])
def test_place_that_cannot_be_used_is_named(place, tmp_path, with_java):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match=r"Spark cannot use .*file.*: "):
        attempted(tmp_path, **{place: tmp_path / "file" / "below"}).open()


def test_cancelled_start_leaves_no_process_and_no_file(tmp_path, with_java, launched, monkeypatch):
    jvm = launched("exec sleep 60")
    monkeypatch.setattr(attempt_module, "Jvm", lambda _: jvm)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "scratch").mkdir()
    started = attempted(tmp_path, scratch=tmp_path / "scratch")
    threading.Timer(0.3, started.cancel).start()
    with pytest.raises(Unavailable, match="did not start: killed by signal 9") as told:
        started.open()
    started.fail(told.value)
    assert started.has_failed()
    assert not jvm.runs()
    assert list((tmp_path / "scratch").iterdir()) == []
