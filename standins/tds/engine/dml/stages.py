"""INSERT, UPDATE, DELETE and MERGE made into stages (see `writing`)."""

from dataclasses import replace
from typing import Any

from sqlglot import exp

from standins.tds.collation import page_of
from standins.tds.engine.dml.writing import Change
from standins.tds.engine.errors import error, quoted, raised, unknown
from standins.tds.engine.expressions.arithmetic import SIGNS, combined
from standins.tds.engine.expressions.convert import ASSIGN, Goal, converted
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.scope import Scope, Source
from standins.tds.engine.parse.dialect import parse, parse_condition, parse_expression, parse_from
from standins.tds.engine.parse.dml import Delete, Merge, Output, Update, When
from standins.tds.engine.queries.compiler import Queries, Query
from standins.tds.engine.queries.sources import table_columns
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.types import storage
from standins.tds.values import SqlType

ACTION = Expr(
    "(CASE act WHEN 'I' THEN 'INSERT' WHEN 'U' THEN 'UPDATE' ELSE 'DELETE' END)",
    SqlType("nvarchar", 10), False, "$action",
)  # fmt: skip
COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/", "%=": "%"}
assert set(COMPOUND.values()) <= set(SIGNS.values())


class Stages:
    """Builds the changes of one statement on one table."""

    def __init__(self, compiler: Queries, table: Table) -> None:
        self.compiler, self.table = compiler, table
        self.extras: list[str] = []

    # Values on their way into a column.

    def assigned(self, column: ColumnDef, value: Expr, verb: str) -> str:
        """Converted, and refused where the column does not take it."""
        if value.untyped and self.compiler.around.undeclared is not None:
            self.compiler.around.undeclared[value.untyped] = column.type
        goal = Goal(
            column.type, ASSIGN, self.table.long_name, column.name,
            page=page_of(column.collation),
        )  # fmt: skip
        sql = converted(value, goal)
        if column.nullable:
            return sql
        failure = raised(515, quoted(column.name), quoted(self.table.long_name), quoted(verb))
        if value.null:
            return f"CAST({failure} AS {storage(column.type)})"
        return f"(CASE WHEN {sql} IS NULL THEN {failure} ELSE {sql} END)"

    def default(self, column: ColumnDef, verb: str = "INSERT") -> str:
        """Of a column that is given no value."""
        if column.identity is not None:
            return f"CAST(NULL AS {storage(column.type)})"
        if column.type.name == "rowversion":
            raise unknown("rowversion")
        if column.default is not None:
            value = self.compiler.value(parse_expression(column.default.text), Scope())
            return self.assigned(column, value, verb)
        return self.assigned(column, NULL, verb)

    def change(self, select: str, verb: str, **more: Any) -> Change:
        return Change(self.table, select, verb, checks=self._checks(), **more)

    def _checks(self) -> list[tuple[str, str, str]]:
        """Predicates over the new values."""
        scope = Scope([self._new()])
        found = []
        for each in self.table.checks:
            sql = self.compiler.predicate(parse_condition(each.text), scope)
            column = self.table.by_id(each.column_id).name if each.column_id else ""
            found.append((each.name, sql, column))
        return found

    def _new(self) -> Source:
        return Source(self.table.name, "n", self._over("n_"))

    def _over(self, prefix: str, nullable: bool = False) -> tuple[Expr, ...]:
        return tuple(
            replace(each, sql=f"{prefix}{column.stored}", nullable=each.nullable or nullable)
            for each, column in zip(table_columns(self.table, "t"), self.table.columns, strict=True)
        )

    def olds(self, alias: str) -> list[str]:
        """What was there; nothing for a row that is new."""
        if alias:
            return [f"{alias}.{each.stored} AS o_{each.stored}" for each in self.table.columns]
        return [
            f"CAST(NULL AS {storage(each.type)}) AS o_{each.stored}" for each in self.table.columns
        ]

    # OUTPUT.

    def outputs(self, output: Output | None, scope: Scope, merge: bool = False) -> tuple[Expr, ...]:
        if output is None:
            return ()
        around = Scope(list(scope.sources))
        around.on_use = self._extra
        inside = Scope(
            [
                Source("inserted", "", self._over("n_", merge)),
                Source("deleted", "", self._over("o_", merge)),
            ],
            parent=around,
        )
        if merge:
            inside.sources.append(Source("", "", (ACTION,)))
        select = parse(f"SELECT {output.items}")
        found = []
        for node in select.expressions:
            found += self._output_item(node, inside)
        return tuple(found)

    def _output_item(self, node: exp.Expr, scope: Scope) -> list[Expr]:
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            qualifier = tuple(part.name for part in node.parts[:-1])
            owner = scope if qualifier[0].lower() in ("inserted", "deleted") else scope.parent
            assert owner is not None
            return owner.starred(qualifier)
        if isinstance(node, exp.Star):
            raise error(102, "*")
        return [self.compiler.item(node, scope)]

    def _extra(self, source: Source, expr: Expr) -> Expr:
        """A column of FROM that OUTPUT names is staged, too."""
        name = f"x{len(self.extras)}"
        self.extras.append(f"{expr.sql} AS {name}")
        return replace(expr, sql=name)


