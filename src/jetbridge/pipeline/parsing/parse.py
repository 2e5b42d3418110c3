"""Reads the text of statements into values, after DuckDB has checked its grammar."""

import re
from collections.abc import Callable

from jetbridge.catalog import OnConflict
from jetbridge.duckdb_engine.statements import (
    REWRITTEN,
    kind_of_statement,
)
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.attach import (
    read_attach,
    read_create_secret,
    read_detach,
    read_drop_secret,
    take_secret,
)
from jetbridge.pipeline.parsing.ddl import read_alter_action
from jetbridge.pipeline.parsing.dml import read_insert, read_merge, read_update_or_delete
from jetbridge.pipeline.parsing.statements import (
    AlterTable,
    CreateSchema,
    CreateTableAs,
    CreateTableStatement,
    Describe,
    Drop,
    Explain,
    Insert,
    Load,
    ObjectName,
    Query,
    SetValue,
    Show,
    Statement,
    TransactionCommand,
    TransactionStatement,
    Use,
)
from jetbridge.pipeline.parsing.tokens import SPARK, TokenCursor, split_text
from jetbridge.pipeline.secrets import HIDDEN, may_hold_secret

# Extensions of DuckDB that jetbridge replaces.
_BUILT_IN = ("mssql", "airport")
_SHOW_LISTS = {"TABLES": "tables", "SCHEMAS": "schemas", "DATABASES": "databases"}
_TRANSACTION_COMMANDS = {
    "BEGIN": TransactionCommand.BEGIN,
    "START": TransactionCommand.BEGIN,
    "COMMIT": TransactionCommand.COMMIT,
    "END": TransactionCommand.COMMIT,
    "ROLLBACK": TransactionCommand.ROLLBACK,
    "ABORT": TransactionCommand.ROLLBACK,
}
_ALTERNATIVES = {
    "COPY": "COPY is not supported: use INSERT INTO ... SELECT * FROM read_parquet(...)",
    "VIEW": "views are not supported: use CREATE TABLE ... AS SELECT, or WITH in the query",
    "SEQUENCE": "sequences are not supported: use row_number() in a query",
    "INDEX": "indexes are not supported: use ALTER TABLE ... SET SORTED BY, if the catalog has it",
    "MACRO": "macros are not supported: write the expression in the query",
    "FUNCTION": "CREATE FUNCTION is not supported: write the expression in the query",
    "TYPE": "CREATE TYPE is not supported: write ENUM (...) as the type of the column",
    "TEMP": "temporary tables are not supported: use WITH in the query",
    "TEMPORARY": "temporary tables are not supported: use WITH in the query",
    "PIVOT": "PIVOT without a list of values is not supported: write FROM (PIVOT t ON b IN (...))",
    "COMMENT": "COMMENT ON is not supported",
    "LOAD": "extensions cannot be loaded: use the functions that DuckDB has built in",
    "PRAGMA": "PRAGMA is not supported: use SET name = value",
    "CALL": "CALL is not supported: use SELECT",
    "PREPARE": "prepared statements are not supported: write the values in the statement",
    "EXECUTE": "prepared statements are not supported: write the values in the statement",
    "VACUUM": "VACUUM is not supported: use jetbridge optimize",
    "ANALYZE": "ANALYZE is not supported: every write updates the statistics of its table",
    "EXPORT": "EXPORT is not supported: read the tables with SELECT",
    "IMPORT": "IMPORT is not supported: use INSERT INTO ... SELECT * FROM read_parquet(...)",
}


def parse(text: str, dialect: str = "duckdb") -> list[Statement]:
    """Return all statements of a text; raise the error of any of them.

    Raises BadRequest for text that is no SQL, and NotSupported with an alternative. In the dialect
    spark, Spark reads the queries, and only the words before a query are read here.
    """
    read = _read_spark_sql if dialect == SPARK else _read_statement
    return [read(statement) for statement in split_text(text, dialect)]


