"""Runs statements that change the session itself: SET, USE, ATTACH, secrets, transactions."""

from collections.abc import Callable, Mapping
from typing import Any

from jetbridge.errors import NotFound
from jetbridge.pipeline.parsing.statements import (
    Attach,
    CreateSecret,
    Detach,
    DropSecret,
    Load,
    SetValue,
    TransactionCommand,
    TransactionStatement,
    Use,
)
from jetbridge.pipeline.report import Report, StatementResult
from jetbridge.pipeline.session import Session


def _transaction(session: Session, statement: TransactionStatement) -> StatementResult:
    if statement.command is TransactionCommand.BEGIN:
        session.begin_transaction()
    else:
        session.end_transaction(commit=statement.command is TransactionCommand.COMMIT)
    return StatementResult(Report(statement.command.value))


def _set(session: Session, statement: SetValue) -> StatementResult:
    note = session.change_setting(statement.name, statement.value)
    verb = "RESET" if statement.value is None else "SET"
    return StatementResult(Report(verb, statement.name, note=note))


def _use(session: Session, statement: Use) -> StatementResult:
    session.use(statement.name)
    return StatementResult(Report("USE", str(statement.name)))


def _attach(session: Session, statement: Attach) -> StatementResult:
    session.attach(statement)
    return StatementResult(Report("ATTACH", statement.alias))


def _detach(session: Session, statement: Detach) -> StatementResult:
    if not session.detach(statement.alias) and not statement.if_exists:
        raise NotFound("attached catalog", statement.alias)
    return StatementResult(Report("DETACH", statement.alias))


def _create_secret(session: Session, statement: CreateSecret) -> StatementResult:
    created = session.create_secret(statement)
    note = "" if created else "the secret already exists; nothing was done"
    return StatementResult(Report("CREATE SECRET", statement.name, note=note))


def _drop_secret(session: Session, statement: DropSecret) -> StatementResult:
    if not session.drop_secret(statement.name) and not statement.if_exists:
        raise NotFound("secret", statement.name)
    return StatementResult(Report("DROP SECRET", statement.name))


def _load(_: Session, statement: Load) -> StatementResult:
    note = "it is built in here; nothing was done"
    return StatementResult(Report(statement.verb, statement.name, note=note))


SESSION_STATEMENTS: Mapping[type[Any], Callable[[Session, Any], StatementResult]] = {
    TransactionStatement: _transaction,
    SetValue: _set,
    Use: _use,
    Attach: _attach,
    Detach: _detach,
    CreateSecret: _create_secret,
    DropSecret: _drop_secret,
    Load: _load,
}

# What the session refuses before the first statement of the text runs.
CHECKS: Mapping[type[Any], Callable[[Session, Any], object]] = {
    Attach: lambda session, _: session.attach_support("ATTACH"),
    CreateSecret: lambda session, _: session.attach_support("CREATE SECRET"),
    SetValue: lambda session, statement: session.check_setting(statement.name, statement.value),
}
