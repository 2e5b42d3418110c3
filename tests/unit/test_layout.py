"""Sizes that ruff cannot count, and what an `__init__.py` may hold."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("src", "tests", "tools", "examples", "benchmarks")
FUNCTION_LINES = 40
MODULE_LINES = 400
CONFTEST_LINES = 300
DEF = re.compile(r"( *)(?:async )?def ")
# A lazy attribute (PEP 562) is a re-export too.
RE_EXPORTS = (ast.Import, ast.ImportFrom)


def modules() -> list[Path]:
    found = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]
    return [path for path in found if not path.name.endswith("_pb2.py")]


def long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if lines > FUNCTION_LINES:
                yield f"{node.name}: {lines} lines"


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """What a function says of itself is no part of its size."""
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
        yield from (f"{path.relative_to(ROOT)}: {each}" for each in long_functions(ast.parse(text)))


def may_have_long_functions(text: str) -> bool:
    """Without reading all of it: a function ends before the next one that is not inside it."""
    lines = text.splitlines()
    begins = [(at, len(found[1])) for at, line in enumerate(lines) if (found := DEF.match(line))]
    for number, (start, depth) in enumerate(begins):
        after = (at for at, other in begins[number + 1 :] if other <= depth)
        if next(after, len(lines)) - start > FUNCTION_LINES:
            return True
    return False


def test_modules_and_their_functions_are_short():
    assert [each for path in modules() for each in problems(path)] == []


def is_re_export(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.FunctionDef(name="__getattr__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return all(isinstance(each, RE_EXPORTS) for each in body)
    return False


def test_init_only_re_exports():
    for path in modules():
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            assert [ast.unparse(node) for node in body if not is_re_export(node)] == [], path


@pytest.mark.parametrize(
    ("lines", "found"), [(FUNCTION_LINES, []), (FUNCTION_LINES + 1, ["f: 41 lines"])]
)
def test_function_of_forty_lines_is_the_longest_allowed(lines, found):
    source = "def f():\n" + "    pass\n" * (lines - 1)
    assert list(long_functions(ast.parse(source))) == found
    assert may_have_long_functions(source) == bool(found)


def test_docstring_does_not_count():
    source = 'def f():\n    """Does.\n\n    More.\n    """\n' + "    pass\n" * (FUNCTION_LINES - 1)
    assert list(long_functions(ast.parse(source))) == []