def _read_spark_sql(text: str) -> Statement:
    cursor = TokenCursor(text, SPARK)
    first = cursor.peek()
    if first in ("SELECT", "WITH", "FROM", "VALUES", "("):
        return Query(text)
    if first == "CREATE" and cursor.contains("AS"):
        return _read_create(cursor)
    if first == "INSERT":
        return read_insert(cursor)
    if first == "EXPLAIN":
        cursor.expect("EXPLAIN")
        return _explain_of(_read_spark_sql(cursor.rest()))
    (statement,) = parse(text)
    return statement


def _read_statement(text: str) -> Statement:
    cursor = TokenCursor(text)
    kind, first = _kind(text), cursor.peek()
    # DuckDB rewrites ALTER TABLE as several statements if a column has a default.
    if kind == REWRITTEN and first == "ALTER":
        kind = first
    read = _READERS.get(kind)
    if read is None:
        raise _refuse(text)
    return read(cursor)


def _kind(text: str) -> str:
    try:
        return kind_of_statement(text)
    except BadRequest:
        if may_hold_secret(text):  # DuckDB's message quotes the line
            raise BadRequest(HIDDEN) from None
        raise


def _refuse(text: str) -> NotSupported:
    cursor = TokenCursor(text)
    first = cursor.peek()
    while cursor:
        alternative = _ALTERNATIVES.get(cursor.peek())
        if alternative:
            return NotSupported(alternative)
        if not cursor.take(cursor.peek()):
            break
    return NotSupported(f"{first or 'this statement'} is not supported")


def _read_rows(cursor: TokenCursor) -> Statement:
    if cursor.take("DESCRIBE") or cursor.take("DESC"):
        return _read_describe(cursor)
    if cursor.take("SHOW"):
        if cursor.take("ALL", "TABLES"):
            return Show("all tables")
        listed = _SHOW_LISTS.get(cursor.peek()) or cursor.peek().lower()
        cursor.identifier()
        cursor.end()
        return Show(listed)
    if cursor.peek() in ("", "PRAGMA", "CALL"):
        raise _refuse(cursor.text)
    if cursor.peek() == "SUMMARIZE":
        return Query(f"FROM ({cursor.text})")
    return Query(cursor.text)


def _read_describe(cursor: TokenCursor) -> Statement:
    if cursor.peek() in ("SELECT", "FROM", "WITH", "VALUES", "(", "PIVOT"):
        return Describe(cursor.rest())
    name = cursor.name()
    cursor.end()
    return Describe(name)


def _read_explain(cursor: TokenCursor) -> Statement:
    cursor.expect("EXPLAIN")
    if cursor.take("ANALYZE"):
        raise NotSupported(
            "EXPLAIN ANALYZE is not supported: every statement reports its seconds; use EXPLAIN"
        )
    (inner,) = parse(cursor.rest())
    return _explain_of(inner)


def _explain_of(inner: Statement) -> Explain:
    if not isinstance(inner, Query | CreateTableAs | Insert):
        raise NotSupported(
            "EXPLAIN supports queries, CREATE TABLE AS and INSERT; other statements are not planned"
        )
    return Explain(inner)


def _read_create(cursor: TokenCursor) -> Statement:
    text = cursor.text
    if cursor.peek() != "CREATE":
        raise _refuse(text)
    cursor.expect("CREATE")
    conflict = OnConflict.REPLACE if cursor.take("OR", "REPLACE") else OnConflict.ERROR
    if take_secret(cursor):
        return read_create_secret(cursor, conflict)
    if cursor.take("SCHEMA"):
        if conflict is OnConflict.REPLACE:
            raise NotSupported("CREATE OR REPLACE SCHEMA is not supported: use DROP SCHEMA first")
        return CreateSchema(*_read_target(cursor, conflict))
    if not cursor.take("TABLE"):
        raise _refuse(text)
    target, conflict = _read_target(cursor, conflict)
    if cursor.take("AS"):
        return CreateTableAs(target, _read_query(cursor), conflict)
    columns = _read_new_names(cursor)
    if columns:
        return CreateTableAs(target, _read_query(cursor), conflict, columns)
    return CreateTableStatement(target, _read_columns(cursor), conflict)


