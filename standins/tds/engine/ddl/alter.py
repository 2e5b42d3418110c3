"""ALTER TABLE, sp_rename, and moving a table into another schema."""

from dataclasses import replace

from standins.tds.engine.ddl.create_drop import Definitions
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.expressions.convert import ASSIGN, Goal, converted
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.parse.ddl import TableSpec, column, constraint, type_text
from standins.tds.engine.parse.dialect import parse_expression
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.queries.reading import execute
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.types import parse_type, storage
from standins.tds.values import SqlType

LEVELS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "DEFAULT")


class Alterations(Definitions):
    def alter_table(self, tokens: Tokens) -> None:
        table = self.locked(self.for_altering(tokens.dotted(), error_of_unknown=4902))
        if tokens.take("WITH", "CHECK") or tokens.take("WITH", "NOCHECK"):
            pass
        if tokens.take("ADD"):
            self._add(table, tokens)
        elif tokens.take("DROP"):
            self._drop(table, tokens)
        elif tokens.take("ALTER", "COLUMN"):
            self._alter_column(table, tokens)
        elif tokens.take("REBUILD") or tokens.take("CHECK") or tokens.take("SET"):
            return
        else:
            raise unknown(f"ALTER TABLE … {tokens.rest()}")

    def _add(self, table: Table, tokens: Tokens) -> None:
        spec = TableSpec()
        while not tokens.done:
            if tokens.peek() in LEVELS:
                spec.constraints.append(constraint(tokens))
            else:
                made = column(tokens, spec)
                table = self._added(self.with_column(table, made), table, made.with_values)
            if not tokens.take(",") and not tokens.done:
                tokens.fail()
        for each in spec.constraints:
            if each.kind == "DF":
                target = self.column(table, each.columns[0], 207)
                if target.default:
                    raise error(1781)
                default = self.default(table, target.name, each.name, each.text)
                table = table.with_column(replace(target, default=default))
            else:
                table = self.with_constraint(table, each)
        self.put(table)

    def _added(self, table: Table, before: Table, with_values: bool) -> Table:
        """The new column in DuckDB, with its default in the rows that are there."""
        made = table.columns[-1]
        self.rows(f"ALTER TABLE {table.stored} ADD COLUMN {made.stored} {storage(made.type)}")
        if made.identity is not None:
            raise unknown("an identity column added to a table")
        needs_value = not made.nullable and made.default is None
        there = f"SELECT 1 FROM {table.stored} WHERE {self.visible(before)} LIMIT 1"
        if needs_value and self.rows(there):
            raise error(4901, made.name, table.name)
        if made.default is not None and (with_values or not made.nullable):
            compiler = self.session.compiler()
            value = compiler.value(parse_expression(made.default.text), Scope())
            self._fill(made, table, converted(value, Goal(made.type, ASSIGN)), compiler.parameters)
        return table

    def _fill(
        self, made: ColumnDef, table: Table, sql: str, parameters: dict[str, object] | None = None
    ) -> None:
        cursor = self.core.store.cursor()
        try:
            execute(cursor, f"UPDATE {table.stored} SET {made.stored} = {sql}", parameters or {})
        finally:
            cursor.close()

    def _drop(self, table: Table, tokens: Tokens) -> None:
        if tokens.take("COLUMN"):
            quiet = tokens.take("IF", "EXISTS")
            while True:
                table = self._without_column(table, tokens.name(), quiet)
                if not tokens.take(","):
                    break
        else:
            tokens.take("CONSTRAINT")
            quiet = tokens.take("IF", "EXISTS")
            while True:
                table = self._without_constraint(table, tokens.name(), quiet)
                if not tokens.take(","):
                    break
                tokens.take("CONSTRAINT")
        if not tokens.done:
            tokens.fail()
        self.put(table)

    def _without_column(self, table: Table, name: str, quiet: bool) -> Table:
        found = table.column(name)
        if found is None:
            if quiet:
                return table
            raise error(4924, "ALTER TABLE DROP COLUMN", name, table.name)
        self._free(table, found, "ALTER TABLE DROP COLUMN")
        columns = tuple(each for each in table.columns if each is not found)
        return replace(table, columns=columns)

    def _free(self, table: Table, found: ColumnDef, what: str, default: bool = True) -> None:
        """5074 says by whom the column is used, 4922 that it stays."""
        users = [
            *_keys_with(table, found),
            *(("object", check.name) for check in table.checks if _names(check.text, found)),
            *(("object", key.name) for key in table.foreign if found.column_id in key.columns),
        ]
        if found.default is not None and default:
            users.append(("object", found.default.name))
        if users:
            self.session.report(error(5074, *users[0], found.name))
            raise error(4922, what, found.name)

    def _without_constraint(self, table: Table, name: str, quiet: bool) -> Table:
        wanted = name.lower()
        columns = tuple(
            replace(each, default=None)
            if each.default is not None and each.default.name.lower() == wanted
            else each
            for each in table.columns
        )
        changed = replace(
            table,
            columns=columns,
            keys=tuple(e for e in table.keys if e.name.lower() != wanted or e.kind == "IX"),
            checks=tuple(e for e in table.checks if e.name.lower() != wanted),
            foreign=tuple(e for e in table.foreign if e.name.lower() != wanted),
        )
        if changed == table and not quiet:
            raise error(3728, name)
        return changed

    def _alter_column(self, table: Table, tokens: Tokens) -> None:
        name = tokens.name()
        found = table.column(name)
        if found is None:
            raise error(4924, "ALTER TABLE ALTER COLUMN", name, table.name)
        if found.identity is not None:
            raise unknown("ALTER COLUMN of an identity column")
        sql_type = parse_type(type_text(tokens))
        collation = tokens.name() if tokens.take("COLLATE") else found.collation
        nullable = not tokens.take("NOT", "NULL")
        tokens.take("NULL")
        if not tokens.done:
            tokens.fail()
        if sql_type != found.type:
            # A default forbids another type, not another length.
            default = sql_type.name != found.type.name
            self._free(table, found, "ALTER TABLE ALTER COLUMN", default)
        self.put(self._altered(table, found, sql_type, nullable, collation))

    def _altered(
        self, table: Table, found: ColumnDef, sql_type: SqlType, nullable: bool, collation: str
    ) -> Table:
        if not nullable and self.rows(
            f"SELECT 1 FROM {table.stored} WHERE {self.visible(table)}"
            f" AND {found.stored} IS NULL LIMIT 1"
        ):
            raise error(515, found.name, table.long_name, "UPDATE")
        stored = found.stored
        if sql_type != found.type:
            stored = self.core.catalog.column()
            self.rows(f"ALTER TABLE {table.stored} ADD COLUMN {stored} {storage(sql_type)}")
            goal = Goal(sql_type, ASSIGN, table.long_name, found.name)
            sql = converted(Expr(found.stored, found.type), goal)
            self.rows(f"UPDATE {table.stored} SET {stored} = {sql} WHERE {self.visible(table)}")
        made = replace(found, type=sql_type, nullable=nullable, collation=collation, stored=stored)
        return table.with_column(made)

    def transfer(self, schema: str, parts: tuple[str, ...]) -> None:
        """ALTER SCHEMA … TRANSFER."""
        database = self.names.database(self.session.database)
        target = database.schema(schema)
        if target is None:
            raise error(15151, "alter", "schema", schema)
        try:
            found = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                raise error(15151, "find", "object", parts[-1]) from None
            raise
        self.may_alter(found, 15151, "find", "object", parts[-1])
        self._moved(found, target, found.name, 15530)

    def rename(self, parts: tuple[str, ...], new: str, kind: str) -> None:
        """sp_rename of a table, a view, a column, an index or a constraint."""
        if kind in ("COLUMN", "INDEX"):
            self._rename_inside(parts, new, kind)
            return
        try:
            found = self.session.find(parts)
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                self._rename_constraint(parts, new, kind)
                return
            raise
        self.may_alter(found, 15225, ".".join(parts), self.session.database, kind or "(null)")
        self._moved(found, found.schema, new, 15335)

    def _moved(self, found: Table, schema: str, name: str, taken: int) -> None:
        table = self.locked(found)
        self.names.lock_name(table.database, table.schema, table.name, self.transaction)
        self.names.lock_name(table.database, schema, name, self.transaction)
        other = self.core.catalog.find(table.database, schema, name, self.transaction.changes)
        if other is not None and other.object_id != table.object_id:
            raise error(taken, name, "object") if taken == 15335 else error(taken, name)
        self.put(replace(table, schema=schema, name=name))

    def _rename_inside(self, parts: tuple[str, ...], new: str, kind: str) -> None:
        if len(parts) < 2:
            raise error(15248, kind)
        try:
            table = self.locked(self.session.find(parts[:-1]))
        except Exception as failure:
            if getattr(failure, "number", 0) == 208:
                raise error(15248, kind) from None
            raise
        if kind == "INDEX":
            keys = tuple(
                replace(each, name=new) if each.name.lower() == parts[-1].lower() else each
                for each in table.keys
            )
            self.put(replace(table, keys=keys))
            return
        found = table.column(parts[-1])
        if found is None:
            raise error(15248, kind)
        if table.column(new) is not None and new.lower() != found.name.lower():
            raise error(15335, new, "COLUMN")
        if any(_names(each.text, found) for each in table.checks):
            raise error(15336, ".".join(parts))
        self.put(table.with_column(replace(found, name=new)))

    def _rename_constraint(self, parts: tuple[str, ...], new: str, kind: str) -> None:
        wanted = parts[-1].lower()
        for table in self.session.tables():
            if any(each.name.lower() == wanted for each in table.keys if each.kind != "IX"):
                found = self.locked(table)
                keys = tuple(
                    replace(e, name=new) if e.name.lower() == wanted else e for e in found.keys
                )
                self.put(replace(found, keys=keys))
                return
        raise error(15225, ".".join(parts), self.session.database, kind or "(null)")


def _keys_with(table: Table, column: ColumnDef) -> list[tuple[str, str]]:
    return [
        ("index" if key.kind == "IX" else "object", key.name)
        for key in table.keys
        if column.column_id in (*key.columns, *key.included)
    ]


def _names(text: str, column: ColumnDef) -> bool:
    return column.name.lower() in {each.name.lower() for each in Tokens(text).all}
