"""Statements, one after the other: each by its own function."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from jetbridge.errors import BadRequest, FailedPrecondition, NotFound
from jetbridge.pipeline.commands import (
    alter,
    create_table_as,
    ddl,
    insert,
    merge,
    query,
    show,
    update_delete,
)
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, SearchPath
from jetbridge.pipeline.parsing.parse import parse
from jetbridge.pipeline.parsing.statements import (
    AlterTable,
    Attach,
    CreateSchema,
    CreateSecret,
    CreateTable,
    CreateTableAs,
    Describe,
    Detach,
    Drop,
    DropSecret,
    Explain,
    Insert,
    Load,
    MergeStatement,
    Query,
    SetValue,
    Show,
    Statement,
    TransactionCommand,
    TransactionStatement,
    UpdateOrDelete,
    Use,
)
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Session, StatementResult
from jetbridge.pipeline.transactions import WriteTransaction as Open
from jetbridge.runtime.cancellation import own_scope, scope

_TOO_DEEP = "the statement is nested too deeply; write it in parts"


def run(session: Session, text: str) -> Iterator[StatementResult]:
    """Check the whole text, then run its statements one after the other."""
    for statement in check(session, text):
        yield run_statement(session, statement)


def check(session: Session, text: str) -> list[Statement]:
    """Read all statements of a text; raises what is wrong with any of them before one runs.

    That is its grammar, a form that is not supported, a setting that does not exist, and what this
    session may not do. Whether tables and columns exist depends on the statements before.
    """
    try:
        statements = parse(text, session.settings.dialect)
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    if not statements:
        raise BadRequest("there is no statement")
    for statement in statements:
        refuse = _CHECKS.get(type(statement))
        if refuse is not None:
            refuse(session, statement)
    return statements


def run_statement(session: Session, statement: Statement) -> StatementResult:
    there = session.transaction
    if there is not None and there.failed and not isinstance(statement, TransactionStatement):
        raise FailedPrecondition("a statement of this transaction has failed; ROLLBACK first")
    running = session.begin()
    with _spoiling(None if isinstance(statement, TransactionStatement) else there), scope(running):
        outcome = HANDLERS[type(statement)](session, statement)
    if outcome.schema is not None:
        outcome.batches = own_scope(running, outcome.batches)
        if there is not None:
            outcome.batches = _read(outcome.batches, there)
    return outcome


@contextmanager
def _spoiling(transaction: Open | None) -> Iterator[None]:
    """What fails takes its transaction with it."""
    try:
        yield
    except BaseException as error:
        if transaction is not None and not isinstance(error, GeneratorExit):
            transaction.failed = True
        if isinstance(error, RecursionError):
            raise BadRequest(_TOO_DEEP) from None
        raise


def _read(batches: Iterator[pa.RecordBatch], transaction: Open) -> Iterator[pa.RecordBatch]:
    """Rows that cannot be computed fail their statement, too."""
    with _spoiling(transaction):
        yield from batches


def _transaction(session: Session, statement: TransactionStatement) -> StatementResult:
    there = session.transaction
    if statement.boundary is TransactionCommand.BEGIN:
        if there is not None:
            raise FailedPrecondition("a transaction is open already; COMMIT or ROLLBACK first")
        session.transaction = Open()
        return StatementResult(Report("BEGIN"))
    if there is None:
        raise FailedPrecondition(f"there is no transaction to {statement.boundary.value}")
    session.transaction = None
    if statement.boundary is TransactionCommand.COMMIT:
        there.commit()
    else:
        there.rollback()
    return StatementResult(Report(statement.boundary.value))


def _set(session: Session, statement: SetValue) -> StatementResult:
    note = session.change(statement.name, statement.value)
    name = "RESET" if statement.value is None else "SET"
    return StatementResult(Report(name, statement.name, note=note))


def _use(session: Session, statement: Use) -> StatementResult:
    """`catalog`, `schema` or `catalog.schema`."""
    name, places = statement.name, session.places()
    catalog = places.spelled(name.name) if name.schema is None else None
    if catalog is not None:
        session.place = SearchPath(catalog, DEFAULT_SCHEMA)
    else:
        catalog, space = places.schema_path(name)
        places.schema(catalog, space)
        session.place = SearchPath(catalog, space)
    return StatementResult(Report("USE", str(name)))


def _attach(session: Session, statement: Attach) -> StatementResult:
    session.attach(statement)
    return StatementResult(Report("ATTACH", statement.alias))


def _detach(session: Session, statement: Detach) -> StatementResult:
    if not session.detach(statement.alias) and not statement.if_exists:
        raise NotFound("attached catalog", statement.alias)
    return StatementResult(Report("DETACH", statement.alias))


def _create_secret(session: Session, statement: CreateSecret) -> StatementResult:
    made = session.create_secret(statement)
    note = "" if made else "the secret is there already; nothing was done"
    return StatementResult(Report("CREATE SECRET", statement.name, note=note))


def _drop_secret(session: Session, statement: DropSecret) -> StatementResult:
    if not session.secrets.drop(statement.name) and not statement.if_exists:
        raise NotFound("secret", statement.name)
    return StatementResult(Report("DROP SECRET", statement.name))


def _load(_: Session, statement: Load) -> StatementResult:
    note = "it is built in here; nothing was done"
    return StatementResult(Report(statement.verb, statement.name, note=note))


HANDLERS: Mapping[type[Any], Callable[[Session, Any], StatementResult]] = {
    Query: query.run_query,
    CreateTableAs: create_table_as.create_table_as,
    CreateTable: ddl.create_table,
    Insert: insert.insert,
    UpdateOrDelete: update_delete.change,
    MergeStatement: merge.merge,
    CreateSchema: ddl.create_schema,
    Drop: ddl.drop,
    AlterTable: alter.alter,
    TransactionStatement: _transaction,
    Attach: _attach,
    Detach: _detach,
    CreateSecret: _create_secret,
    DropSecret: _drop_secret,
    Load: _load,
    Use: _use,
    SetValue: _set,
    Show: show.show,
    Describe: show.describe,
    Explain: show.explain,
}

# What can be refused before the statements that come first have run.
_CHECKS: Mapping[type[Any], Callable[[Session, Any], None]] = {
    Attach: lambda session, _: session.refuse_attach(),
    CreateSecret: lambda session, _: session.refuse_secrets(),
    SetValue: lambda session, statement: session.check_setting(statement.name, statement.value),
}
