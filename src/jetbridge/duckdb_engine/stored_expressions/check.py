"""SQL expressions of users: parsed by DuckDB, judged by their parse tree, never by their text.

A text is parsed as `SELECT (text)`, and without the brackets, because `1) || (2` is an expression
only within them. Only if the tree is one expression and nothing else, DuckDB turns it back into
text, and that is what is kept and run: brackets or comments in the text of the user cannot reach
the statement around it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.functions import (
    AGGREGATES,
    CHANGING,
    REFUSED_FUNCTIONS,
    UNLISTED_CHANGING,
    is_stored,
    may_run,
)
from jetbridge.duckdb_engine.sandbox import (
    EXPRESSION_SECONDS,
    first_line,
    quoted,
    refusal,
    session,
)
from jetbridge.duckdb_engine.statements import (
    CREATE,
    EXPLAIN,
    QUERY,
    execute,
    expression_tree,
    printed,
    short,
)
from jetbridge.duckdb_engine.stored_expressions.call_growth import Growth
from jetbridge.duckdb_engine.stored_expressions.growth import growth
from jetbridge.duckdb_engine.types import duckdb_types
from jetbridge.errors import BadRequest

Tree = dict[str, Any]

# The tree of a text is about a hundred times as long.
_MAX_LENGTH = 10_000
# A filter is asked of whole files, in vectors of 2,048 rows, however long these are.
_MOST_OF_FILTER = 256


@dataclass(frozen=True)
class Expression:
    """`sql` is DuckDB's own spelling; names are in lower case.

    `columns` are the first parts of the column references; in those of `zoned` a time zone is
    looked for. A row can become a value as large as `value` says, and `work` is what is computed
    for it.
    """

    text: str
    sql: str
    columns: frozenset[str]
    functions: frozenset[str]
    classes: frozenset[str]
    value: Growth
    work: Growth
    zoned: frozenset[str]


@lru_cache(maxsize=128)
def parse(text: str) -> Expression:
    """Raises BadRequest for anything but one expression that a stored one may be.

    Those that are stored already are asked, too: they may be older than these rules.
    """
    if len(text) > _MAX_LENGTH:
        raise BadRequest(f"expression of {len(text)} characters is too long")
    try:
        tree = expression_tree(text)
        nodes = list(_nodes(tree))
        value, work, zoned = _measured(tree, text)
        return Expression(
            text,
            sql=_printed(tree, text),
            columns=frozenset(fold(n["column_names"][0]) for n in _references(tree)),
            functions=frozenset(fold(n.get("function_name", "")) for n in nodes),
            classes=frozenset(n.get("class", "") for n in nodes),
            value=value,
            work=work,
            zoned=zoned,
        )
    except RecursionError:
        raise BadRequest(f"expression {short(text)} is nested too deeply") from None


def may_be_stored(text: str) -> bool:
    """Return whether a text is an expression that may be evaluated here, and by clients."""
    try:
        parse(text)
    except BadRequest:
        return False
    return True


def _measured(tree: Tree, text: str) -> tuple[Growth, Growth, frozenset[str]]:
    what = f"expression {short(text)}"
    for node in _nodes(tree):
        if node.get("class") in ("FUNCTION", "WINDOW"):
            _refuse_function(node, what)
    try:
        return growth(tree)
    except BadRequest as error:
        raise BadRequest(f"{what} {error}") from None


def _refuse_function(node: Tree, what: str) -> None:
    name = fold(node["function_name"])
    # `x.f()` is f(x), which the tree does not say, and other catalogs have no functions.
    if node.get("catalog") or node.get("schema") not in ("", "main"):
        raise BadRequest(f"{what} must call {name}() without a name before it")
    if node["class"] == "WINDOW":
        raise BadRequest(f"{what} must not contain the window function {name}()")
    if is_stored(name):
        return
    if name in AGGREGATES:
        raise BadRequest(f"{what} must not call the aggregate {name}()")
    known = may_run(name) or name in REFUSED_FUNCTIONS
    raise BadRequest(f"{what} must not call {'' if known else 'the unknown function '}{name}()")


def _printed(tree: Tree, text: str) -> str:
    try:
        return printed(tree)
    except duckdb.Error as error:
        raise BadRequest(f"expression {short(text)}: {first_line(error)}"[:450]) from None


def check_expression(
    text: str, schema: pa.Schema, table: str = "", seconds: float = EXPRESSION_SECONDS
) -> Expression:
    """Return a CHECK over one row of the schema; raise BadRequest that names what is wrong.

    The name of the table before a column is taken away: the table may be renamed.
    """
    expression = _unqualified(parse(text), table, schema)
    what = f"CHECK {short(text)}"
    if any(_is_single_age(node) for node in _nodes(expression_tree(expression.sql))):
        raise BadRequest(f"{what} must not call age() without a second date")
    _refuse(expression, what, schema, changes=False)
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
    tree = expression_tree(expression.sql)
    for node in _references(tree):
        names = node["column_names"]
        if len(names) > 1 and fold(names[0]) == fold(table):
            del names[0]
    return parse(_printed(tree, expression.text))


def row_expression(text: str, schema: pa.Schema, seconds: float = EXPRESSION_SECONDS) -> Expression:
    """Return an expression over one row, as in ALTER COLUMN ... USING; raise BadRequest."""
    expression = parse(text)
    what = f"expression {short(text)}"
    _refuse(expression, what, schema)
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
    """Return a default for the field, without columns, that can be cast; raise BadRequest."""
    expression = parse(text)
    what = f"default {short(text)} of column {field.name!r}"
    _refuse(expression, what, pa.schema([]))
    kind = duckdb_types(pa.schema([field]))[0]
    _bind(
        [f"SELECT CAST(({expression.sql}) AS {kind}) WHERE ({expression.sql}) IS NULL OR true"],
        what,
        EXPRESSION_SECONDS,
    )
    return expression


def check_filter(sql: str) -> None:
    """Check a filter for all rows; raise BadRequest for what the client does itself."""
    work = parse(sql).work
    if work.squared or work.zoned or work.per_byte > _MOST_OF_FILTER:
        raise BadRequest(f"filter {short(sql)} takes too long for long values")


def renamed(text: str, old: str, new: str) -> str:
    """Return the expression with column `old` called `new`."""
    expression = parse(text)
    if fold(old) not in expression.columns:
        return text
    tree = expression_tree(expression.sql)
    for node in _references(tree):
        if fold(node["column_names"][0]) == fold(old):
            node["column_names"][0] = new
    return _printed(tree, text)


def _refuse(expression: Expression, what: str, schema: pa.Schema, *, changes: bool = True) -> None:
    """Names that are no columns; and, unless it `changes`, what is different at each call."""
    if not changes:
        for name in sorted(expression.functions & CHANGING):
            raise BadRequest(f"{what} must not call {name}()")
    known = {fold(name) for name in schema.names}
    for name in sorted(expression.columns - known):
        # A bare name such as current_date is parsed as a column and bound as a function.
        is_changing = name in CHANGING or name in UNLISTED_CHANGING
        if name in REFUSED_FUNCTIONS or (is_changing and not changes):
            raise BadRequest(f"{what} must not call {name}")
        if not is_changing:
            raise BadRequest(f"{what} names the unknown column {name!r}")


def _bind(statements: Sequence[str], what: str, seconds: float) -> None:
    try:
        # Binding runs what is constant.
        with session(seconds=seconds) as cursor:
            for statement in statements:
                execute(cursor, statement, CREATE, QUERY, EXPLAIN)
    except duckdb.Error as error:
        raise refusal(error, what) from None


def _nodes(tree: Any) -> Iterator[Tree]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


def _references(tree: Tree) -> Iterator[Tree]:
    return (node for node in _nodes(tree) if node.get("class") == "COLUMN_REF")
