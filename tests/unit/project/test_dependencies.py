"""Every package that the code imports is declared in pyproject.toml, where it is needed."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src/jetbridge"
# Modules that need an extra: the first folder that matches says which.
ROOMS = {
    "backends/lake": "lake",
    "spark": "lake",
    "pipeline/query/run_on_spark.py": "lake",
    "pipeline/translate": "lake",
    "backends/mssql": "mssql",
}


class Requirement(NamedTuple):
    name: str
    specifier: str
    extra: str


def declared_requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return [read(text, extra) for extra, texts in groups.items() for text in texts]


def read(text: str, extra: str) -> Requirement:
    found = re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?(.*)", text)
    assert found, text
    return Requirement(found[1].lower(), found[2], extra)


REQUIREMENTS = declared_requirements()


def imports(path: Path) -> Iterator[str]:
    """Yield the top-level packages that a module imports and that are not Python's own."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module)):
                names = [module]
            case _:
                continue
        for name in names:
            package = name.partition(".")[0]
            if package not in sys.stdlib_module_names and package != "jetbridge":
                yield package


def extra_of(path: Path) -> str:
    place = path.relative_to(SOURCE).as_posix()
    return next((extra for room, extra in ROOMS.items() if place.startswith(room)), "")


def undeclared(path: Path, distributions: dict[str, list[str]]) -> Iterator[str]:
    extras = {"", extra_of(path)}
    declared = {row.name for row in REQUIREMENTS if row.extra in extras}
    for package in set(imports(path)):
        names = {name.lower() for name in distributions.get(package, [package])}
        if not names & declared:
            yield f"{path.relative_to(SOURCE)}: {package}"


def test_every_import_is_declared_in_the_core_or_in_the_extra_of_its_room():
    distributions = dict(packages_distributions())
    modules = sorted(SOURCE.rglob("*.py"))
    assert [row for path in modules for row in undeclared(path, distributions)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_the_extras_exist(room):
    assert (SOURCE / room).exists()
