"""Reads INSERT, UPDATE, DELETE and MERGE INTO, with their RETURNING."""

from jetbridge.dialects.duckdb.statements import rename_columns
from jetbridge.duckdb_engine.statements import (
    check_list_text,
    check_query_text,
    check_sources_text,
    check_with_text,
)
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.statements import (
    DmlKind,
    Insert,
    MatchCase,
    MergeStatement,
    UpdateOrDelete,
    ValuesList,
    WhenClause,
)
from jetbridge.pipeline.parsing.tokens import TokenCursor

# What ends a WHEN clause.
_ENDS = ("WHEN", "RETURNING")


def read_insert(cursor: TokenCursor) -> Insert:
    """Read INSERT INTO; raises NotSupported for a form that is not supported."""
    with_ = check_with_text(cursor.until("INSERT")) if cursor.peek() == "WITH" else ""
    cursor.expect("INSERT")
    if cursor.take("OR"):
        raise NotSupported(
            f"INSERT OR {cursor.peek()} is not supported: use MERGE INTO for rows that may exist"
        )
    cursor.expect("INTO")
    target = cursor.name()
    columns = cursor.names_in_brackets() if _is_column_list(cursor) else ()
    by_name = cursor.take("BY", "NAME")
    if not by_name:
        cursor.take("BY", "POSITION")
    if cursor.take("DEFAULT", "VALUES"):
        raise NotSupported("DEFAULT VALUES is not supported: name a column and its value")
    if cursor.contains("ON", "CONFLICT", "(") or cursor.contains("ON", "CONFLICT", "DO"):
        raise NotSupported("ON CONFLICT is not supported: use MERGE INTO")
    query = cursor.until("RETURNING")
    values = None if with_ else _read_values(query, cursor.dialect)
    query = f"{with_} FROM ({check_query_text(query)})" if with_ else query
    return Insert(target, query, columns, by_name, read_returning(cursor), values)


def _read_values(query: str, dialect: str) -> ValuesList | None:
    """Read VALUES with DEFAULT in it, since only the table knows its defaults; else None."""
    cursor = TokenCursor(query, dialect)
    if not cursor.take("VALUES") or not cursor.contains("DEFAULT"):
        return None
    rows: list[tuple[str, ...]] = []
    while not rows or cursor.take(","):
        rows.append(cursor.expressions_in_brackets())
    return ValuesList(tuple(rows), cursor.rest())


def _is_column_list(cursor: TokenCursor) -> bool:
    """Return whether a list of columns comes next, and not a query in brackets."""
    ahead = TokenCursor(cursor.rest())
    return ahead.take("(") and ahead.peek() not in ("SELECT", "WITH", "VALUES", "FROM", "(")


def read_update_or_delete(cursor: TokenCursor) -> UpdateOrDelete:
    """Read UPDATE, DELETE or TRUNCATE; raises NotSupported for a form that is not supported."""
    with_ = ""
    if cursor.peek() == "WITH":
        with_ = check_with_text(cursor.until("UPDATE", "DELETE", "TRUNCATE"))
    kind = _kind(cursor)
    updates = kind is DmlKind.UPDATE
    target = cursor.name()
    alias = cursor.alias("SET", "USING", "WHERE", "RETURNING") or target.name
    assignments = _assignments(cursor, "FROM", "WHERE", "RETURNING") if updates else ()
    has_sources = cursor.take("FROM" if updates else "USING")
    from_ = check_sources_text(cursor.until("WHERE", "RETURNING")) if has_sources else ""
    where = cursor.expression("RETURNING") if cursor.take("WHERE") else ""
    returning = read_returning(cursor)
    return UpdateOrDelete(kind, target, alias, assignments, with_, from_, where, returning)


def _kind(cursor: TokenCursor) -> DmlKind:
    if cursor.take("UPDATE"):
        return DmlKind.UPDATE
    if cursor.take("TRUNCATE"):
        cursor.take("TABLE")
    else:
        cursor.expect("DELETE")
        cursor.expect("FROM")
    return DmlKind.DELETE


def read_returning(cursor: TokenCursor) -> tuple[str, ...]:
    """Read RETURNING and its expressions, which end the statement; () without RETURNING."""
    if not cursor.take("RETURNING"):
        return ()
    check_list_text(cursor.rest())
    return cursor.items()


