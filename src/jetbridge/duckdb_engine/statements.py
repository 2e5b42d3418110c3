"""Runs SQL in DuckDB, in this one place only, each time as one statement of an expected kind.

DuckDB's own parser says what a text is, and what it has parsed is what runs: text that would become
two statements, or another one, is refused before anything happens. Text of users that becomes a
part of a statement is an expression by the same parser (`expression_tree`).
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, TypeVar

import duckdb

from jetbridge.errors import BadRequest

Cursor = duckdb.DuckDBPyConnection
Tree = dict[str, Any]

# For a text that DuckDB rewrites into others: PIVOT without values, PRAGMA, IMPORT DATABASE.
REWRITTEN = "MULTI"
QUERY, EXPLAIN, CREATE, DROP, SET, LOAD, ATTACH, DETACH = [
    "SELECT",
    "EXPLAIN",
    "CREATE",
    "DROP",
    "SET",
    "LOAD",
    "ATTACH",
    "DETACH",
]
_LONGEST = 400
_LONGEST_QUOTE = 120
# It parses and runs nothing else. Even to parse IMPORT DATABASE reads files, so it may read none.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "memory_limit": "256MB",
    "temp_directory": "",
    "threads": 1,
    "lock_configuration": True,
}
# DuckDB takes them away where it believes to be outside of quotes.
_IGNORED = re.compile("[\u00a0\u2000-\u200d\u202f\u205f\u2060\u3000\ufeff]")
_LOCATION = re.compile(r'"query_location": \d+')
_lock = threading.Lock()
_instance: Cursor | None = None
T = TypeVar("T")
# Runs a function of `TEXT_FUNCTIONS`, by its name, on a text.
TextReader = Callable[[str, str], Any]
_reader: ContextVar[TextReader | None] = ContextVar("reader", default=None)


@contextmanager
def reading_texts(reader: TextReader) -> Iterator[None]:
    """Let `reader` run the functions of `TEXT_FUNCTIONS` in this thread until the block ends."""
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


def _by_reader(function: Callable[[str], T]) -> Callable[[str], T]:
    @wraps(function)
    def call(text: str) -> T:
        reader = _reader.get()
        if reader is None:
            return function(text)
        result: T = reader(function.__name__, text)
        return result

    return call


def _checked_by_reader(function: Callable[[str], str]) -> Callable[[str], str]:
    @wraps(function)
    def call(text: str) -> str:
        reader = _reader.get()
        if reader is None:
            return function(text)
        reader(function.__name__, text)
        return text

    return call


def execute(cursor: Cursor, text: str, *kinds: str, parameters: Any = None) -> Cursor:
    """Run one statement of one of these kinds, by DuckDB's names for them; without any, SELECT.

    Raises BadRequest for any other text, and `duckdb.Error`.
    """
    statement = parsed(cursor, text, *kinds)
    try:
        return cursor.execute(statement, parameters)
    except UnicodeDecodeError:
        # DuckDB's message quotes bytes of a value, which are not UTF-8.
        raise duckdb.InvalidInputException("a value has bytes that cannot be shown") from None


def parsed(cursor: Cursor, text: str, *kinds: str) -> duckdb.Statement:
    """Return the text as one statement of one of these kinds; raise what `execute` raises."""
    expected = kinds or (QUERY,)
    statements = _extracted(cursor, text)
    parsed_kinds = [_kind(statement, text) for statement in statements]
    if len(parsed_kinds) != 1 or parsed_kinds[0] not in expected:
        raise BadRequest(
            f"expected one {' or '.join(expected)} statement, found {_listed(parsed_kinds)}"
        )
    return statements[0]


@_by_reader
def kind_of_statement(text: str) -> str:
    """Return what DuckDB calls a statement: SELECT, CREATE, ..., or REWRITTEN; "" for no statement.

    Raises BadRequest for more than one, and for what DuckDB refuses, with its reason and place.
    """
    with _parser() as cursor:
        try:
            kinds = [_kind(statement, text) for statement in _extracted(cursor, text)]
        except duckdb.PermissionException:  # to parse it, DuckDB would read files
            return REWRITTEN
        except duckdb.Error as error:
            raise BadRequest(_sentence(str(error))) from None
    if REWRITTEN in kinds:
        return REWRITTEN
    if len(kinds) > 1:
        raise BadRequest(f"expected one statement, found {_listed(kinds)}")
    return kinds[0] if kinds else ""


def _extracted(cursor: Cursor, text: str) -> list[duckdb.Statement]:
    _check_characters(text)
    statements = cursor.extract_statements(text)
    if _IGNORED.search(text) and any(_kind(s, text) == REWRITTEN for s in statements):
        raise BadRequest(
            "the statement has a character without width, or a space that is not ASCII, outside of "
            "quotes: write a plain space"
        )
    return statements


def _check_characters(text: str) -> None:
    """Raise BadRequest for a NUL, at which DuckDB would stop, and run what is before it."""
    if "\0" in text:
        raise BadRequest("the statement contains a NUL character: write chr(0)")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest("the statement is not valid Unicode text") from None


def _kind(statement: duckdb.Statement, text: str) -> str:
    """Return the kind of a statement; REWRITTEN if its text is not a part of the whole text."""
    query = str(statement.query)
    return statement.type.name if query and query in text else REWRITTEN


def _listed(kinds: Sequence[str]) -> str:
    return " and ".join(kinds) or "none"


def in_brackets(text: str) -> str:
    """Return the text, if its end closes a bracket at its start; raise BadRequest if not.

    So it is a list and nothing more, such as the columns of CREATE TABLE without AS SELECT.
    """
    encoded = text.encode().rstrip()
    starts = [start for start, _ in duckdb.tokenize(text)]
    depth, end = 0, -1
    for start in starts:
        mark = encoded[start : start + 1]
        depth += (mark == b"(") - (mark == b")")
        if not depth:
            end = start
            break
    if encoded[:1] + encoded[end:] != b"()" or end != starts[-1]:
        raise BadRequest(f"{short(text)} is not one list in brackets")
    return text


@_by_reader
def token_starts(text: str) -> list[int]:
    """Return where DuckDB's tokens begin, in bytes of UTF-8, up to the first error."""
    return [start for start, _ in duckdb.tokenize(text)]


