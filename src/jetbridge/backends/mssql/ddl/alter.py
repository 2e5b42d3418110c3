"""Alters tables of SQL Server. `backends.tables` defines what a change means, and its errors.

One change is one transaction. SQL Server refuses to alter or rename a column that a constraint
uses. So constraints are dropped and added again, which checks the existing rows.
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
    check_table_name,
    collation_for,
    column_of,
    render_default,
    shorten_keys,
)
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, describe
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn, column_types, declared_type, declared_types
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

_MAX_MESSAGE = 490


def alter(
    server: ConnectionPool, described: TableDescription, change: Alteration, settings: MssqlSettings
) -> str:
    """Make a change, and return the name of the changed table.

    The table is found by its number, even if it was renamed. Raises NotFound if it was dropped.
    """
    current = _current(server, described)
    if current.is_view:
        raise FailedPrecondition(f"{current.title()} is a view; change it in SQL Server")
    if isinstance(change, AddField | RemoveField | RenameField):
        raise NotSupported(
            f"{current.title()}: SQL Server has no STRUCT columns; add a column instead"
        )
    before = _definition(current)
    filled = isinstance(change, AddColumn) and server.query(
        ddl.find_row(current.schema, current.name)
    )
    # The server knows more constraints that use the column than those that clients see.
    checked = replace(change, cascade=True) if isinstance(change, RemoveColumn) else change
    after = alter_definition(before, checked, current.title(), 1 if filled else 0).definition
    if after is before:
        return current.name
    babelfish = server.is_babelfish()
    with (
        name_errors(current.title()),
        server.borrow_odbc() as connection,
        connection.transaction(),
    ):
        try:
            _STEPS[type(change)](_Work(connection, current, after, settings, babelfish), change)
        except (ConstraintViolation, DuplicateKey) as error:
            raise FailedPrecondition(str(error)) from error
    return after.name


def _current(server: ConnectionPool, described: TableDescription) -> TableDescription:
    names = server.query(ddl.name_of(described.object_id))
    if names:
        with server.borrow_odbc() as connection:
            for table in describe(connection, *names[0], folded=server.is_babelfish()):
                if table.object_id == described.object_id:
                    return table
    raise NotFound("table", described.title())


def _definition(table: TableDescription) -> Definition:
    info = table.info(None)
    return Definition(info.name, info.schema, checks=info.checks, keys=info.keys)


@dataclass(frozen=True)
class _Work:
    """Hold what the steps of a change need. `after` is the changed table as clients see it.

    Babelfish alters and renames columns together with the constraints that use them.
    """

    connection: SqlConnection
    table: TableDescription
    after: Definition
    settings: MssqlSettings
    babelfish: bool

    @property
    def path(self) -> tuple[str, str]:
        return self.table.schema, self.table.name

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.run(sql)

    def column(self, name: str) -> ServerColumn:
        return next(column for column in self.table.columns if fold(column.name) == fold(name))

    def alter_column(self, column: ServerColumn, sql_type: str, *, required: bool) -> None:
        """Set the type of a column and whether it is NOT NULL, unless it has both already."""
        if (sql_type, required) == (declared_type(column), not column.nullable):
            return
        if self.babelfish:
            self._alter_type(column, sql_type, required=required)
            return
        collation = collation_for(sql_type, column)
        sql = ddl.alter_column(
            *self.path, column.name, sql_type, required=required, collation=collation
        )
        with constraints.without(self.connection, self.table, column.name):
            self._run_for(column, sql_type, sql)

    def _alter_type(self, column: ServerColumn, sql_type: str, *, required: bool) -> None:
        """Set the type only: Babelfish's ALTER COLUMN cannot change NOT NULL."""
        if required == column.nullable:
            raise NotSupported(
                f"column {self.table.title()}.{column.name} cannot become "
                f"{'NOT NULL' if required else 'NULL'}: Babelfish has no ALTER COLUMN for that; "
                "create another table"
            )
        sql = ddl.alter_column(*self.path, column.name, sql_type, required=None)
        self._run_for(column, sql_type, sql)

    def _run_for(self, column: ServerColumn, sql_type: str, sql: str) -> None:
        try:
            self.run(sql)
        except ConstraintViolation:
            raise
        except BadRequest as error:
            raise FailedPrecondition(
                f"a value of column {self.table.title()}.{column.name} does not fit "
                f"{sql_type}: {error}"[:_MAX_MESSAGE]
            ) from error

    def refuse_nulls(self, name: str) -> None:
        """Raise FailedPrecondition if the column has NULL values."""
        ((count,),) = self.run(ddl.count_nulls(*self.path, name))
        if count:
            raise FailedPrecondition(
                f"column {self.table.title()}.{name} has {count} NULL values; update them first"
            )


def _add_column(work: _Work, change: AddColumn) -> None:
    field = work.after.schema.field(change.field.name)
    (sql_type,) = column_types(pa.schema([field]), work.settings)
    work.run(ddl.add(*work.path, column_of(field, sql_type, fill_existing=not work.babelfish)))


def _remove_column(work: _Work, change: RemoveColumn) -> None:
    column = work.column(change.name)
    used_by = constraints.using(work.connection, work.table, column.name)
    others = [constraint.name for constraint in used_by if not constraint.is_default]
    if others and not change.cascade:
        raise FailedPrecondition(
            f"column {work.table.title()}.{change.name} is used by {', '.join(others)}; use CASCADE"
        )
    for constraint in () if work.babelfish else used_by:
        constraints.drop(work.connection, work.table, constraint)
    work.run(ddl.drop_column(*work.path, column.name))