def insert_stage(
    stages: Stages, columns: tuple[ColumnDef, ...], query: Query, output: Output | None,
    explicit_identity: bool = False, **more: Any,
) -> Change:  # fmt: skip
    alias = stages.compiler.fresh("s")
    given = dict(zip((each.column_id for each in columns), query.over(alias), strict=True))
    nulls = {
        each.column_id: replace(given[each.column_id], null=True)
        for each, source in zip(columns, query.columns, strict=True)
        if source.null
    }
    given.update(nulls)
    values = [
        stages.assigned(each, given[each.column_id], "INSERT")
        if each.column_id in given
        else stages.default(each)
        for each in stages.table.columns
    ]
    listed = [
        f"{sql} AS n_{each.stored}" for sql, each in zip(values, stages.table.columns, strict=True)
    ]
    outputs = stages.outputs(output, Scope())
    head = ["'I' AS act", "CAST(NULL AS BIGINT) AS rid", "row_number() OVER () AS rn"]
    inner = f"({query.sql}) AS {alias}"
    select = f"SELECT {', '.join(head + listed + stages.olds(''))} FROM {inner}"
    return stages.change(
        select, "INSERT", outputs=outputs, explicit_identity=explicit_identity, **more
    )


class Targeted:
    """UPDATE and DELETE: rows of a table that FROM and WHERE choose."""

    def __init__(self, compiler: Queries, parsed: Update | Delete) -> None:
        self.compiler, self.parsed = compiler, parsed
        self.scope = Scope()
        self.from_sql, self.source = self._from()
        if self.source.table is None:
            raise unknown("changing a view or a derived table")
        self.table = self.source.table
        self.stages = Stages(compiler, self.table)
        self.where = ""
        if parsed.where:
            node = parse_condition(parsed.where)
            self.where = f" WHERE {compiler.predicate(node, self.scope)}"
            compiler.sources.note_seeks(node, self.scope)

    def _from(self) -> tuple[str, Source]:
        """The target is one of the tables of FROM, by its alias or its name; or stands alone."""
        parsed = self.parsed
        if parsed.sources:
            select = parse_from(parsed.sources)
            self._mark_target(select)
            sql = self.compiler.sources.from_clause(select, self.scope)
            found = [each for each in self.scope.sources if each.is_called(parsed.target)]
            targets = [each for each in found if self._is_target(each)]
            if targets:
                return sql, targets[0]
        table = self.compiler.around.find(parsed.target)
        if parsed.sources and self.scope.sources:
            named = [each for each in self.scope.sources if each.table is table]
            if len(named) == 1 and self._is_target(named[0]):
                return sql, named[0]
            raise unknown("a FROM that does not name the target")
        if table.is_view:
            raise unknown("changing a view")
        name = parsed.target[-1]
        sql = self.compiler.sources.base(
            table, name, parsed.target, parsed.hints, self.scope, target=True
        )
        return f" FROM {sql}", self.scope.sources[-1]

    def _is_target(self, source: Source) -> bool:
        access = self.compiler.accesses.get(source.alias)
        return access is not None and access.target

    def _mark_target(self, select: exp.Select) -> None:
        """The compiler is told which of the tables will be written."""
        wanted = self.parsed.target[-1].lower().lstrip("#")
        for node in select.find_all(exp.Table):
            called = (node.alias or node.name).lower()
            if called == wanted or (node.name.lower() == wanted and not node.alias):
                node.set("target", True)
                return
        for node in select.find_all(exp.Table):
            if node.name.lower() == wanted:
                node.set("target", True)
                return

    def change(self) -> Change:
        if isinstance(self.parsed, Update):
            return self._update(self.parsed)
        head = ["'D' AS act", f"{self.source.alias}.rid AS rid", "row_number() OVER () AS rn"]
        news = [f"CAST(NULL AS {storage(e.type)}) AS n_{e.stored}" for e in self.table.columns]
        return self._changed(head, news, "DELETE", frozenset())

    def _update(self, parsed: Update) -> Change:
        news, changed = new_values(self.stages, self.source.alias, parsed.items, self.scope)
        listed = [f"{sql} AS n_{stored}" for stored, sql in news.items()]
        head = ["'U' AS act", f"{self.source.alias}.rid AS rid", "row_number() OVER () AS rn"]
        return self._changed(head, listed, "UPDATE", changed)

    def _changed(
        self, head: list[str], news: list[str], verb: str, changed: frozenset[int]
    ) -> Change:
        outputs = self.stages.outputs(self.parsed.output, self.scope)
        listed = ", ".join(head + news + self.stages.olds(self.source.alias) + self.stages.extras)
        once = f"DISTINCT ON ({self.source.alias}.rid) " if self.parsed.sources else ""
        limit = ""
        if self.parsed.top:
            node = parse_expression(self.parsed.top)
            number = self.compiler.evaluate(self.compiler.value(node, Scope()))
            limit = f" LIMIT {int(number)}"
        select = f"SELECT {once}{listed}{self.from_sql}{self.where}{limit}"
        return self.stages.change(
            select, verb, outputs=outputs, changed=changed, hints=self.parsed.hints, right=verb
        )


