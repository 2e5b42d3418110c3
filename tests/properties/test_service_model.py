"""Random DDL and DML through a real client and server, against a model of plain dicts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.client import Client, connect
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    ConstraintViolation,
    FailedPrecondition,
    NotFound,
    ServerError,
)
from jetbridge.service import Server

SCHEMAS = st.sampled_from(["north", "south"])
TABLES = st.sampled_from(["t", "u"])
COLUMNS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.none() | st.integers(-5, 5)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=5)
CHOICE = st.integers(0, 1000)


@dataclass
class Table:
    """Hold `rows` by row id; a row is a value per column."""

    columns: list[str] = field(default_factory=lambda: ["a", "b"])
    required: set[str] = field(default_factory=set)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def lists(self) -> dict[str, list[Any]]:
        ordered = sorted(self.rows)
        columns = {name: [self.rows[r][name] for r in ordered] for name in self.columns}
        return {**columns, "rowid": ordered}


class Statements(RuleBasedStateMachine):
    """Run one statement for each rule: it is refused as the model foretells, or both change."""

    client: Client

    def __init__(self) -> None:
        super().__init__()
        self.schemas: dict[str, dict[str, Table]] = {}

    def expect(self, error: type[ServerError] | None, statement: Any, *arguments: Any) -> Any:
        if error is None:
            return statement(*arguments)
        with pytest.raises(error):
            statement(*arguments)
        return None

    def find(self, schema: str, table: str) -> Table | None:
        return self.schemas.get(schema, {}).get(table)

    @initialize()
    def begin_with_a_table(self) -> None:
        self.create_schema("north")
        self.create_table("north", "t", "error")

    @rule(schema=SCHEMAS)
    def create_schema(self, schema: str) -> None:
        exists = AlreadyExists if schema in self.schemas else None
        self.expect(exists, self.client.create_schema, schema)
        self.schemas.setdefault(schema, {})

    @rule(schema=SCHEMAS)
    def drop_schema(self, schema: str) -> None:
        tables = self.schemas.get(schema)
        error = NotFound if tables is None else FailedPrecondition if tables else None
        self.expect(error, self.client.drop_schema, schema.upper())
        if error is None:
            del self.schemas[schema]

    @rule(schema=SCHEMAS, table=TABLES, mode=st.sampled_from(["error", "ignore", "replace"]))
    def create_table(self, schema: str, table: str, mode: str) -> None:
        found = self.find(schema, table)
        error: type[ServerError] | None = None if schema in self.schemas else NotFound
        if found and mode == "error":
            error = AlreadyExists
        columns = pa.schema([("a", pa.int64()), ("b", pa.int64())])
        self.expect(error, self.client.create_table, schema, table, columns, mode)
        if error is None and not (found and mode == "ignore"):
            self.schemas[schema][table] = Table()

    @rule(schema=SCHEMAS, table=TABLES)
    def drop_table(self, schema: str, table: str) -> None:
        found = self.find(schema, table)
        self.expect(None if found else NotFound, self.client.drop_table, schema, table)
        if found:
            del self.schemas[schema][table]

    @rule(schema=SCHEMAS, table=TABLES, new=TABLES)
    def rename_table(self, schema: str, table: str, new: str) -> None:
        if not self.find(schema, table) or table == new:
            return
        error = AlreadyExists if self.find(schema, new) else None
        self.expect(error, self.client.rename_table, schema, table, new)
        if error is None:
            self.schemas[schema][new] = self.schemas[schema].pop(table)

    @rule(schema=SCHEMAS, table=TABLES, column=COLUMNS)
    def add_column(self, schema: str, table: str, column: str) -> None:
        if not (found := self.find(schema, table)):
            return
        error = AlreadyExists if column in found.columns else None
        added = pa.field(column, pa.int64())
        self.expect(error, self.client.add_column, schema, table, added)
        if error is None:
            found.columns.append(column)
            for row in found.rows.values():
                row[column] = None

    @rule(schema=SCHEMAS, table=TABLES, column=COLUMNS)
    def remove_column(self, schema: str, table: str, column: str) -> None:
        if not (found := self.find(schema, table)):
            return
        error: type[ServerError] | None = None if column in found.columns else NotFound
        if found.columns == [column]:
            error = FailedPrecondition
        self.expect(error, self.client.remove_column, schema, table, column)
        if error is None:
            found.columns.remove(column)
            found.required.discard(column)
            for row in found.rows.values():
                del row[column]

    @rule(schema=SCHEMAS, table=TABLES, column=COLUMNS)
    def set_not_null(self, schema: str, table: str, column: str) -> None:
        if not (found := self.find(schema, table)) or column not in found.columns:
            return
        nulls = any(row[column] is None for row in found.rows.values())
        error = FailedPrecondition if nulls else None
        self.expect(error, self.client.set_not_null, schema, table, column)
        if error is None:
            found.required.add(column)

    @rule(schema=SCHEMAS, table=TABLES, column=COLUMNS)
    def drop_not_null(self, schema: str, table: str, column: str) -> None:
        found = self.find(schema, table)
        if found and column in found.columns:
            self.client.drop_not_null(schema, table, column)
            found.required.discard(column)

    @rule(schema=SCHEMAS, table=TABLES, values=ROWS, batch_rows=st.integers(1, 3))
    def insert(self, schema: str, table: str, values: list, batch_rows: int) -> None:
        if not (found := self.find(schema, table)):
            return
        rows = [dict(zip(found.columns, each, strict=False)) for each in values]
        refused = any(row[name] is None for row in rows for name in found.required)
        sent = pa.Table.from_pylist(rows, pa.schema([(n, pa.int64()) for n in found.columns]))
        error = ConstraintViolation if refused else None
        done = self.expect(error, self.client.insert, schema, table, sent, True, batch_rows)
        if done is not None:
            new = done.returning["rowid"].to_pylist()
            assert found.used.isdisjoint(new)
            assert len(set(new)) == len(rows) == done.affected_rows
            found.used.update(new)
            found.rows.update(zip(new, rows, strict=True))

    @rule(schema=SCHEMAS, table=TABLES, chosen=st.lists(CHOICE, max_size=4), value=NUMBERS)
    def update(self, schema: str, table: str, chosen: list[int], value: int | None) -> None:
        if not (found := self.find(schema, table)):
            return
        rowids = sorted({sorted(found.rows)[n % len(found.rows)] for n in chosen if found.rows})
        name = found.columns[sum(chosen) % len(found.columns)]
        refused = value is None and name in found.required and rowids
        sent = pa.table(
            {name: pa.array([value] * len(rowids), pa.int64()), "rowid": rowids_(rowids)}
        )
        error = ConstraintViolation if refused else None
        done = self.expect(error, self.client.update, schema, table, sent, True)
        if done is not None:
            assert done.returning.to_pydict() == sent.to_pydict()
            for rowid in rowids:
                found.rows[rowid][name] = value

    @rule(schema=SCHEMAS, table=TABLES, chosen=st.lists(CHOICE, max_size=3))
    def delete(self, schema: str, table: str, chosen: list[int]) -> None:
        if not (found := self.find(schema, table)):
            return
        rowids = sorted({sorted(found.rows)[n % len(found.rows)] for n in chosen if found.rows})
        done = self.client.delete(schema, table, rowids_(rowids), returning=True)
        assert done.returning is not None
        assert done.returning["rowid"].to_pylist() == rowids
        for rowid in rowids:
            del found.rows[rowid]

    @rule(schema=SCHEMAS, table=TABLES)
    def write_to_a_row_that_never_was(self, schema: str, table: str) -> None:
        if self.find(schema, table):
            with pytest.raises((BadRequest, NotFound, Conflict)):
                self.client.delete(schema, table, rowids_([10**12]))

    @rule(schema=SCHEMAS, table=TABLES)
    def travel_to_a_version_that_never_was(self, schema: str, table: str) -> None:
        if self.find(schema, table):
            with pytest.raises(NotFound):
                self.client.read(schema, table, at=AsOf(AtUnit.VERSION, "1000000"))

    @invariant()
    def contents_are_those_of_the_model(self) -> None:
        listed = {each.name: each.tables for each in self.client.list_schemas()}
        assert {name: sorted(t.name for t in tables) for name, tables in listed.items()} == {
            name: sorted(tables) for name, tables in self.schemas.items()
        }
        for schema, tables in self.schemas.items():
            for name, table in tables.items():
                found = self.client.read(schema, name, [*table.columns, "rowid"])
                assert found.sort_by("rowid").to_pydict() == table.lists()


def rowids_(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int64())


@pytest.fixture(scope="module")
def catalogs() -> Iterator[tuple[dict[str, MemoryCatalog], str]]:
    served: dict[str, MemoryCatalog] = {"c": MemoryCatalog()}
    with Server(served, port=0) as server:
        server.start()
        yield served, server.location


def test_random_statements_do_what_the_model_says(catalogs):
    """Give every example a catalog of its own, on one server."""
    served, location = catalogs
    numbers = count()

    class Fresh(Statements):
        def __init__(self) -> None:
            super().__init__()
            name = f"c{next(numbers)}"
            served[name] = MemoryCatalog()
            self.client = connect(location, name)

        def teardown(self) -> None:
            self.client.close()

    limits = settings(
        max_examples=14,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Fresh, settings=limits)
