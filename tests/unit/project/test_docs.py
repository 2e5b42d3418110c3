"""The documents agree with the code, and their links lead somewhere."""

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import jetbridge
from jetbridge.backends.lake.config import LAKE_RULES, LakeConfig
from jetbridge.backends.mssql.config import MSSQL_KEYS
from jetbridge.backends.mssql.settings import ALIASES, IGNORED_SETTINGS, SETTINGS
from jetbridge.catalog.settings import SESSION_SETTINGS, byte_count
from jetbridge.config import RULES, TABLES, CatalogConfig, Config, ServerConfig, SqlConfig
from jetbridge.config.model import Limits
from jetbridge.pipeline import settings

MEMORY = Config(catalogs={"memory": CatalogConfig("memory")})
ROOT = Path(__file__).resolve().parents[3]
CONFIGURATION = ROOT / "docs/reference/configuration.md"
SECTIONS = {
    "server": ServerConfig,
    "limits": Limits,
    "sql": SqlConfig,
    "catalogs.NAME": LakeConfig,
}
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \| .+ \|$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def section(name: str) -> str:
    return CONFIGURATION.read_text().split(f"## `[{name}]`")[1].split("\n## ")[0]


def default_text(value: object) -> str:
    if value is None or value is MISSING:
        return "none"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


@pytest.mark.parametrize("name", SECTIONS)
def test_reference_lists_every_key_with_its_default(name):
    expected = {each.name: default_text(each.default) for each in fields(SECTIONS[name])}
    if name == "sql":
        # They are settings of sessions, which have the defaults.
        expected |= {"engine": '`"auto"`', "spark_from": '`"2GiB"`'}
    if name == "catalogs.NAME":
        # A type must be given, and properties are Iceberg's own keys.
        expected = {"type": "none", **{key: expected[key] for key in LAKE_RULES}}
        # Settings are on the page of statements, which the test below reads.
        own = {key: value for key, value in MSSQL_KEYS.items() if key not in SETTINGS}
        expected |= {key: default_text(value) for key, value in own.items()}
    assert ROW.findall(section(name)) == list(expected.items())


@pytest.mark.parametrize(
    ("name", "default"),
    [("engine", "auto"), ("spark_from", str(byte_count("spark_from", "2GiB")))],
)
def test_defaults_of_settings_are_those_of_sessions(name, default):
    (row,) = jetbridge.sql(f"SHOW {name}", MEMORY).to_pylist()
    assert row == {name: default}


def format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_reference_lists_every_setting_with_its_default_and_meaning():
    text = (ROOT / "docs/reference/sql.md").read_text()
    page = text.split("\n## Settings\n")[1].split("\n## ")[0]
    first = settings.SettingValues()
    expected = [(name, f"`{first.format_value(name)}`") for name in SESSION_SETTINGS]
    expected += [(name, f"`{format_value(each.default)}`") for name, each in SETTINGS.items()]
    assert ROW.findall(page) == expected
    assert [name for name, each in SETTINGS.items() if f"| {each.about}" not in page] == []


def test_reference_lists_the_settings_without_effect_and_the_other_names():
    text = (ROOT / "docs/reference/sql.md").read_text()
    assert [name for name in (*IGNORED_SETTINGS, *ALIASES) if f"`{name}`" not in text] == []
    assert IGNORED_SETTINGS.isdisjoint((*SETTINGS, *ALIASES))


@pytest.mark.parametrize("name", RULES)
def test_every_key_has_a_rule(name):
    assert list(RULES[name]) == [field.name for field in fields(SECTIONS[name])]


def test_every_table_of_the_file_has_a_section():
    headings = re.findall(r"^## `\[([a-z]+)", CONFIGURATION.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(TABLES)


def test_examples_of_the_reference_are_toml():
    blocks = re.findall(r"```toml\n(.*?)```", CONFIGURATION.read_text(), re.DOTALL)
    assert [set(tomllib.loads(block)) <= set(TABLES) for block in blocks] == [True]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    targets = LINK.findall(document.read_text())
    assert [each for each in targets if not (document.parent / each).exists()] == []


# A path such as `service/rpcs`, `src/jetbridge/wire/messages.py` or `backends/<name>/config.py`.
MODULE = re.compile(r"`((?:[a-z_]+|<name>|<family>)(?:/(?:[a-z_]+|<name>|<family>))+/?)(?:\.py)?`")
MODULES = {
    str(path.relative_to(ROOT).with_suffix(""))
    for folder in ("src", "tests", "docs", "tools", "benchmarks", "standins")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", "") and "__pycache__" not in path.parts
}


def is_module(path: str) -> bool:
    """Return whether the end of some module's path is this one; <...> stands for any name."""
    pattern = re.sub("<[a-z]+>", "[a-z_]+", path.rstrip("/"))
    return any(re.search(rf"(^|/){pattern}$", module) for module in MODULES)


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_modules_that_a_document_names_exist(document):
    paths = MODULE.findall((ROOT / document).read_text())
    assert len(paths) > 10  # noqa: PLR2004 - or the pattern no longer finds them
    assert [path for path in paths if not is_module(path)] == []
