import json
from dataclasses import replace

import pytest

from jetbridge.app import configuration
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.mssql.backend import BACKEND
from jetbridge.cli import doctor, main
from jetbridge.cli.doctor import _driver, _package, _satisfies, _spark
from jetbridge.errors import Unavailable
from jetbridge.spark import jvm


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
    monkeypatch.setattr(jvm, "JAVA_FOLDER", tmp_path / "nowhere")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JETBRIDGE_JARS", raising=False)

    def findings(settings, *lakes):
        properties = [lake.iceberg_properties() for lake in lakes]
        return {finding.name: finding for finding in _spark(settings, properties)}

    return findings


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
    assert findings(given)["spark jars"].found == "named by spark.jars"
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


def test_driver_of_sql_server_is_found():
    (found,) = _driver(used=True)
    assert (found.state, found.found) == ("ok", "can be loaded")


@pytest.mark.parametrize(("used", "state"), [(True, "missing"), (False, "optional")])
def test_library_that_the_driver_lacks_is_told_with_its_package(monkeypatch, used, state):
    monkeypatch.setattr(doctor, "DRIVER", ("json",))
    monkeypatch.setattr(doctor, "LIBRARIES", {"libno-such.so.7": "libno-such7", "libc.so.6": "c"})
    (found,) = _driver(used)
    assert (found.state, found.found) == (state, "no libno-such.so.7")
    assert found.remedy == "apt-get install libno-such7 (Debian, Ubuntu)"


def test_driver_that_fails_when_it_is_loaded_is_told_with_its_reason(monkeypatch, tmp_path):
    (tmp_path / "broken_driver.py").write_text("raise RuntimeError('no\\nsuch chip')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "DRIVER", ("broken_driver",))
    monkeypatch.setattr(doctor, "LIBRARIES", {})
    (found,) = _driver(used=True)
    assert (found.state, found.found) == ("missing", "cannot be loaded: no such chip")


def test_driver_that_is_not_installed_is_not_told_twice(monkeypatch):
    monkeypatch.setattr(doctor, "DRIVER", ("no_such_driver_here",))
    assert list(_driver(used=True)) == []


class Sweeping(MemoryCatalog):
    """What a catalog of SQL Server does about sweeping; its name says how that goes."""

    def __init__(self, name) -> None:
        super().__init__()
        self.name, self.closed = name, False
        SWEPT.append(self)

    def start_sweeper(self) -> None:
        """Sweeps only when asked."""

    def sweep(self):
        if self.name == "down":
            raise Unavailable("db does not answer")
        return ["dbo.left_over", "s.b"] if self.name == "full" else []

    def close(self) -> None:
        self.closed = True


SWEPT: list[Sweeping] = []
SWEEPING = replace(BACKEND, open=lambda name, *_: Sweeping(name))


@pytest.fixture
def servers(tmp_path, monkeypatch):
    SWEPT.clear()
    loaders = {
        **configuration.LOADERS,
        "mssql": lambda: SWEEPING,
    }
    monkeypatch.setattr(configuration, "LOADERS", loaders)

    def write(*names):
        path = tmp_path / "servers.toml"
        each = "[catalogs.{}]\ntype = 'mssql'\nserver = 'db'\ndatabase = 's'\n"
        lake = f"[catalogs.l]\ntype = 'lake'\nwarehouse = '{tmp_path / 'lake'}'\n"
        path.write_text(lake + "".join(map(each.format, names)))
        return str(path)

    return write


def test_sweep_tells_what_was_dropped_in_every_sql_server(servers, capsys, tmp_path):
    assert main(["doctor", "--sweep", "--config", servers("full", "clean")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "full: dropped dbo.left_over",
        "full: dropped s.b",
        "clean: there was nothing to drop",
    ]
    assert [each.closed for each in SWEPT] == [True, True]
    assert not (tmp_path / "lake").exists()


def test_server_that_cannot_be_swept_fails_and_the_others_are_swept(servers, capsys):
    assert main(["doctor", "--sweep", "--config", servers("down", "full")]) == 1
    said = capsys.readouterr()
    assert "full: dropped s.b" in said.out
    assert "catalog 'down' was not swept: db does not answer" in said.err
    assert [each.closed for each in SWEPT] == [True, True]


def test_sweep_refuses_a_wrong_configuration(tmp_path, capsys):
    assert main(["doctor", "--sweep", "--config", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