def expression_tree(text: str) -> Tree:
    """Return one expression as DuckDB has parsed it; raise BadRequest for any other text.

    The text must be one expression with brackets around it and without: `1) || (2` is one only
    within them. A comment at its end does not take what follows, if that is in another line.
    """
    tree = _single(_serialized(f"SELECT ({text}\n)", text), text)
    _single(_serialized(f"SELECT {text}\n", text), text)
    return tree


@_checked_by_reader
@lru_cache(maxsize=1024)
def check_expression_text(text: str) -> str:
    """Return the text, if it is one expression wherever it is put; raise BadRequest if not.

    Unlike a stored expression it may hold queries, and names of anything.
    """
    _single(_serialized(f"SELECT ({text})", text), text)
    _single(_serialized(f"SELECT {text}", text), text)
    return text


def query_tree(text: str) -> Tree:
    """Return one query as DuckDB has parsed it; raise BadRequest for any other text."""
    check_query_text(text)
    return _serialized(text, text, "query")


@_checked_by_reader
@lru_cache(maxsize=256)
def check_query_text(text: str) -> str:
    """Return the text, if it is one query; raise BadRequest if not."""
    if kind_of_statement(text) != QUERY:
        raise BadRequest(f"{short(text)} is not one query")
    return text


@_checked_by_reader
def check_with_text(text: str) -> str:
    """Return the text, if it is WITH and what may precede SELECT; raise BadRequest if not."""
    part = _check_part(f"{text} SELECT 1", "SELECT 1", text, "cte_map")
    check_query_text(f"{text} SELECT 1")
    return part


@_checked_by_reader
@lru_cache(maxsize=256)
def check_list_text(text: str) -> str:
    """Return the text, if it may stand between SELECT and FROM; raise BadRequest if not."""
    return _check_part(f"SELECT {text}", "SELECT 1", text, "select_list")


