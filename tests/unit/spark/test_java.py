import os

import pytest

from jetbridge.errors import Unavailable
from jetbridge.spark import jvm
from jetbridge.spark.jvm import Java, find_java, java_version, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17)', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "11.0.21" 2023-10-17', 11),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_version_is_read_from_what_java_prints(text, version):
    assert parse_version(text) == version


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without Java, and a function that installs one."""

    def install(home: str, version: str):
        binary = tmp_path / home / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        binary.chmod(0o755)
        return binary.parent.parent

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(jvm, "JAVA_FOLDER", tmp_path / "jvm")
    return install


def test_java_home_comes_first(machine, monkeypatch):
    home, other = machine("home", "21.0.1"), machine("other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert find_java() == Java(home, 21)


def test_java_on_path_is_followed_through_its_links(machine, monkeypatch, tmp_path):
    home = machine("jdk", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin")
    assert find_java() == Java(home, 17)


def test_another_version_on_path_is_passed_over_for_one_in_the_usual_folder(machine, monkeypatch):
    newer = machine("newer", "25.0.1")
    machine("jvm/a-broken", "")
    usual = machine("jvm/java-17", "17.0.15")
    monkeypatch.setenv("PATH", f"{newer / 'bin'}{os.pathsep}/usr/bin")
    assert find_java() == Java(usual, 17)


def test_without_java_the_sentence_says_what_to_install(machine):
    with pytest.raises(
        Unavailable, match="needs Java 17 or 21, which this machine lacks: "
    ) as told:
        find_java()
    assert "apt-get install openjdk-17-jre-headless" in str(told.value)
    assert "set JAVA_HOME" in str(told.value)


def test_wrong_java_is_named_in_the_sentence(machine, monkeypatch):
    home = machine("home", "11.0.21")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(Unavailable, match=r"\(found Java 11 in .*home\)"):
        find_java()


def test_java_that_does_not_start_has_no_version(tmp_path):
    assert java_version(tmp_path) is None
