"""CREATE and DROP of tables, views, indexes and schemas."""

import random
from dataclasses import replace
from typing import Any

from standins.tds.engine.dml.writing import check_double
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.scope import Scope, Source
from standins.tds.engine.metadata.constraint_text import default_shown, fit_for_key
from standins.tds.engine.parse.ddl import (
    ColumnSpec,
    ConstraintSpec,
    key_columns,
    parse_elements,
    storage_options,
)
from standins.tds.engine.parse.dialect import parse, parse_condition, parse_expression
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.reading import execute, table_lock
from standins.tds.engine.queries.sources import table_columns
from standins.tds.engine.storage import locks
from standins.tds.engine.storage.catalog import (
    Check,
    ColumnDef,
    Default,
    ForeignKey,
    Identity,
    Key,
    Table,
    now,
)
from standins.tds.engine.storage.names import TEMPORARY
from standins.tds.engine.storage.transactions import Transaction
from standins.tds.engine.types import family, storage
from standins.tds.values import SqlError

PREFIXES = {"PK": "PK", "UQ": "UQ", "CK": "CK", "FK": "FK", "DF": "DF"}


def made_up(kind: str, table: str, column: str = "") -> str:
    """A name such as SQL Server gives a constraint without one."""
    middle = f"{table[:9]}__{column[:5]}" if column else table[:9]
    return f"{PREFIXES[kind]}__{middle}__{random.randrange(16**8):08X}"


