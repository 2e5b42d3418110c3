"""The one place where SQL reaches DuckDB, each time as one statement of the kind that is meant.

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
    """Runs one statement of one of these kinds, by DuckDB's names for them; else SELECT.

    Raises BadRequest for any other text, and `duckdb.Error`.
    """
    statement = parsed(cursor, text, *kinds)
    try:
        return cursor.execute(statement, parameters)
    except UnicodeDecodeError:
        # DuckDB's message quotes bytes of a value, which are not UTF-8.
        raise duckdb.InvalidInputException("a value has bytes that cannot be shown") from None


def parsed(cursor: Cursor, text: str, *kinds: str) -> duckdb.Statement:
    """The text as one statement of one of these kinds; raises what `execute` raises."""
    wanted = kinds or (QUERY,)
    statements = _extracted(cursor, text)
    found = [_kind(each, text) for each in statements]
    if len(found) != 1 or found[0] not in wanted:
        expected = " or ".join(wanted)
        raise BadRequest(f"expected one {expected} statement, found {_listed(found)}")
    return statements[0]


@_by_reader
def kind_of_statement(text: str) -> str:
    """What DuckDB calls it: SELECT, CREATE, MERGE_INTO, ..., or REWRITTEN; "" for no statement.

    Raises BadRequest for more than one, and with what DuckDB says, and where.
    """
    with _parser() as cursor:
        try:
            found = [_kind(each, text) for each in _extracted(cursor, text)]
        except duckdb.PermissionException:  # to parse it, DuckDB would read files
            return REWRITTEN
        except duckdb.Error as error:
            raise BadRequest(_sentence(str(error))) from None
    if REWRITTEN in found:
        return REWRITTEN
    if len(found) > 1:
        raise BadRequest(f"expected one statement, found {_listed(found)}")
    return found[0] if found else ""


def _extracted(cursor: Cursor, text: str) -> list[duckdb.Statement]:
    _check_characters(text)
    found = cursor.extract_statements(text)
    if _IGNORED.search(text) and any(_kind(each, text) == REWRITTEN for each in found):
        raise BadRequest(
            "the statement has a character without width, or a space that is not ASCII, outside of "
            "quotes: write a plain space"
        )
    return found


def _check_characters(text: str) -> None:
    """DuckDB would stop at a NUL, and run what is before it."""
    if "\0" in text:
        raise BadRequest("the statement contains a NUL character: write chr(0)")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest("the statement is not valid Unicode text") from None


def _kind(statement: duckdb.Statement, text: str) -> str:
    """One that is no part of the text was made by DuckDB of something else."""
    written = str(statement.query)
    return statement.type.name if written and written in text else REWRITTEN


def _listed(kinds: Sequence[str]) -> str:
    return " and ".join(kinds) or "none"


def in_brackets(text: str) -> str:
    """The text, if a bracket at its start is closed by its end; raises BadRequest.

    So it is a list and nothing more, such as the columns of CREATE TABLE without AS SELECT.
    """
    wanted = text.encode().rstrip()
    starts = [start for start, _ in duckdb.tokenize(text)]
    depth, end = 0, -1
    for start in starts:
        mark = wanted[start : start + 1]
        depth += (mark == b"(") - (mark == b")")
        if not depth:
            end = start
            break
    if wanted[:1] + wanted[end:] != b"()" or end != starts[-1]:
        raise BadRequest(f"{short(text)} is not one list in brackets")
    return text


@_by_reader
def token_starts(text: str) -> list[int]:
    """Where DuckDB's tokens begin, in bytes of UTF-8; it tells of no error, and stops there."""
    return [start for start, _ in duckdb.tokenize(text)]


def expression_tree(text: str) -> Tree:
    """One expression as DuckDB has parsed it; raises BadRequest for any other text.

    It is one with brackets around it and without: `1) || (2` is one only within them. A comment at
    its end does not take what follows, if that stands in another line.
    """
    tree = _single(_serialized(f"SELECT ({text}\n)", text), text)
    _single(_serialized(f"SELECT {text}\n", text), text)
    return tree


@_checked_by_reader
@lru_cache(maxsize=1024)
def check_expression_text(text: str) -> str:
    """The text, if it is one expression wherever it is put; raises BadRequest.

    Unlike a stored expression it may hold queries, and names of anything.
    """
    _single(_serialized(f"SELECT ({text})", text), text)
    _single(_serialized(f"SELECT {text}", text), text)
    return text


def query_tree(text: str) -> Tree:
    """One query as DuckDB has parsed it; raises BadRequest for any other text."""
    check_query_text(text)
    return _serialized(text, text, "query")


@_checked_by_reader
@lru_cache(maxsize=256)
def check_query_text(text: str) -> str:
    """The text, if it is one query; raises BadRequest."""
    if kind_of_statement(text) != QUERY:
        raise BadRequest(f"{short(text)} is not one query")
    return text


@_checked_by_reader
def check_with_text(text: str) -> str:
    """The text, if it is WITH and what may stand before SELECT; raises BadRequest."""
    part = _check_part(f"{text} SELECT 1", "SELECT 1", text, "cte_map")
    check_query_text(f"{text} SELECT 1")
    return part


@_checked_by_reader
@lru_cache(maxsize=256)
def check_list_text(text: str) -> str:
    """The text, if it is what may stand between SELECT and FROM; raises BadRequest."""
    return _check_part(f"SELECT {text}", "SELECT 1", text, "select_list")


@_checked_by_reader
@lru_cache(maxsize=256)
def check_sources_text(text: str) -> str:
    """The text, if it is what may stand between FROM and WHERE; raises BadRequest."""
    return _check_part(f"SELECT 1 FROM x, {text}", "SELECT 1 FROM x", text, "from_table")


def _check_part(statement: str, plain: str, text: str, part: str) -> str:
    """Whether the statement differs from the plain one in this part only."""
    found, bare = _serialized(statement, text), _serialized(plain, text)
    for each in (found, bare):
        each["statements"][0]["named_param_map"] = None
        each["statements"][0]["node"][part] = None
    if _LOCATION.sub("", json.dumps(found)) != _LOCATION.sub("", json.dumps(bare)):
        raise BadRequest(f"{short(text)} is more than it may be here")
    return text


def printed(tree: Tree) -> str:
    """An expression in DuckDB's own spelling; raises `duckdb.Error`."""
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
    """What the tree of a SELECT holds around its one expression, when nothing else was said."""
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
    for each in (answer, bare):
        each["statements"][0]["named_param_map"] = None
    return bool(answer == bare)


def _scalar(sql: str, parameter: str) -> str:
    with _parser() as cursor:
        row = cursor.execute(sql, [parameter]).fetchone()
    return str(row[0]) if row else ""


def _parser() -> Cursor:
    """A cursor; `with` closes it."""
    global _instance  # noqa: PLW0603 - one for the process, made at the first use
    with _lock:
        if _instance is None:
            _instance = duckdb.connect(":memory:", config=_CONFIG)
        return _instance.cursor()


def short(text: str) -> str:
    """For a message."""
    text = " ".join(text.replace("\0", "\\0").split())
    return f"({text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + '...'})"


def _sentence(message: str) -> str:
    """`Parser Error: ...` and the line with its marker, in one line."""
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
