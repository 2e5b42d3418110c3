"""Runs SQL: reads the whole text, then runs its statements one after the other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.pipeline.commands import (
    create_table_as,
    ddl,
    insert,
    merge,
    query,
    show,
    update_delete,
)
from jetbridge.pipeline.context import Command, StatementContext, WriteTransaction
from jetbridge.pipeline.parsing.parse import parse
from jetbridge.pipeline.parsing.statements import (
    AlterTable,
    CreateSchema,
    CreateTableAs,
    CreateTableStatement,
    Describe,
    Drop,
    Explain,
    Insert,
    MergeStatement,
    Query,
    Show,
    Statement,
    TransactionStatement,
    UpdateOrDelete,
)
from jetbridge.pipeline.report import StatementResult
from jetbridge.pipeline.session import CHECKS, SESSION_STATEMENTS, Session
from jetbridge.runtime.cancellation import own_scope, scope

_TOO_DEEP = "the statement is nested too deeply; split it into several statements"

COMMANDS: Mapping[type[Any], Command[Any]] = {
    Query: query.run_query,
    CreateTableAs: create_table_as.create_table_as,
    CreateTableStatement: ddl.create_table,
    Insert: insert.insert,
    UpdateOrDelete: update_delete.update_or_delete,
    MergeStatement: merge.merge,
    CreateSchema: ddl.create_schema,
    Drop: ddl.drop,
    AlterTable: ddl.alter,
    Show: show.show,
    Describe: show.describe,
    Explain: show.explain,
}


def run(session: Session, text: str) -> Iterator[StatementResult]:
    """Check the whole text, then run its statements and yield the result of each."""
    for statement in check(session, text):
        yield _run_statement(session, statement)


def check(session: Session, text: str) -> list[Statement]:
    """Return the statements of a text; raise the error of any of them before the first one runs.

    That is the grammar, a form that is not supported, a setting that does not exist, and what this
    session may not do. Whether tables and columns exist depends on the statements before.
    """
    try:
        with session.parsing():
            statements = parse(text, session.settings.dialect)
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    if not statements:
        raise BadRequest("there is no statement")
    for statement in statements:
        check_statement = CHECKS.get(type(statement))
        if check_statement is not None:
            check_statement(session, statement)
    return statements


def _run_statement(session: Session, statement: Statement) -> StatementResult:
    context = session.begin_statement()
    transaction = None if isinstance(statement, TransactionStatement) else context.transaction
    if transaction is not None and transaction.failed:
        raise FailedPrecondition("a statement of this transaction has failed; ROLLBACK first")
    with _failing(transaction), scope(context.cancellation), session.parsing():
        result = _dispatch(session, context, statement)
    if result.schema is not None:
        result.batches = own_scope(context.cancellation, result.batches)
        if transaction is not None:
            result.batches = _read_failing(result.batches, transaction)
    return result


def _dispatch(session: Session, context: StatementContext, statement: Statement) -> StatementResult:
    command = COMMANDS.get(type(statement))
    if command is not None:
        return command(context, statement)
    return SESSION_STATEMENTS[type(statement)](session, statement)


@contextmanager
def _failing(transaction: WriteTransaction | None) -> Iterator[None]:
    """Mark the transaction as failed if a statement in it fails."""
    try:
        yield
    except BaseException as error:
        if transaction is not None and not isinstance(error, GeneratorExit):
            transaction.failed = True
        if isinstance(error, RecursionError):
            raise BadRequest(_TOO_DEEP) from None
        raise


def _read_failing(
    batches: Iterator[pa.RecordBatch], transaction: WriteTransaction
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query; its statement also fails if a row cannot be computed."""
    with _failing(transaction):
        yield from batches