class Definitions:
    """DDL of one statement, inside a transaction. `session` is the engine's own."""

    def __init__(self, session: Any, transaction: Transaction) -> None:
        self.session, self.transaction = session, transaction
        self.core = session.core
        self.names = session.names

    # What all of DDL does.

    def locked(self, table: Table) -> Table:
        """As it is once nobody else uses it."""
        self.transaction.lock(table_lock(table), locks.SCH_M)
        found: Table | None = self.session.table_by_id(table.object_id)
        if found is None:
            raise error(208, table.full_name)
        return found

    def may_alter(self, table: Table, number: int, *parts: str) -> None:
        """Who may not is told what would be said if there were no such table."""
        if not self.session.login.has("ALTER") and table.database != TEMPORARY:
            raise error(number, *parts)

    def put(self, table: Table) -> Table:
        if self.transaction.doomed:
            raise error(3930)
        table = replace(table, modified=now())
        self.transaction.changes[table.object_id] = table
        self.transaction.weight += 1
        return table

    def rows(self, sql: str) -> Any:
        cursor = self.core.store.cursor()
        try:
            return execute(cursor, sql).fetchall()
        finally:
            cursor.close()

    def visible(self, table: Table) -> str:
        snapshot = self.core.versions.open(self.transaction.stamps)
        self.core.versions.close(snapshot)
        return str(snapshot.condition())

    # Tables.

    def create_table(self, tokens: Tokens) -> None:
        parts = tokens.dotted()
        if tokens.peek() == "AS":
            raise error(156, "AS")
        inside = tokens.inside()
        storage_options(tokens)
        storage_options(tokens)
        if not tokens.done:
            tokens.fail()
        spec = parse_elements(inside)
        table = self.new_table(parts)
        primary = {
            name.lower() for each in spec.constraints if each.kind == "PK" for name in each.columns
        }
        for column in spec.columns:
            if column.name.lower() in primary:
                if column.nullable:
                    raise error(8111, table.name)
                column.nullable = False
            table = self.with_column(table, column)
        for each in spec.constraints:
            table = self.with_constraint(table, each, anew=True)
        self.stored(table)

    def new_table(self, parts: tuple[str, ...]) -> Table:
        database, schema, name = self.names.for_creating(parts, self.transaction)
        number = self.core.catalog.number()
        return Table(number, database, schema, name, stored=f"t_{number}")

    def stored(self, table: Table) -> None:
        """The table in DuckDB, which others see when the definition is committed."""
        self.transaction.lock(table_lock(table), locks.SCH_M)
        listed = ", ".join(f"{each.stored} {storage(each.type)}" for each in table.columns)
        self.transaction.created.append(table.stored)
        self.rows(f"CREATE TABLE {table.stored} ({listed}, __ins BIGINT, __del BIGINT)")
        self.put(table)

    def with_column(self, table: Table, spec: ColumnSpec) -> Table:
        if table.column(spec.name):
            raise error(2705, spec.name, table.full_name)
        if spec.type.name in ("rowversion", "xml", "sql_variant"):
            raise unknown(f"a column of type {spec.type.name}")
        identity = None
        nullable = spec.nullable if spec.nullable is not None else True
        if spec.identity is not None:
            if table.identity:
                raise error(2744, table.name)
            if family(spec.type) not in ("int", "decimal") or spec.type.scale:
                raise error(2749, spec.name)
            identity, nullable = Identity(*spec.identity), False
        default = None
        if spec.default is not None:
            default = self.default(table, spec.name, *spec.default)
        collation = spec.collation if family(spec.type) == "string" else ""
        number = table.next_column
        column = ColumnDef(
            spec.name,
            spec.type,
            nullable,
            number,
            self.core.catalog.column(),
            collation,
            default,
            identity,
        )
        return replace(table, columns=(*table.columns, column), next_column=number + 1)

    def default(self, table: Table, column: str, name: str, text: str) -> Default:
        self.session.compiler().value(parse_expression(text), Scope())
        number = self.core.catalog.number()
        return Default(name or made_up("DF", table.name, column), default_shown(text), number)

    # Constraints.

    def with_constraint(self, table: Table, spec: ConstraintSpec, anew: bool = False) -> Table:
        name = spec.name or made_up(
            spec.kind if spec.kind != "IX" else "UQ", table.name, spec.column
        )
        self._free_name(table, name)
        if spec.kind == "CK":
            return self._with_check(table, spec, name)
        if spec.kind == "FK":
            return self._with_foreign(table, spec, name)
        key = self.key(table, spec, name, bool(spec.name))
        if not anew and key.unique:
            self.check_unique(table, key)
        return replace(table, keys=(*table.keys, key))

    def _free_name(self, table: Table, name: str) -> None:
        for other in (table, *self.session.tables()):
            named = [*other.keys, *other.checks, *other.foreign]
            same_schema = other.schema == table.schema and other.database == table.database
            indexes = [each for each in other.keys if each.kind == "IX"]
            taken = {each.name.lower() for each in named if each not in indexes}
            if same_schema and name.lower() in taken:
                raise error(2714, name)

    def key(self, table: Table, spec: ConstraintSpec, name: str, named: bool) -> Key:
        if spec.kind == "PK" and table.primary:
            raise error(1779, table.name)
        clustered = next((each for each in table.keys if each.clustered), None)
        wants = spec.clustered
        if wants and clustered is not None:
            if spec.kind == "PK":
                wants = False
            else:
                raise error(1902, "table", table.full_name, clustered.name)
        columns = tuple(fit_for_key(self.column(table, each, 1911), table) for each in spec.columns)
        if spec.kind == "PK" and any(table.by_id(each).nullable for each in columns):
            raise error(8111, table.name)
        unique = spec.kind in ("PK", "UQ") or spec.text == "UNIQUE"
        index_id = 1 if wants else 2 + sum(1 for each in table.keys if not each.clustered)
        return Key(
            name, spec.kind, columns, unique, wants, self.core.catalog.number(), index_id,
            tuple(spec.descending), columnstore=spec.columnstore, named=named,
        )  # fmt: skip

    def column(self, table: Table, name: str, number: int = 207) -> ColumnDef:
        found = table.column(name)
        if found is None:
            raise error(number, name)
        return found

    def check_unique(self, table: Table, key: Key) -> None:
        cursor = self.core.store.cursor()
        try:
            check_double(
                lambda sql: execute(cursor, sql), table, key, table.stored, "", self.visible(table)
            )
        except SqlError as failure:
            shown = failure.text.rpartition("(")[2].rstrip(").")
            raise error(1505, table.full_name, key.name, shown) from None
        finally:
            cursor.close()

    def _with_check(self, table: Table, spec: ConstraintSpec, name: str) -> Table:
        source = Source(table.name, "t", table_columns(table, "t"))
        predicate = self.session.compiler().predicate(parse_condition(spec.text), Scope([source]))
        exists = self.session.table_by_id(table.object_id) is not None
        if exists and self.rows(
            f"SELECT 1 FROM {table.stored} AS t WHERE {self.visible(table)}"
            f" AND NOT {predicate} LIMIT 1"
        ):
            raise error(547, "ALTER TABLE", "CHECK", name, table.database, table.full_name, "")
        column = table.column(spec.column) if spec.column else None
        made = Check(name, spec.text, self.core.catalog.number(), column.column_id if column else 0)
        return replace(table, checks=(*table.checks, made))

    def _with_foreign(self, table: Table, spec: ConstraintSpec, name: str) -> Table:
        own = table.full_name.lower() == ".".join(spec.target).lower()
        target = table if own or spec.target[-1].lower() == table.name.lower() else None
        if target is None:
            target = self.session.find(spec.target)
        columns = tuple(self.column(table, each, 1911).column_id for each in spec.columns)
        names = spec.target_columns
        if not names and target.primary:
            names = [target.by_id(each).name for each in target.primary.columns]
        there = tuple(self.column(target, each, 1911).column_id for each in names)
        if not any(set(key.columns) == set(there) for key in target.uniques):
            raise error(1776, target.full_name, name)
        made = ForeignKey(name, columns, target.object_id, there, self.core.catalog.number())
        return replace(table, foreign=(*table.foreign, made))

    # Dropping.

    def drop_table(self, parts: tuple[str, ...], quiet: bool) -> None:
        try:
            table = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                if quiet:
                    return
                raise error(3701, "drop", "table", ".".join(parts)) from None
            raise
        if table.is_view:
            raise error(3705, "TABLE", table.full_name, table.full_name, "view", "VIEW")
        self.may_alter(table, 3701, "drop", "table", ".".join(parts))
        table = self.locked(table)
        for other in self.session.tables():
            if other.object_id != table.object_id and any(
                each.target == table.object_id for each in other.foreign
            ):
                raise error(3726, ".".join(parts))
        self.names.lock_name(table.database, table.schema, table.name, self.transaction)
        self.transaction.changes[table.object_id] = None
        self.transaction.weight += 1
        self.transaction.replaced.append(table.stored)

    def truncate(self, parts: tuple[str, ...]) -> None:
        try:
            table = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                raise error(4701, ".".join(parts)) from None
            raise
        if table.is_view:
            raise error(4708, ".".join(parts))
        self.may_alter(table, 1088, ".".join(parts))
        table = self.locked(table)
        if any(
            each.target == table.object_id
            for other in self.session.tables()
            for each in other.foreign
        ):
            raise error(4712, ".".join(parts))
        columns = tuple(
            replace(each, identity=Identity(each.identity.seed, each.identity.step))
            if each.identity
            else each
            for each in table.columns
        )
        stored = f"t_{self.core.catalog.number()}"
        self.transaction.replaced.append(table.stored)
        self.stored(replace(table, columns=columns, stored=stored))

    # Views, indexes, schemas.

    def create_view(self, tokens: Tokens, text: str, instead: bool) -> None:
        parts = tokens.dotted()
        names: tuple[str, ...] = ()
        if tokens.peek() == "(":
            names = tuple(key_columns(tokens.inside())[0])
        if tokens.take("WITH"):
            tokens.until("AS")
        tokens.need("AS")
        query = tokens.rest().rstrip("; \n\t")
        old = self._old_view(parts) if instead else None
        if old is None:
            database, schema, name = self.names.for_creating(parts, self.transaction, "CREATE VIEW")
            number = self.core.catalog.number()
        else:
            database, schema, name, number = old.database, old.schema, old.name, old.object_id
        made = self.session.compiler().query(parse(query))
        for place, column in enumerate(made.columns, 1):
            if not names and not column.name:
                raise error(4511, place)
        view = Table(number, database, schema, name, query=query, definition=text, view_names=names)
        self.transaction.lock(table_lock(view), locks.SCH_M)
        self.put(view)

    def _old_view(self, parts: tuple[str, ...]) -> Table | None:
        try:
            found: Table = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                return None
            raise
        return self.locked(found)

    def drop_view(self, parts: tuple[str, ...], quiet: bool) -> None:
        found = self._old_view(parts)
        if found is None:
            if quiet:
                return
            raise error(3701, "drop", "view", ".".join(parts))
        if not found.is_view:
            raise error(3705, "VIEW", found.full_name, found.full_name, "table", "TABLE")
        self.transaction.changes[found.object_id] = None

    def create_index(self, tokens: Tokens) -> None:
        spec = ConstraintSpec("IX")
        spec.text = "UNIQUE" if tokens.take("UNIQUE") else ""
        spec.clustered = tokens.take("CLUSTERED")
        tokens.take("NONCLUSTERED")
        spec.columnstore = tokens.take("COLUMNSTORE")
        tokens.need("INDEX")
        name = tokens.name()
        tokens.need("ON")
        table = self.locked(self.for_altering(tokens.dotted()))
        if any(each.name.lower() == name.lower() for each in table.keys):
            raise error(1913, name, table.full_name)
        included: list[str] = []
        if tokens.peek() == "(":
            spec.columns, spec.descending = key_columns(tokens.inside())
        if tokens.take("INCLUDE"):
            included, _ = key_columns(tokens.inside())
        if tokens.peek() == "WHERE":
            raise unknown("an index with WHERE")
        storage_options(tokens)
        key = self.key(table, spec, name, True)
        key = replace(key, included=tuple(self.column(table, e, 1911).column_id for e in included))
        if key.unique:
            self.check_unique(table, key)
        self.put(replace(table, keys=(*table.keys, key)))

    def for_altering(self, parts: tuple[str, ...], error_of_unknown: int = 1088) -> Table:
        try:
            table: Table = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                raise error(error_of_unknown, ".".join(parts)) from None
            raise
        self.may_alter(table, 1088, ".".join(parts))
        return table

    def drop_index(self, tokens: Tokens, quiet: bool) -> None:
        name = tokens.name()
        tokens.need("ON")
        table = self.locked(self.for_altering(tokens.dotted()))
        storage_options(tokens)
        kept = tuple(each for each in table.keys if each.name.lower() != name.lower())
        if len(kept) == len(table.keys):
            if quiet:
                return
            raise error(3701, "drop", "index", f"{table.full_name}.{name}")
        gone = next(each for each in table.keys if each not in kept)
        if gone.kind != "IX":
            raise error(3728, name)
        self.put(replace(table, keys=kept))
