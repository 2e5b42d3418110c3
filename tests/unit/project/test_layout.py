"""Checks sizes that ruff cannot count, the contents of `__init__.py`, and the size of folders."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("src", "tests", "standins", "tools", "examples", "benchmarks")
FUNCTION_LINES = 40
MODULE_LINES = 400
CONFTEST_LINES = 300
DEF = re.compile(r"( *)(?:async )?def ")
# A lazy attribute (PEP 562) is a re-export too.
RE_EXPORTS = (ast.Import, ast.ImportFrom)
# A reader sees a folder of this size at one glance; a smaller one should be a module.
FOLDER_ENTRIES = range(4, 16)
# Folders with more or fewer entries, and why.
OTHER_FOLDERS = {
    "src/jetbridge/duckdb_engine": "all that opens DuckDB stands side by side",
    "standins": "has one stand-in, which is a package of its own",
    "src/jetbridge": "the rooms of the whole project stand side by side, in the layers of the map",
    "src/jetbridge/backends/lake": "the rooms of the lake, and the modules below all of them",
    "src/jetbridge/pipeline/translate": "stays as it is until DuckDB's plans replace it",
    "src/jetbridge/pipeline/translate/entries": "stays as it is until DuckDB's plans replace it",
}


def modules() -> list[Path]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in paths if not path.name.endswith("_pb2.py")]


def long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if lines > FUNCTION_LINES:
                yield f"{node.name}: {lines} lines"


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a docstring, which do not count as lines of the function."""
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str()) as text):
            return (text.end_lineno or text.lineno) - text.lineno + 1
    return 0


def problems(path: Path) -> Iterator[str]:
    text = path.read_text()
    limit = CONFTEST_LINES if path.name == "conftest.py" else MODULE_LINES
    count = len(text.splitlines())
    if count > limit:
        yield f"{path.relative_to(ROOT)}: {count} lines"
    if may_have_long_functions(text):
        name = path.relative_to(ROOT)
        yield from (f"{name}: {function}" for function in long_functions(ast.parse(text)))


def may_have_long_functions(text: str) -> bool:
    """Return whether to parse the text: a function ends before the next one at its depth."""
    lines = text.splitlines()
    begins = [(at, len(match[1])) for at, line in enumerate(lines) if (match := DEF.match(line))]
    for number, (start, depth) in enumerate(begins):
        after = (at for at, other in begins[number + 1 :] if other <= depth)
        if next(after, len(lines)) - start > FUNCTION_LINES:
            return True
    return False


def test_modules_and_their_functions_are_short():
    assert [problem for path in modules() for problem in problems(path)] == []


def is_re_export(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__version__")]):
            return True
        case ast.FunctionDef(name="__getattr__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return all(isinstance(statement, RE_EXPORTS) for statement in body)
    return False


def test_init_only_re_exports():
    for path in modules():
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            assert [ast.unparse(node) for node in body if not is_re_export(node)] == [], path


@pytest.mark.parametrize(
    ("lines", "expected"), [(FUNCTION_LINES, []), (FUNCTION_LINES + 1, ["f: 41 lines"])]
)
def test_function_of_forty_lines_is_the_longest_allowed(lines, expected):
    source = "def f():\n" + "    pass\n" * (lines - 1)
    assert list(long_functions(ast.parse(source))) == expected
    assert may_have_long_functions(source) == bool(expected)


def test_docstring_does_not_count():
    source = 'def f():\n    """Does.\n\n    More.\n    """\n' + "    pass\n" * (FUNCTION_LINES - 1)
    assert list(long_functions(ast.parse(source))) == []


def folder_sizes() -> dict[str, int]:
    """Return the number of entries of each folder that has Python modules."""
    folders = {path.parent for top in FOLDERS for path in (ROOT / top).rglob("*.py")}
    sizes = {folder: len(entries(folder)) for folder in sorted(folders | {ROOT / "tests"})}
    return {
        str(folder.relative_to(ROOT)): size
        for folder, size in sizes.items()
        if size >= FOLDER_ENTRIES.start or not mirrors_a_room(folder)
    }


def mirrors_a_room(folder: Path) -> bool:
    """Return whether a folder has the unit tests of the room of the same name."""
    unit = ROOT / "tests" / "unit"
    return folder.is_relative_to(unit) and (
        (ROOT / "src" / "jetbridge" / folder.relative_to(unit)).is_dir()
    )


def entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, without what Python and tools write into it."""
    return [path for path in folder.iterdir() if path.is_file() or any(path.rglob("*.py"))]


def test_folders_have_four_to_fifteen_entries():
    sizes = folder_sizes()
    unusual = {folder: size for folder, size in sizes.items() if size not in FOLDER_ENTRIES}
    assert {folder: unusual[folder] for folder in unusual.keys() - OTHER_FOLDERS.keys()} == {}


def test_folders_of_another_size_need_to_be_that():
    sizes = folder_sizes()
    assert [folder for folder in OTHER_FOLDERS if sizes.get(folder, 4) in FOLDER_ENTRIES] == []


def test_entries_of_a_folder_are_counted_without_caches(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_bytes(b"")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text("")
    (tmp_path / "a.py").write_text("")
    assert {path.name for path in entries(tmp_path)} == {"room", "a.py"}


# Classes of one name, and why; `translate` stays as it is until DuckDB's plans replace it.
SHARED_CLASS_NAMES = {"_Meter": "two private ones: growth of `run`, growth of stored expressions"}


def test_name_of_a_class_means_one_thing():
    by_name: dict[str, list[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        if "translate" not in path.parts and not path.name.endswith("_pb2.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    by_name.setdefault(node.name, []).append(path.name)
    shared = {name: paths for name, paths in by_name.items() if len(paths) > 1}
    assert {name: shared[name] for name in shared.keys() - SHARED_CLASS_NAMES.keys()} == {}


# Names of what catalogs are, which the pipeline must not know (the backends describe themselves).
VENDORS = re.compile(r"mssql|sql ?server|tsql|t-sql|iceberg|\b(dbo|avro|lakes?)\b", re.IGNORECASE)
# The names of the extensions of DuckDB whose LOAD has no effect, as DuckDB's scripts have them.
VENDOR_LINES = {"parsing/parse.py": ['_BUILT_IN = ("mssql", "airport")']}


def test_pipeline_names_no_vendor():
    room = ROOT / "src/jetbridge/pipeline"
    named = {
        str(path.relative_to(room)): lines
        for path in sorted(room.rglob("*.py"))
        if path.relative_to(room).parts[0] != "translate"
        and (lines := [line for line in path.read_text().splitlines() if VENDORS.search(line)])
    }
    assert named == VENDOR_LINES