@_checked_by_reader
@lru_cache(maxsize=256)
def check_sources_text(text: str) -> str:
    """Return the text, if it may stand between FROM and WHERE; raise BadRequest if not."""
    return _check_part(f"SELECT 1 FROM x, {text}", "SELECT 1 FROM x", text, "from_table")


def _check_part(statement: str, plain: str, text: str, part: str) -> str:
    """Return the text; raise BadRequest if the statements differ in more than this part."""
    whole, bare = _serialized(statement, text), _serialized(plain, text)
    for tree in (whole, bare):
        tree["statements"][0]["named_param_map"] = None
        tree["statements"][0]["node"][part] = None
    if _LOCATION.sub("", json.dumps(whole)) != _LOCATION.sub("", json.dumps(bare)):
        raise BadRequest(f"{short(text)} is more than it may be here")
    return text


def printed(tree: Tree) -> str:
    """Return an expression in DuckDB's own spelling; raise `duckdb.Error`."""
    document = json.loads(_bare())
    document["statements"][0]["node"]["select_list"] = [tree]
    sql = _scalar("SELECT json_deserialize_sql(?::JSON)", json.dumps(document))
    return sql.removeprefix("SELECT ")


def _serialized(statement: str, text: str, what: str = "expression") -> Tree:
    try:
        with _parser() as cursor:
            _extracted(cursor, statement)
        answer: Tree = json.loads(_scalar("SELECT json_serialize_sql(?::VARCHAR)", statement))
    except duckdb.Error as error:
        raise BadRequest(_about(f"{what} {short(text)}", str(error))) from None
    except RecursionError:
        raise BadRequest(f"{what} {short(text)} is nested too deeply") from None
    if answer["error"]:
        raise BadRequest(_about(f"{what} {short(text)}", str(answer["error_message"])))
    return answer


def _about(what: str, message: str) -> str:
    first = message.split("\n", 1)[0][:300]
    return f"{what}: {first}"[: _LONGEST + 50]


@lru_cache(maxsize=1)
def _bare() -> str:
    """Return the tree of a SELECT with one expression, without the expression."""
    answer = _serialized("SELECT 1", "1")
    answer["statements"][0]["node"]["select_list"] = None
    return json.dumps(answer)


def _single(answer: Tree, text: str) -> Tree:
    node = answer["statements"][0]["node"]
    items = node.get("select_list") or []
    node["select_list"] = None
    if len(items) != 1 or items[0].get("alias") or not _is_bare(answer):
        raise BadRequest(f"{short(text)} is not one expression")
    tree: Tree = items[0]
    return tree


def _is_bare(answer: Tree) -> bool:
    bare = json.loads(_bare())
    # Parameters are counted beside the tree.
    for tree in (answer, bare):
        tree["statements"][0]["named_param_map"] = None
    return bool(answer == bare)


def _scalar(sql: str, parameter: str) -> str:
    with _parser() as cursor:
        row = cursor.execute(sql, [parameter]).fetchone()
    return str(row[0]) if row else ""


def _parser() -> Cursor:
    """Return a cursor; `with` closes it."""
    global _instance  # noqa: PLW0603 - one for the process, made at the first use
    with _lock:
        if _instance is None:
            _instance = duckdb.connect(":memory:", config=_CONFIG)
        return _instance.cursor()


def short(text: str) -> str:
    """Return a text in brackets, cut to a length that fits into a message."""
    text = " ".join(text.replace("\0", "\\0").split())
    return f"({text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + '...'})"


def _sentence(message: str) -> str:
    """Return `Parser Error: ...` and the line with its marker, in one line."""
    first, _, rest = message.partition("\n")
    where = next((line for line in rest.splitlines() if line.startswith("LINE ")), "")
    return f"{first}{' at ' + where.strip() if where else ''}"[:_LONGEST]


# What the pipeline reads out of the text of a statement. The checks return the text itself.
TEXT_FUNCTIONS: Mapping[str, Callable[[str], Any]] = {
    function.__name__: function
    for function in (
        kind_of_statement,
        token_starts,
        check_expression_text,
        check_query_text,
        check_with_text,
        check_list_text,
        check_sources_text,
    )
}
