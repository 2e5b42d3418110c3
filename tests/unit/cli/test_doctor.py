import json

import pytest

from jetbridge.cli import main
from jetbridge.cli.doctor import _package, _satisfies


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
