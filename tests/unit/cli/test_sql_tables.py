"""Tables that `jetbridge sql` draws: how wide they get, and what is cut."""

import pytest

from jetbridge.cli import main
from jetbridge.cli.sql import WIDEST, format_table


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("x" * WIDEST, "x" * WIDEST),
        ("x" * (WIDEST + 1), "x" * (WIDEST - 1) + "…"),
        ("x" * 100_000, "x" * (WIDEST - 1) + "…"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\n" * (WIDEST // 2 + 1), "\\n" * (WIDEST // 2 - 1) + "\\…"),
        (None, "NULL"),
    ],
)
def test_a_cell_is_one_line_and_no_wider_than_the_widest(cell, shown):
    *_, line = format_table(["a"], [[cell]], [False])
    assert line == shown


def test_a_column_is_as_wide_as_its_widest_cell_and_a_name_is_cut_too():
    lines = list(format_table(["n" * 99, "b"], [["x", "1"], ["y" * 99, "22"]], [False, True]))
    assert lines == [
        f"{'n' * (WIDEST - 1)}…  b",
        f"{'-' * WIDEST}  --",
        f"{'x':<{WIDEST}}   1",
        f"{'y' * (WIDEST - 1)}…  22",
    ]


def test_only_tables_are_cut(tmp_path, capsys):
    config = tmp_path / "jetbridge.toml"
    config.write_text("[catalogs.memory]\ntype = 'memory'")
    query, whole = "SELECT repeat('x', 100) AS a", "x" * 100
    texts = {
        "table": ["a", "-" * WIDEST, "x" * (WIDEST - 1) + "…"],
        "csv": ["a", whole],
        "json": [f'{{"a":"{whole}"}}'],
    }
    for style, lines in texts.items():
        assert main(["sql", "--config", str(config), "--format", style, query]) == 0
        assert capsys.readouterr().out.splitlines() == lines
