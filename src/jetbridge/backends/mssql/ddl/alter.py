"""ALTER TABLE in T-SQL. What a change means, and its errors, are those of `backends.tables`.

One change is one transaction. SQL Server refuses to alter or rename a column that a constraint
uses, so these are dropped and added again, and thereby judge the rows that are there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.ddl import constraints
from jetbridge.backends.mssql.ddl.create_table import (
    collation_for,
    column_of,
    fitting,
    written_default,
)
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, describe
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, column_types, declared, declared_columns
from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    Alteration,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import ddl, expressions, statements
from jetbridge.dialects.tsql.types import change_condition
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)

_LONGEST = 490


def alter(
    server: ConnectionPool, described: TableDescription, change: Alteration, settings: MssqlSettings
) -> str:
    """Makes the change and answers the name of the table afterwards.

    The table is found by its number, whatever it is called by now; NotFound if it is gone.
    """
    now = _now(server, described)
    if now.is_view:
        raise FailedPrecondition(f"{now.title()} is a view; change it in SQL Server itself")
    if isinstance(change, AddField | RemoveField | RenameField):
        raise NotSupported(f"{now.title()}: SQL Server has no STRUCT whose fields could change")
    before = _definition(now)
    filled = isinstance(change, AddColumn) and server.query(ddl.any_row(now.schema, now.name))
    # What uses the column is the server's to say, not only what clients are shown.
    meant = replace(change, cascade=True) if isinstance(change, RemoveColumn) else change
    after = alter_definition(before, meant, now.title(), 1 if filled else 0).definition
    if after is before:
        return now.name
    babelfish = server.is_babelfish()
    with name_errors(now.title()), server.borrow_odbc() as connection, connection.transaction():
        try:
            _STEPS[type(change)](_Work(connection, now, after, settings, babelfish), change)
        except (ConstraintViolation, DuplicateKey) as error:
            raise FailedPrecondition(str(error)) from error
    return after.name


def _now(server: ConnectionPool, described: TableDescription) -> TableDescription:
    found = server.query(ddl.name_of(described.object_id))
    if found:
        with server.borrow_odbc() as asking:
            for each in describe(asking, *found[0], folded=server.is_babelfish()):
                if each.object_id == described.object_id:
                    return each
    raise NotFound("table", described.title())


def _definition(now: TableDescription) -> Definition:
    info = now.info(None)
    return Definition(info.name, info.schema, checks=info.checks, keys=info.keys)


@dataclass(frozen=True)
class _Work:
    """`after` is what the table is to be, as clients see it.

    Babelfish alters and renames columns together with what uses them.
    """

    connection: SqlConnection
    table: TableDescription
    after: Definition
    settings: MssqlSettings
    babelfish: bool

    @property
    def where(self) -> tuple[str, str]:
        return self.table.schema, self.table.name

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.run(sql)

    def column(self, name: str) -> ServerColumn:
        return next(each for each in self.table.columns if fold(each.name) == fold(name))

    def alter_column(self, column: ServerColumn, kind: str, *, required: bool) -> None:
        """Its type and whether it is NOT NULL; nothing if both are so."""
        if (kind, required) == (declared(column), not column.nullable):
            return
        if self.babelfish:
            self._alter_type(column, kind, required=required)
            return
        collation = collation_for(kind, column)
        sql = ddl.alter_column(
            *self.where, column.name, kind, required=required, collation=collation
        )
        with constraints.without(self.connection, self.table, column.name):
            self._run_for(column, kind, sql)

    def _alter_type(self, column: ServerColumn, kind: str, *, required: bool) -> None:
        """All that Babelfish has of ALTER COLUMN."""
        if required == column.nullable:
            raise NotSupported(
                f"column {self.table.title()}.{column.name} cannot become "
                f"{'NOT NULL' if required else 'NULL'}: Babelfish has no ALTER COLUMN for that"
            )
        sql = ddl.alter_column(*self.where, column.name, kind, required=None)
        self._run_for(column, kind, sql)

    def _run_for(self, column: ServerColumn, kind: str, sql: str) -> None:
        try:
            self.run(sql)
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise FailedPrecondition(
                f"a value of column {self.table.title()}.{column.name} does not survive as "
                f"{kind}: {error}"[:_LONGEST]
            ) from error

    def refuse_nulls(self, name: str) -> None:
        ((count,),) = self.run(ddl.nulls(*self.where, name))
        if count:
            raise FailedPrecondition(
                f"column {self.table.title()}.{name} has {count} NULL values; update them first"
            )


def _add_column(work: _Work, change: AddColumn) -> None:
    field = work.after.schema.field(change.field.name)
    (kind,) = column_types(pa.schema([field]), work.settings)
    work.run(ddl.add(*work.where, column_of(field, kind, filled=not work.babelfish)))


def _remove_column(work: _Work, change: RemoveColumn) -> None:
    column = work.column(change.name)
    users = constraints.using(work.connection, work.table, column.name)
    others = [each.name for each in users if not each.is_default]
    if others and not change.cascade:
        raise FailedPrecondition(
            f"column {work.table.title()}.{change.name} is used by {', '.join(others)}; use CASCADE"
        )
    for each in () if work.babelfish else users:
        constraints.drop(work.connection, work.table, each)
    work.run(ddl.drop_column(*work.where, column.name))


def _rename_column(work: _Work, change: RenameColumn) -> None:
    column = work.column(change.name)
    users = constraints.using(work.connection, work.table, column.name)
    checks = [each for each in users if each.is_check and not work.babelfish]
    for each in checks:
        constraints.drop(work.connection, work.table, each)
    work.run(ddl.rename_column(*work.where, column.name, change.new_name))
    for each in checks:
        sql = ddl.with_column_renamed(each.sql, column.name, change.new_name)
        constraints.add(work.connection, work.table, replace(each, sql=sql))


def _rename_table(work: _Work, change: RenameTable) -> None:
    schema, name = work.where
    taken = [number for (number,) in work.run(ddl.object_called(schema, change.new_name))]
    if taken not in ([], [work.table.object_id]):
        raise AlreadyExists("table", f"{schema}.{change.new_name}")
    work.run(statements.rename_table(schema, name, change.new_name))


def _set_default(work: _Work, change: SetDefault) -> None:
    column = work.column(change.column)
    text = written_default(work.after.schema.field(column.name), declared(column))
    if work.babelfish:  # a new one takes the place of the old one, which has no name of its own
        text = text or ddl.NO_DEFAULT
    else:
        for each in constraints.using(work.connection, work.table, column.name):
            if each.is_default:
                constraints.drop(work.connection, work.table, each)
    if text:
        work.run(ddl.add(*work.where, ddl.default_for(column.name, text)))


def _change_type(work: _Work, change: ChangeType) -> None:
    column = work.column(change.field.name)
    field = work.after.schema.field(column.name)
    what = f"column {work.table.title()}.{column.name}"
    remedy = "add another column, UPDATE it from this one, and drop this one"
    kind = duckdb_engine.duckdb_type(field)
    if change.expression and not expressions.is_cast_of(change.expression, column.name, kind):
        raise NotSupported(
            f"{what} cannot change its type with USING {change.expression}; {remedy}"
        )
    new = _new_type(work, column, field)
    unfit = change_condition(declared(column), new)
    if unfit is None:
        raise NotSupported(f"{what} of type {declared(column)} cannot become {new}; {remedy}")
    if unfit:
        found = work.run(ddl.unlike(*work.where, column.name, unfit))
        if found:
            raise FailedPrecondition(
                f"a value of {what} does not survive as {new}: {found[0][0]!r}"[:_LONGEST]
            )
    work.alter_column(column, new, required=not column.nullable)


def _new_type(work: _Work, column: ServerColumn, field: pa.Field) -> str:
    """That of the new field, short enough for the keys that the column belongs to."""
    (kind,) = column_types(pa.schema([field]), work.settings)
    types = {**declared_columns(work.table.columns), column.name: kind}
    return fitting(types, [key for key in work.table.keys if column.name in key.columns])[
        column.name
    ]


def _set_not_null(work: _Work, change: SetNotNull) -> None:
    column = work.column(change.column)
    work.refuse_nulls(column.name)
    work.alter_column(column, declared(column), required=True)


def _drop_not_null(work: _Work, change: DropNotNull) -> None:
    column = work.column(change.column)
    work.alter_column(column, declared(column), required=False)


def _add_check(work: _Work, change: AddCheck) -> None:
    text = work.after.checks[-1]
    sql = expressions.check(text, declared_columns(work.table.columns))
    read = duckdb_engine.parse(text).columns
    names = [each.name for each in work.table.columns if fold(each.name) in read]
    found = work.run(ddl.violation(*work.where, sql, names))
    if found:
        raise FailedPrecondition(
            f"CHECK constraint failed: {work.table.title()}: {text[:200]}, first row with "
            f"{_values(names, found[0])}"[:_LONGEST]
        )
    work.run(ddl.add(*work.where, ddl.check(sql)))


def _values(names: Sequence[str], row: Sequence[Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True))


def _add_key(work: _Work, change: AddKey) -> None:
    key = work.after.keys[-1]
    for name in key.columns if key.primary else ():
        work.refuse_nulls(name)
    _fit_columns(work, key)
    found = work.run(ddl.duplicate(*work.where, key.columns))
    if found:
        values = ", ".join("NULL" if value is None else str(value) for value in found[0])
        raise FailedPrecondition(
            f"Duplicate key in {work.table.title()}: ({', '.join(key.columns)}) = ({values}) "
            "is there more than once"[:_LONGEST]
        )
    loose = bool(work.run(ddl.clustered(work.table.object_id)))
    work.run(ddl.add(*work.where, ddl.key(key.columns, primary=key.primary, loose=loose)))


def _fit_columns(work: _Work, key: UniqueKey) -> None:
    """Of a key no column can be nvarchar(max), and of a primary key none NULL.

    Babelfish makes the columns of a primary key NOT NULL by itself.
    """
    types = declared_columns(work.table.columns)
    short = fitting(types, [key])
    for name in key.columns:
        column = work.column(name)
        kind = short[name] if column.length < 0 else types[name]
        required = not column.nullable or (key.primary and not work.babelfish)
        work.alter_column(column, kind, required=required)


_STEPS: Mapping[type, Callable[[_Work, Any], None]] = {
    AddColumn: _add_column,
    RemoveColumn: _remove_column,
    RenameColumn: _rename_column,
    RenameTable: _rename_table,
    SetDefault: _set_default,
    ChangeType: _change_type,
    SetNotNull: _set_not_null,
    DropNotNull: _drop_not_null,
    AddCheck: _add_check,
    AddKey: _add_key,
}