def new_values(
    stages: Stages, alias: str, items: tuple[tuple[str, str, str], ...], scope: Scope
) -> tuple[dict[str, str], frozenset[int]]:
    """SQL by stored column, and the ids of those that are set."""
    table, compiler = stages.table, stages.compiler
    news = {each.stored: f"{alias}.{each.stored}" for each in table.columns}
    changed: set[int] = set()
    for name, sign, text in items:
        column = table.column(name)
        if column is None:
            raise error(207, name)
        if column.column_id in changed:
            raise error(264, name)
        if column.identity is not None:
            raise error(8102, column.name)
        changed.add(column.column_id)
        if text.strip().upper() == "DEFAULT":
            news[column.stored] = stages.default(column, "UPDATE")
            continue
        value = compiler.value(parse_expression(text), scope)
        if sign in COMPOUND:
            old = Expr(f"{alias}.{column.stored}", column.type)
            value = combined(COMPOUND[sign], old, value)
        news[column.stored] = stages.assigned(column, value, "UPDATE")
    return news, frozenset(changed)


class Merging:
    """MERGE: target and source joined, each row put under the first WHEN that takes it."""

    def __init__(self, compiler: Queries, parsed: Merge) -> None:
        self.compiler, self.parsed = compiler, parsed
        self.table = compiler.around.find(parsed.target)
        if self.table.is_view:
            raise unknown("MERGE into a view")
        self.stages = Stages(compiler, self.table)
        self.both, self.target_only, self.source_only = Scope(), Scope(), Scope()

    def change(self) -> Change:
        target_sql, source_sql, target, source = self._sides()
        on = self.compiler.predicate(parse_condition(self.parsed.condition), self.both)
        cases: dict[str, list[str]] = {"act": []}
        changed: set[int] = set()
        arms = [self._arm(when, target, source, changed) for when in self.parsed.whens]
        for condition, act, _ in arms:
            cases["act"].append(f"WHEN {condition} THEN '{act}'")
        act = f"(CASE {' '.join(cases['act'])} END)"
        outputs = self.stages.outputs(self.parsed.output, Scope([source]), merge=True)
        flat = [f"{target}.rid AS rid", f"{act} AS act"]
        values = [self._value(column.stored, arms) for column in self.table.columns]
        listed = flat + values + self.stages.olds(target) + self.stages.extras
        inner = (
            f"SELECT {', '.join(listed)} FROM {target_sql} FULL JOIN"
            f" (SELECT true AS here, * FROM {source_sql}) AS {source.alias} ON {on}"
        )
        stage = (
            "SELECT *, row_number() OVER (PARTITION BY act) AS rn FROM"
            f" ({inner}) AS m WHERE act IS NOT NULL"
        )
        return self.stages.change(
            stage, "MERGE", outputs=outputs, refuses_twice=True, changed=None,
            hints=self.parsed.hints, right="UPDATE",
            explicit_identity=self.compiler.around.gives_identity(self.table),
        )  # fmt: skip

    def _sides(self) -> tuple[str, str, str, Source]:
        name = self.parsed.alias
        target_sql = self.compiler.sources.base(
            self.table, name, self.parsed.target, self.parsed.hints, self.target_only, target=True
        )
        select = parse_from(self.parsed.source)
        source_sql = self.compiler.sources.from_clause(select, self.source_only)
        if len(self.source_only.sources) != 1:
            raise unknown("a join as the source of MERGE")
        source = self.source_only.sources[0]
        self.both.sources = [*self.target_only.sources, source]
        return (
            target_sql,
            source_sql.removeprefix(" FROM "),
            self.target_only.sources[0].alias,
            source,
        )

    def _arm(
        self, when: When, target: str, source: Source, changed: set[int]
    ) -> tuple[str, str, dict[str, str]]:
        scope = {
            "MATCHED": self.both,
            "NOT MATCHED": self.source_only,
            "NOT MATCHED BY SOURCE": self.target_only,
        }[when.kind]
        present = {
            "MATCHED": f"{target}.rid IS NOT NULL AND {source.alias}.here IS NOT NULL",
            "NOT MATCHED": f"{target}.rid IS NULL",
            "NOT MATCHED BY SOURCE": f"{source.alias}.here IS NULL",
        }[when.kind]
        if when.condition:
            extra = self.compiler.predicate(parse_condition(when.condition), scope)
            present = f"{present} AND {extra}"
        if when.action == "DELETE":
            return present, "D", {}
        if when.action == "UPDATE":
            news, columns = new_values(self.stages, target, when.items, scope)
            changed |= columns
            return present, "U", news
        return present, "I", self._inserted(when, scope)

    def _inserted(self, when: When, scope: Scope) -> dict[str, str]:
        columns = self._columns(when)
        values = when.values or ()
        if len(columns) != len(values):
            raise error(109 if len(columns) > len(values) else 110)
        given: dict[str, str] = {}
        for column, text in zip(columns, values, strict=True):
            if text.strip().upper() == "DEFAULT":
                given[column.stored] = self.stages.default(column)
            else:
                value = self.compiler.value(parse_expression(text), scope)
                given[column.stored] = self.stages.assigned(column, value, "INSERT")
        return {
            each.stored: given.get(each.stored) or self.stages.default(each)
            for each in self.table.columns
        }

    def _columns(self, when: When) -> list[ColumnDef]:
        if when.values is None:
            return []
        if when.columns is None:
            return [each for each in self.table.columns if each.identity is None]
        found = []
        for name in when.columns:
            column = self.table.column(name)
            if column is None:
                raise error(207, name)
            if column.identity is not None and not self.compiler.around.gives_identity(self.table):
                raise error(544, self.table.name)
            found.append(column)
        return found

    def _value(self, stored: str, arms: list[tuple[str, str, dict[str, str]]]) -> str:
        column = next(each for each in self.table.columns if each.stored == stored)
        branches = " ".join(
            f"WHEN {condition} THEN {news[stored] if news else 'NULL'}"
            for condition, _, news in arms
        )
        return f"CAST((CASE {branches} END) AS {storage(column.type)}) AS n_{stored}"
