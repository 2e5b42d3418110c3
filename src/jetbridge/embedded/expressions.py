"""SQL expressions of users: parsed by DuckDB, judged by their parse tree, never by their text.

A text is parsed as `SELECT (text)`, and without the brackets, because `1) || (2` is an expression
only within them. Only if the tree is one expression and nothing else, DuckDB turns it back into
text, and that is what is kept and run: brackets or comments in the text of the user cannot reach
the statement around it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.embedded.sandbox import (
    EXPRESSION_SECONDS,
    first_line,
    quoted,
    refusal,
    session,
)
from jetbridge.embedded.statements import (
    CREATE,
    EXPLAIN,
    QUERY,
    execute,
    expression_tree,
    printed,
    short,
)
from jetbridge.embedded.types import duckdb_types
from jetbridge.errors import BadRequest
from jetbridge.names import fold

Tree = dict[str, Any]

_REFUSED_CLASSES = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "DEFAULT": "DEFAULT",
}
# Read or change the state of the server's own DuckDB, or stop it.
_ENVIRONMENT = frozenset(
    [
        "current_setting",
        "getvariable",
        "nextval",
        "currval",
        "setseed",
        "sleep_ms",
        "pg_sleep",
        "write_log",
        "stats",
        "error",
        "current_query",
        "current_query_id",
        "current_connection_id",
        "current_transaction_id",
        "txid_current",
        "current_catalog",
        "current_database",
        "current_schema",
        "current_schemas",
        "in_search_path",
        "current_role",
        "current_user",
        "session_user",
        "user",
        "version",
        "get_block_size",
        "pg_conf_load_time",
        "pg_postmaster_start_time",
    ]
)
# Their time grows with the product of two lengths, and DuckDB cannot be interrupted in them.
SLOW = frozenset(
    [
        "levenshtein",
        "editdist3",
        "damerau_levenshtein",
        "jaro_similarity",
        "jaro_winkler_similarity",
    ]
)
# Fine as a default, but a CHECK must give the same answer whenever it is asked.
_CHANGING = frozenset(
    [
        "random",
        "uuid",
        "uuidv4",
        "uuidv7",
        "gen_random_uuid",
        "now",
        "today",
        "current_date",
        "current_time",
        "current_timestamp",
        "current_localtime",
        "current_localtimestamp",
        "localtime",
        "localtimestamp",
        "get_current_time",
        "get_current_timestamp",
        "transaction_timestamp",
        "ago",
    ]
)
_LAMBDA_FUNCTIONS = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "list_", "array_")
    for name in ("transform", "apply", "filter", "reduce")
)
# The tree of a text is about a hundred times as long.
_MAX_LENGTH = 10_000


@dataclass(frozen=True)
class Expression:
    """`sql` is DuckDB's own spelling of the tree; names are in lower case.

    `columns` are the first parts of the column references that are no lambda parameters.
    """

    text: str
    sql: str
    tree: Tree
    columns: frozenset[str]
    functions: frozenset[str]
    classes: frozenset[str]


@lru_cache(maxsize=128)
def parse(text: str) -> Expression:
    """Raises BadRequest for anything but one expression."""
    if len(text) > _MAX_LENGTH:
        raise BadRequest(f"expression of {len(text)} characters is too long")
    try:
        tree = expression_tree(text)
        nodes = list(_nodes(tree))
        return Expression(
            text,
            sql=_printed(tree, text),
            tree=tree,
            columns=frozenset(fold(n["column_names"][0]) for n in _references(tree)),
            functions=frozenset(fold(n.get("function_name", "")) for n in nodes),
            classes=frozenset(n.get("class", "") for n in nodes),
        )
    except RecursionError:
        raise BadRequest(f"expression {short(text)} is nested too deeply") from None


def _printed(tree: Tree, text: str) -> str:
    try:
        return printed(tree)
    except duckdb.Error as error:
        raise BadRequest(f"expression {short(text)}: {first_line(error)}"[:450]) from None


def check_expression(
    text: str, schema: pa.Schema, table: str = "", seconds: float = EXPRESSION_SECONDS
) -> Expression:
    """A CHECK over one row of the schema; raises BadRequest that names what is wrong.

    The name of the table before a column is taken away: the table may be renamed.
    """
    expression = _unqualified(parse(text), table, schema)
    what = f"CHECK {short(text)}"
    if any(_is_single_age(node) for node in _nodes(expression.tree)):
        raise BadRequest(f"{what} must not call age() without a second date")
    _refuse(expression, what, _ENVIRONMENT | SLOW | _CHANGING, schema)
    definitions = [
        f"{quoted(field.name)} {sql}"
        for field, sql in zip(schema, duckdb_types(schema), strict=True)
    ]
    definitions.append(f"CHECK ({expression.sql})")
    _bind(
        [
            f"CREATE TEMP TABLE jetbridge_check ({', '.join(definitions)})",
            f"SELECT CAST(({expression.sql}) AS BOOLEAN) FROM jetbridge_check",
        ],
        what,
        seconds,
    )
    return expression


def _is_single_age(node: Tree) -> bool:
    return node.get("function_name") == "age" and len(node["children"]) == 1


def _unqualified(expression: Expression, table: str, schema: pa.Schema) -> Expression:
    known = {fold(name) for name in schema.names}
    if not table or fold(table) not in expression.columns or fold(table) in known:
        return expression
    tree = json.loads(json.dumps(expression.tree))
    for node in _references(tree):
        names = node["column_names"]
        if len(names) > 1 and fold(names[0]) == fold(table):
            del names[0]
    return parse(_printed(tree, expression.text))


def row_expression(text: str, schema: pa.Schema, seconds: float = EXPRESSION_SECONDS) -> Expression:
    """An expression over one row, as in ALTER COLUMN ... USING; raises BadRequest."""
    expression = parse(text)
    what = f"expression {short(text)}"
    _refuse(expression, what, _ENVIRONMENT | SLOW, schema)
    columns = [
        f"CAST(NULL AS {sql}) AS {quoted(field.name)}"
        for field, sql in zip(schema, duckdb_types(schema), strict=True)
    ]
    # The aggregates are refused because they are not allowed in WHERE.
    _bind(
        [f"EXPLAIN SELECT 1 FROM (SELECT {', '.join(columns)}) WHERE ({expression.sql}) IS NULL"],
        what,
        seconds,
    )
    return expression


def default_expression(text: str, field: pa.Field) -> Expression:
    """A default for the field: no columns, and a value that can be cast; raises BadRequest."""
    expression = parse(text)
    what = f"default {short(text)} of column {field.name!r}"
    _refuse(expression, what, _ENVIRONMENT | SLOW, pa.schema([]))
    kind = duckdb_types(pa.schema([field]))[0]
    _bind(
        [f"SELECT CAST(({expression.sql}) AS {kind}) WHERE ({expression.sql}) IS NULL OR true"],
        what,
        EXPRESSION_SECONDS,
    )
    return expression


def renamed(text: str, old: str, new: str) -> str:
    """The expression with column `old` called `new`."""
    expression = parse(text)
    if fold(old) not in expression.columns:
        return text
    tree = json.loads(json.dumps(expression.tree))
    for node in _references(tree):
        if fold(node["column_names"][0]) == fold(old):
            node["column_names"][0] = new
    return _printed(tree, text)


def _refuse(
    expression: Expression, what: str, functions: frozenset[str], schema: pa.Schema
) -> None:
    for name in sorted(expression.classes & _REFUSED_CLASSES.keys()):
        raise BadRequest(f"{what} must not contain {_REFUSED_CLASSES[name]}")
    for name in sorted(expression.functions & functions):
        raise BadRequest(f"{what} must not call {name}()")
    known = {fold(name) for name in schema.names}
    for name in sorted(expression.columns - known):
        # A bare name such as current_date is parsed as a column and bound as a function.
        if name in functions:
            raise BadRequest(f"{what} must not call {name}")
        if name not in _CHANGING:
            raise BadRequest(f"{what} names the unknown column {name!r}")


def _bind(statements: Sequence[str], what: str, seconds: float) -> None:
    try:
        # Binding runs what is constant.
        with session(seconds=seconds) as cursor:
            for each in statements:
                execute(cursor, each, CREATE, QUERY, EXPLAIN)
    except duckdb.Error as error:
        raise refusal(error, what) from None


def _nodes(tree: Any) -> Iterator[Tree]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


def _references(tree: Any, hidden: frozenset[str] = frozenset()) -> Iterator[Tree]:
    """The column references below, but for the parameters of lambdas."""
    if isinstance(tree, list):
        for item in tree:
            yield from _references(item, hidden)
    elif isinstance(tree, dict):
        yield from _references_of_node(tree, hidden)


def _references_of_node(tree: Tree, hidden: frozenset[str]) -> Iterator[Tree]:
    if tree.get("class") == "COLUMN_REF":
        if fold(tree["column_names"][0]) not in hidden:
            yield tree
        return
    takes_lambda = tree.get("function_name") in _LAMBDA_FUNCTIONS
    visit = _argument if takes_lambda else _references
    for item in tree["children"] if takes_lambda else tree.values():
        yield from visit(item, hidden)


def _argument(tree: Tree, hidden: frozenset[str]) -> Iterator[Tree]:
    # Elsewhere the same node is the JSON operator `->`, whose left side is a column.
    if tree.get("class") == "LAMBDA":
        names = {fold(node["column_names"][0]) for node in _references(tree["lhs"])}
        hidden, tree = hidden | names, tree["expr"]
    yield from _references(tree, hidden)
