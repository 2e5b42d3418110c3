"""Names and messages use plain words: docs/glossary.md lists the terms."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jetbridge

ROOT = Path(jetbridge.__file__).parent
# Rooms that do not follow these rules yet.
EXCLUDED = ("pipeline/translate",)
# The report of `jetbridge doctor --format json` has a key `found`.
ALLOWED = {("cli/doctor.py", "found")}
# A variable says what it holds, a function what it does.
PRIVATE_WORDS = {
    *("asked", "chosen", "declared", "desk", "each", "found", "given", "how", "laid", "made"),
    *("now", "place", "planned", "said", "seen", "settled", "shown", "there", "told", "wanted"),
    *("words", "written"),
}
# First words that are no verbs.
NO_VERBS = {
    *("a", "all", "also", "an", "another", "any", "as", "at", "both", "by", "each", "every", "for"),
    *("from", "how", "if", "in", "it", "its", "of", "one", "only", "or", "same", "such", "that"),
    *("the", "their", "these", "this", "to", "what", "when", "where", "whether", "which", "with"),
    "without",
}
PHRASES = ("is not taken", "takes no ", "is told", "letters that", "text in quotes")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(EXCLUDED):
            yield name, ast.parse(path.read_text())


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text


def test_names_are_not_private_words():
    private = [
        f"{module}:{line}: {name}"
        for module, tree in modules()
        for line, name in names(tree)
        if name.strip("_").lower() in PRIVATE_WORDS and (module, name) not in ALLOWED
    ]
    assert private == []


def test_messages_are_in_plain_words():
    private = [
        f"{module}:{line}: {phrase}"
        for module, tree in modules()
        for line, text in strings(tree)
        for phrase in PHRASES
        if phrase in text
    ]
    assert private == []


def test_docstrings_begin_with_a_verb():
    others = [
        f"{module}:{node.lineno}: {docstring[:50]}"
        for module, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (docstring := ast.get_docstring(node) or "Return")
        and docstring.split()[0].lower() in NO_VERBS
    ]
    assert others == []
