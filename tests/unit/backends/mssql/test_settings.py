"""Every setting of SQL Server in the file, by --set and by SET: its first value, others, bad ones.

A new setting needs a line in `ALLOWED`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jetbridge.app.configuration import load_config
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.settings import SETTINGS, MssqlSettings
from jetbridge.cli import main
from jetbridge.config import ConfigError
from jetbridge.errors import BadRequest
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues

TRUTH = "Must be true or false"
BAD = "neither this nor that"
# Another value than the first, and what is said of those that are not allowed.
ALLOWED: dict[str, tuple[Any, str]] = {
    "ctas_drop_on_failure": (True, TRUTH),
    "ctas_text_type": ("VARCHAR", "Must be 'NVARCHAR' or 'VARCHAR'"),
    "ctas_text_length": ("auto", "Must be 'max', 'auto' or a number from 1 to 4000"),
    "default_string_length": (30, "Must be a number from 0 to 4000"),
    "ctas_tinyint": ("SMALLINT", "Must be 'TINYINT' or 'SMALLINT'"),
    "ctas_extended_types": (True, TRUTH),
    "ctas_use_bcp": (False, TRUTH),
    "ctas_atomic_replace": (False, TRUTH),
    "ctas_table_kind": ("columnstore", "Must be 'heap' or 'columnstore'"),
    "copy_flush_rows": (1000, "Must be a number from 1000 to 1000000000"),
    "copy_tablock": ("off", "Must be 'auto' or 'on' or 'off'"),
    "copy_parallel_writers": (8, "Must be a number from 0 to 8"),
    "insert_batch_size": (7, "Must be a number from 1 to 1000000"),
    "insert_max_rows_per_statement": (1, "Must be a number from 1 to 1000"),
    "insert_max_sql_bytes": (1024, "Must be a number from 1024 to 1073741824"),
    "direct_load_rows": (0, "Must be a number from 0 to 1000000000000"),
    "direct_load_bytes": (0, "Must be a number from 0 to 1152921504606846976"),
    "snapshot_reads": (False, TRUTH),
}
NAMES = list(SETTINGS)
RANGE = re.compile(r"number from (\d+) to (\d+)")


def field(name: str) -> str:
    return name.removeprefix("mssql_")


def other(name: str) -> Any:
    return ALLOWED[field(name)][0]


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def refused_values() -> Iterator[tuple[str, Any]]:
    """A text for each, and the numbers on both sides of a range."""
    for name in NAMES:
        yield name, BAD
        ends = RANGE.search(ALLOWED.get(field(name), ("", ""))[1])
        if ends:
            yield from ((name, int(ends[1]) - 1), (name, int(ends[2]) + 1))


REFUSED = list(refused_values())
pytestmark = pytest.mark.usefixtures("log_as_it_was")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jetbridge.toml"
    path.write_text("[catalogs.memory]\ntype = 'memory'\n")
    return path


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session({"memory": MemoryCatalog()}, SessionResources(settings=SettingValues(SETTINGS)))
    yield made
    made.close()


def read(folder: Path, name: str, value: Any) -> MssqlSettings:
    """What a file with this line says."""
    path = folder / "server.toml"
    line = f"{name} = {json.dumps(value)}"
    path.write_text(f"[catalogs.m]\ntype = 'mssql'\nserver = 'db'\ndatabase = 's'\n{line}\n")
    found = load_config(path).catalogs["m"]
    assert isinstance(found, MssqlConfig)
    return found.settings


def said(session: Session, text: str) -> list[list[dict[str, Any]]]:
    return [outcome.table().to_pylist() for outcome in run(session, text)]


def test_every_setting_is_known_here():
    assert [field(name) for name in NAMES] == list(ALLOWED)
    assert all(other(name) != SETTINGS[name].default for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_file_takes_it(tmp_path, name):
    default, value = SETTINGS[name].default, other(name)
    changed = replace(MssqlSettings(), **{field(name): value})
    assert read(tmp_path, name, default) == read(tmp_path, name, shown(default)) == MssqlSettings()
    assert read(tmp_path, name, value) == read(tmp_path, name, shown(value)) == changed


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_the_file_refuses_others_with_those_that_are_allowed(tmp_path, name, value):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, name, value)
    assert refused.value.key == f"catalogs.m.{name}"
    assert ALLOWED[field(name)][1] in str(refused.value)


@pytest.mark.parametrize("name", NAMES)
def test_set_takes_it(session, name):
    for value in (SETTINGS[name].default, other(name)):
        text = f"SET {name} = '{shown(value)}'; SHOW {name}"
        assert [*said(session, text)[-1][0].values()] == [shown(value)]
        changed = replace(MssqlSettings(), **{field(name): value})
        assert MssqlSettings().with_changes(session.settings.catalog_overrides) == changed
    assert [*said(session, f"RESET {name}; SHOW {name}")[-1][0].values()] == [
        shown(SETTINGS[name].default)
    ]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_set_refuses_others_with_those_that_are_allowed(session, name, value):
    allowed = re.escape(f"Invalid {name}: {str(value)!r}. {ALLOWED[field(name)][1]}")
    with pytest.raises(BadRequest, match=allowed):
        said(session, f"SET {name} = '{value}'")
    assert session.settings.catalog_overrides == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_command_takes_it(file, capsys, name):
    for value in (SETTINGS[name].default, other(name)):
        given = ["--set", f"{name}={shown(value)}", "--format", "csv"]
        assert main(["sql", "--config", str(file), *given, f"SHOW {name}"]) == 0
        assert capsys.readouterr().out.splitlines() == [name, shown(value)]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_the_command_refuses_others_with_those_that_are_allowed(file, capsys, name, value):
    assert main(["sql", "--config", str(file), "--set", f"{name}={value}", "SELECT 1"]) == 2
    told = capsys.readouterr()
    assert f"--set: Invalid {name}: {str(value)!r}. {ALLOWED[field(name)][1]}" in told.err
    assert told.out == ""


def test_first_values_are_those_of_the_document():
    settings = MssqlSettings()
    assert settings.ctas_drop_on_failure is False
    assert settings.ctas_text_type == "NVARCHAR"
    assert settings.insert_max_rows_per_statement == 1000


def test_every_setting_takes_its_first_value():
    texts = {name: str(each.default) for name, each in SETTINGS.items()}
    assert MssqlSettings().with_changes(texts) == MssqlSettings()


def test_values_are_read_whatever_their_case():
    given = {"mssql_ctas_text_type": "varchar", "MSSQL_CTAS_USE_BCP": "Off"}
    changed = MssqlSettings().with_changes(given)
    assert (changed.ctas_text_type, changed.ctas_use_bcp) == ("VARCHAR", False)


def test_the_kind_of_tables_goes_by_the_name_of_the_extension_too():
    changed = MssqlSettings().with_changes({"mssql_default_table_kind": "COLUMNSTORE"})
    assert changed == MssqlSettings(ctas_table_kind="columnstore")
    assert SETTINGS["mssql_ctas_table_kind"].also == ("mssql_default_table_kind",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mssql_ctas_text_type", "TEXT", "'NVARCHAR' or 'VARCHAR'"),
        ("mssql_ctas_use_bcp", "maybe", "true or false"),
        ("mssql_insert_max_rows_per_statement", "1001", "from 1 to 1000"),
        ("mssql_ctas_text_length", "5000", "'max', 'auto' or a number"),
        ("mssql_nonsense", "1", "known: mssql_ctas_drop_on_failure"),
    ],
)
def test_other_values_are_refused_with_what_is_allowed(name, value, allowed):
    with pytest.raises(BadRequest, match=allowed):
        MssqlSettings().with_changes({name: value})