def _assignments(cursor: TokenCursor, *ends: str) -> tuple[tuple[str, str], ...]:
    """Read `SET a = 1, b = c + 1` up to one of these keywords."""
    cursor.expect("SET")
    assignments: list[tuple[str, str]] = []
    while not assignments or cursor.take(","):
        if cursor.peek() == "(":
            raise NotSupported("SET (a, b) = ... is not supported: write SET a = ..., b = ...")
        column = cursor.identifier()
        cursor.expect("=")
        assignments.append((column, cursor.expression(",", *ends)))
    return tuple(assignments)


def read_merge(cursor: TokenCursor) -> MergeStatement:
    """Read MERGE INTO; raises BadRequest if no WHEN clause can change a row."""
    with_ = check_with_text(cursor.until("MERGE")) if cursor.peek() == "WITH" else ""
    cursor.expect("MERGE", "INTO")
    target = cursor.name()
    alias = cursor.alias("USING") or target.name
    cursor.expect("USING")
    source, source_alias = _source(cursor)
    using: tuple[str, ...] = ()
    condition = ""
    if cursor.take("USING"):
        using = cursor.names_in_brackets()
    else:
        cursor.expect("ON")
        condition = cursor.expression(*_ENDS)
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    merge = MergeStatement(
        with_,
        target,
        alias,
        source,
        source_alias,
        condition,
        using,
        tuple(clauses),
        read_returning(cursor),
    )
    if not merge.effective_clauses():
        raise BadRequest("MERGE INTO needs a WHEN clause that changes rows")
    return merge


def _source(cursor: TokenCursor) -> tuple[str, str]:
    """Read the source; return its query, and the name of its rows in the other clauses."""
    if cursor.take("("):
        query = check_query_text(cursor.inside())
        alias = cursor.alias("ON", "USING") or "source"
        if cursor.peek() == "(":
            query = rename_columns(query, alias, cursor.names_in_brackets())
        return query, alias
    start = cursor.position()
    name = cursor.name()
    if cursor.peek() == "(":
        raise NotSupported(
            "a function is not supported as the source of MERGE INTO: write USING (FROM ...) AS s"
        )
    text = cursor.text[start : cursor.position()].strip()
    return f"FROM {text}", cursor.alias("ON", "USING") or name.name


def _clause(cursor: TokenCursor) -> WhenClause:
    case = MatchCase.MATCHED
    if cursor.take("NOT"):
        case = MatchCase.NEW
    cursor.expect("MATCHED")
    if case is MatchCase.NEW and cursor.take("BY", "SOURCE"):
        case = MatchCase.GONE
    elif case is MatchCase.NEW:
        cursor.take("BY", "TARGET")
    condition = cursor.expression("THEN") if cursor.take("AND") else ""
    cursor.expect("THEN")
    if cursor.take("DELETE"):
        return WhenClause(case, condition, "DELETE")
    if cursor.take("DO", "NOTHING"):
        return WhenClause(case, condition, "NOTHING")
    if cursor.take("ERROR"):
        return WhenClause(case, condition, "ERROR", message=_message(cursor))
    if cursor.take("UPDATE"):
        return _update(cursor, case, condition)
    cursor.expect("INSERT")
    return _insert(cursor, case, condition)


def _message(cursor: TokenCursor) -> str:
    return cursor.expression(*_ENDS) if cursor and cursor.peek() not in _ENDS else ""


def _update(cursor: TokenCursor, case: MatchCase, condition: str) -> WhenClause:
    if cursor.take("BY", "NAME"):
        return WhenClause(case, condition, "UPDATE", None, by_name=True)
    cursor.take("BY", "POSITION")
    if cursor.take("SET", "*") or cursor.peek() in ("", *_ENDS):
        return WhenClause(case, condition, "UPDATE", None)
    return WhenClause(case, condition, "UPDATE", _assignments(cursor, *_ENDS))


def _insert(cursor: TokenCursor, case: MatchCase, condition: str) -> WhenClause:
    columns = cursor.names_in_brackets() if cursor.peek() == "(" else ()
    by_name = cursor.take("BY", "NAME")
    if not by_name:
        cursor.take("BY", "POSITION")
    if cursor.take("DEFAULT", "VALUES"):
        return WhenClause(case, condition, "INSERT", ())
    if cursor.take("VALUES"):
        values = tuple(("", value) for value in cursor.expressions_in_brackets())
        if columns and len(columns) != len(values):
            raise BadRequest(f"INSERT names {len(columns)} columns and has {len(values)} values")
        return WhenClause(case, condition, "INSERT", values, columns)
    cursor.take("*")
    return WhenClause(case, condition, "INSERT", None, columns, by_name)