def _rename_column(work: _Work, change: RenameColumn) -> None:
    column = work.column(change.name)
    used_by = constraints.using(work.connection, work.table, column.name)
    checks = [check for check in used_by if check.is_check and not work.babelfish]
    for check in checks:
        constraints.drop(work.connection, work.table, check)
    work.run(ddl.rename_column(*work.path, column.name, change.new_name))
    for check in checks:
        sql = ddl.rename_column_in(check.sql, column.name, change.new_name)
        constraints.add(work.connection, work.table, replace(check, sql=sql))


def _rename_table(work: _Work, change: RenameTable) -> None:
    check_table_name(change.new_name)
    schema, name = work.path
    existing = [number for (number,) in work.run(ddl.find_object(schema, change.new_name))]
    if existing not in ([], [work.table.object_id]):
        raise AlreadyExists("table", f"{schema}.{change.new_name}")
    work.run(statements.rename_table(schema, name, change.new_name))


def _set_default(work: _Work, change: SetDefault) -> None:
    column = work.column(change.column)
    text = render_default(work.after.schema.field(column.name), declared_type(column))
    if work.babelfish:  # a new default replaces the old one, which has no name
        text = text or ddl.NO_DEFAULT
    else:
        for constraint in constraints.using(work.connection, work.table, column.name):
            if constraint.is_default:
                constraints.drop(work.connection, work.table, constraint)
    if text:
        work.run(ddl.add(*work.path, ddl.default_for(column.name, text)))


def _change_type(work: _Work, change: ChangeType) -> None:
    column = work.column(change.field.name)
    field = work.after.schema.field(column.name)
    title = f"column {work.table.title()}.{column.name}"
    remedy = "add another column, UPDATE it from this one, and drop this one"
    data_type = duckdb_engine.duckdb_type(field)
    if change.expression and not expressions.is_cast_of(change.expression, column.name, data_type):
        raise NotSupported(
            f"{title} cannot change its type with USING {change.expression}; {remedy}"
        )
    new_type = _new_type(work, column, field)
    unfit = change_condition(declared_type(column), new_type)
    if unfit is None:
        raise NotSupported(
            f"{title} of type {declared_type(column)} cannot become {new_type}; {remedy}"
        )
    if unfit:
        values = work.run(ddl.find_misfit(*work.path, column.name, unfit))
        if values:
            raise FailedPrecondition(
                f"a value of {title} does not fit {new_type}: {values[0][0]!r}"[:_MAX_MESSAGE]
            )
    work.alter_column(column, new_type, required=not column.nullable)


def _new_type(work: _Work, column: ServerColumn, field: pa.Field) -> str:
    """Return the T-SQL type of the new field, short enough for the keys of the column."""
    (sql_type,) = column_types(pa.schema([field]), work.settings)
    types = {**declared_types(work.table.columns), column.name: sql_type}
    keys = [key for key in work.table.keys if column.name in key.columns]
    return shorten_keys(types, keys)[column.name]


def _set_not_null(work: _Work, change: SetNotNull) -> None:
    column = work.column(change.column)
    work.refuse_nulls(column.name)
    work.alter_column(column, declared_type(column), required=True)


def _drop_not_null(work: _Work, change: DropNotNull) -> None:
    column = work.column(change.column)
    work.alter_column(column, declared_type(column), required=False)


def _add_check(work: _Work, change: AddCheck) -> None:
    text = work.after.checks[-1]
    sql = expressions.check(text, declared_types(work.table.columns))
    used = duckdb_engine.parse(text).columns
    names = [column.name for column in work.table.columns if fold(column.name) in used]
    violations = work.run(ddl.find_violation(*work.path, sql, names))
    if violations:
        raise FailedPrecondition(
            f"CHECK constraint failed: {work.table.title()}: {text[:200]}, first row with "
            f"{_values(names, violations[0])}"[:_MAX_MESSAGE]
        )
    work.run(ddl.add(*work.path, ddl.check(sql)))


def _values(names: Sequence[str], row: Sequence[Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in zip(names, row, strict=True))


def _add_key(work: _Work, change: AddKey) -> None:
    key = work.after.keys[-1]
    for name in key.columns if key.primary else ():
        work.refuse_nulls(name)
    _fit_columns(work, key)
    duplicates = work.run(ddl.find_duplicate(*work.path, key.columns))
    if duplicates:
        values = ", ".join("NULL" if value is None else str(value) for value in duplicates[0])
        raise FailedPrecondition(
            f"Duplicate key in {work.table.title()}: several rows have ({', '.join(key.columns)}) "
            f"= ({values})"[:_MAX_MESSAGE]
        )
    loose = bool(work.run(ddl.find_clustered_index(work.table.object_id)))
    work.run(ddl.add(*work.path, ddl.key(key.columns, primary=key.primary, nonclustered=loose)))


def _fit_columns(work: _Work, key: UniqueKey) -> None:
    """Shorten nvarchar(max) columns of a key, and make the columns of a primary key NOT NULL.

    Babelfish makes the columns of a primary key NOT NULL by itself.
    """
    types = declared_types(work.table.columns)
    short = shorten_keys(types, [key])
    for name in key.columns:
        column = work.column(name)
        sql_type = short[name] if column.length < 0 else types[name]
        required = not column.nullable or (key.primary and not work.babelfish)
        work.alter_column(column, sql_type, required=required)


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
