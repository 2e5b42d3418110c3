import json

import pytest

from jetbridge.cli import main
from jetbridge.cli.doctor import _package, _satisfies, _spark
from jetbridge.config import LakeConfig
from jetbridge.spark import java


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "jetbridge.toml"
    path.write_text("[server]\nport = 0")
    return path


def test_complete_installation_is_healthy(config, capsys):
    assert main(["doctor", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    states = {line.split()[1]: line.split()[0] for line in lines}
    assert {name: states[name] for name in ("python", "duckdb", "grpcio", "port")} == dict.fromkeys(
        ("python", "duckdb", "grpcio", "port"), "ok"
    )


def test_json_holds_one_finding_for_each_line_of_text(config, capsys):
    main(["doctor", "--config", str(config)])
    lines = capsys.readouterr().out.splitlines()
    main(["doctor", "--config", str(config), "--format", "json"])
    findings = json.loads(capsys.readouterr().out)
    assert [finding["name"] for finding in findings] == [line[10:34].strip() for line in lines]
    assert {tuple(finding) for finding in findings} == {("name", "state", "found", "remedy")}


def test_invalid_configuration_is_a_finding_with_its_reason(tmp_path, capsys):
    path = tmp_path / "jetbridge.toml"
    path.write_text("[server]\nport = -1")
    assert main(["doctor", "--config", str(path)]) == 1
    assert "server.port = -1: must be a whole number" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("requirement", "state", "remedy"),
    [
        ("grpcio>=1.80", "ok", ""),
        ("grpcio>=999", "missing", "needs >=999; run `make setup`"),
        ("duckdb==0.1", "missing", "needs ==0.1; run `make setup`"),
        ("no-such-thing-here>=1", "missing", "needs >=1; run `make setup`"),
        ("no-such-thing-here>=1; extra == 'lake'", "optional", "pip install 'jetbridge[lake]'"),
        ("no-such[x]<2,>=1; extra == 'mssql'", "optional", "pip install 'jetbridge[mssql]'"),
    ],
)
def test_package_that_is_missing_or_wrong_comes_with_its_remedy(requirement, state, remedy):
    finding = _package(requirement)
    assert finding.state == state
    assert remedy in finding.remedy


def test_extra_of_a_catalog_that_is_served_is_missing():
    finding = _package("no-such-thing-here>=1; extra == 'lake'", {"memory", "lake"})
    assert (finding.state, finding.remedy) == ("missing", "pip install 'jetbridge[lake]'")


@pytest.fixture
def findings(monkeypatch, tmp_path):
    """By name, on a machine without Java and without cached jars."""
    monkeypatch.setattr(java, "FOLDER", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JETBRIDGE_JARS", raising=False)
    return lambda settings, *lakes: {each.name: each for each in _spark(settings, lakes)}


@pytest.mark.parametrize(("lakes", "state"), [([], "optional"), ([LakeConfig()], "missing")])
def test_java_that_is_not_there_is_missing_only_where_spark_is_needed(findings, lakes, state):
    found = findings({}, *lakes)["java"]
    assert found.state == state
    assert "apt-get install openjdk-17-jre-headless" in found.remedy


def test_jars_are_fetched_given_or_wrong(findings, tmp_path, monkeypatch):
    jars = findings({})["spark jars"]
    assert (jars.state, jars.found.split()[-1]) == ("ok", str(tmp_path / "jetbridge" / "ivy"))
    (tmp_path / "iceberg-spark-runtime.jar").touch()
    given = {"spark.jars": str(tmp_path / "iceberg-spark-runtime.jar")}
    assert findings(given)["spark jars"].found == "given by spark.jars"
    monkeypatch.setenv("JETBRIDGE_JARS", str(tmp_path))
    wrong = findings({})["spark jars"]
    assert wrong.state == "missing"
    assert "lacks iceberg-spark-runtime-4.1_2.13-1.12.0.jar" in wrong.remedy


def test_jars_are_those_that_the_lakes_need(findings):
    postgres = LakeConfig(properties={"uri": "jdbc:postgresql://db/lake"})
    found = findings({}, postgres, LakeConfig(warehouse="s3://bucket/lake"))["spark jars"].found
    for name in ("iceberg-spark-runtime", "sqlite-jdbc", "postgresql:postgresql", "aws-bundle"):
        assert name in found


@pytest.mark.parametrize(
    ("version", "condition", "expected"),
    [
        ("1.5.5", "==1.5.5", True),
        ("1.5.6", "==1.5.5", False),
        ("2.0", ">=2", True),
        ("1.10", ">=1.9", True),
        ("1.9", ">=1.10", False),
        ("4.2.0", "<4.2", False),
        ("4.1.4", " <4.2", True),
    ],
)
def test_versions_compare_by_number(version, condition, expected):
    assert _satisfies(version, condition) is expected
