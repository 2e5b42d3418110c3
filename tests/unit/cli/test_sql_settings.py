"""`jetbridge sql`: settings of SQL Server by --set, and what --echo does not show."""

import pytest

from jetbridge.cli import main

WORD = "hunter2"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "jetbridge.toml"
    path.write_text("[catalogs.memory]\ntype = 'memory'")
    return str(path)


def test_set_takes_settings_of_sql_server(config, capsys):
    given = ["--set", "mssql_ctas_text_type=varchar", "--format", "csv"]
    assert main(["sql", "--config", config, *given, "SHOW mssql_ctas_text_type"]) == 0
    assert capsys.readouterr().out.splitlines() == ["mssql_ctas_text_type", "VARCHAR"]


def test_set_takes_what_means_nothing_here_and_says_so(config, capsys):
    given = ["--set", "mssql_query_timeout=0", "--format", "csv"]
    assert main(["sql", "--config", config, *given, "SELECT 1 AS a"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines() == ["a", "1"]
    assert said.err == "--set mssql_query_timeout: it has no effect here\n"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("mssql_ctas_text_type=TEXT", "--set: Invalid mssql_ctas_text_type: 'TEXT'. Must be"),
        ("mssql_ctas_text_typ=x", "did you mean mssql_ctas_text_type"),
    ],
)
def test_wrong_setting_is_wrong_usage(config, capsys, given, problem):
    assert main(["sql", "--config", config, "--set", given, "SELECT 1"]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"CREATE SECRET x (TYPE mssql, PASSWORD '{WORD}')", 0),
        (f"CREATE SECRET x (TYPE mssql, PASSWORD '{WORD}', PORT 1)", 1),
        (f"ATTACH 'Server=db;Password={WORD}' AS m (TYPE mssql)", 1),
        (f"ATTACH 'Server=db;Database=d;Password={WORD}' AS m", 1),
        (f"ATTAC 'mssql://u:{WORD}@db/s' AS m", 1),
    ],
)
def test_nothing_that_is_said_has_the_password(config, capsys, text, code):
    assert main(["sql", "-v", "--echo", "--config", config, text]) == code
    said = capsys.readouterr()
    assert f"> {text.split(maxsplit=1)[0]} " in said.err
    assert WORD not in said.out + said.err