def _read_columns(cursor: TokenCursor) -> str:
    """Return the columns in brackets; refuse anything after them, which DuckDB would also run."""
    columns = cursor.rest()
    if cursor.contains("REFERENCES"):  # a reserved word
        raise NotSupported("foreign keys are not supported")
    if not cursor.take("("):
        raise NotSupported(f"CREATE TABLE ... {cursor.peek()} is not supported: list the columns")
    cursor.inside()
    cursor.end()
    return columns


def _read_target(cursor: TokenCursor, conflict: OnConflict) -> tuple[ObjectName, OnConflict]:
    """Read `[IF NOT EXISTS] name`."""
    if cursor.take("IF", "NOT", "EXISTS"):
        conflict = OnConflict.IGNORE
    return cursor.name(), conflict


def _read_new_names(cursor: TokenCursor) -> tuple[str, ...]:
    """Read `(a, b) AS`, new names for the columns of a query; () if columns are declared."""
    ahead = TokenCursor(cursor.rest())
    try:
        names = ahead.names_in_brackets()
    except BadRequest:
        return ()
    if not ahead.take("AS"):
        return ()
    cursor.names_in_brackets()
    cursor.expect("AS")
    return names


def _read_query(cursor: TokenCursor) -> str:
    """Return the query without WITH DATA; refuse WITH NO DATA."""
    text = cursor.rest()
    upper = " ".join(text.upper().split())
    if upper.endswith("WITH NO DATA"):
        raise NotSupported("WITH NO DATA is not supported: add LIMIT 0 to the query")
    return re.sub(r"(?i)\s+WITH\s+DATA$", "", text)


def _read_drop(cursor: TokenCursor) -> Statement:
    text = cursor.text
    cursor.expect("DROP")
    if cursor.take("SECRET"):
        return read_drop_secret(cursor)
    kind = cursor.peek().lower()
    if kind not in ("schema", "table"):
        raise _refuse(text)
    cursor.take(kind.upper())
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()
    cascade = cursor.take("CASCADE")
    cursor.take("RESTRICT")
    cursor.end()
    return Drop(kind, name, if_exists, cascade)


def _read_alter(cursor: TokenCursor) -> Statement:
    text = cursor.text
    if cursor.peek() != "ALTER":
        raise _refuse(text)
    cursor.expect("ALTER")
    if not cursor.take("TABLE"):
        raise _refuse(text)
    if_exists = cursor.take("IF", "EXISTS")
    return AlterTable(cursor.name(), read_alter_action(cursor), if_exists)


def _read_transaction(cursor: TokenCursor) -> Statement:
    return TransactionStatement(_TRANSACTION_COMMANDS[cursor.peek()])


def _read_set(cursor: TokenCursor) -> Statement:
    if cursor.take("USE"):
        return Use(cursor.name())
    reset = cursor.take("RESET")
    if not reset:
        cursor.expect("SET")
    for scope in ("GLOBAL", "SESSION", "LOCAL"):
        cursor.take(scope)
    name = cursor.identifier()
    if reset:
        cursor.end()
        return SetValue(name, None)
    if not cursor.take("="):
        cursor.expect("TO")
    return SetValue(name, _read_value(cursor))


def _read_load(cursor: TokenCursor) -> Statement:
    text = cursor.text
    cursor.take("FORCE")
    verb = cursor.identifier().upper()
    name = cursor.string() if cursor.is_string() else cursor.identifier()
    if name.lower() not in _BUILT_IN:
        raise _refuse(text)
    return Load(verb, name.lower())


def _read_value(cursor: TokenCursor) -> str:
    text = cursor.rest().strip()
    try:
        value = cursor.string()
    except BadRequest:
        return text
    cursor.end()
    return value


_READERS: dict[str, Callable[[TokenCursor], Statement]] = {
    "SELECT": _read_rows,
    "EXPLAIN": _read_explain,
    "CREATE": _read_create,
    "INSERT": read_insert,
    "UPDATE": read_update_or_delete,
    "DELETE": read_update_or_delete,
    "MERGE_INTO": read_merge,
    "DROP": _read_drop,
    "ALTER": _read_alter,
    "TRANSACTION": _read_transaction,
    "SET": _read_set,
    "LOAD": _read_load,
    "ATTACH": read_attach,
    "DETACH": read_detach,
}
