"""Random statements against the memory backend and against a model of plain Python lists."""

from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    AddColumn,
    AsOf,
    AtUnit,
    CreateTable,
    DMLOptions,
    RemoveColumn,
    RenameColumn,
    Scan,
    SchemaInfo,
    UniqueKey,
)
from jetbridge.errors import Conflict, DuplicateKey
from jetbridge.expr import Column, Comparison, Constant

KEYS = st.integers(0, 30)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.none() | st.integers(-3, 3)
Rows = dict[int, dict[str, Any]]


class Tables(RuleBasedStateMachine):
    """Model one table with a unique `id`: map row ids to rows, version by version."""

    @initialize()
    def create(self) -> None:
        self.schema = MemoryCatalog().create_schema(SchemaInfo("s"))
        fields = pa.schema([("id", pa.int64()), ("a", pa.int64())])
        self.schema.create_table(CreateTable("t", fields, keys=(UniqueKey(("id",)),)))
        self.columns = ["id", "a"]
        self.rows: Rows = {}
        self.history: list[tuple[list[str], Rows]] = [(["id", "a"], {})]
        self.used: set[int] = set()

    def publish(self, rows: Rows, columns: list[str] | None = None) -> None:
        self.rows, self.columns = rows, columns or self.columns
        self.history.append((self.columns, rows))

    def batch(self, data: dict[str, list[Any]]) -> pa.RecordBatch:
        return pa.record_batch({name: pa.array(v, pa.int64()) for name, v in data.items()})

    @rule(ids=st.lists(KEYS, min_size=1, max_size=6), value=VALUES, fail=st.booleans())
    def insert(self, ids: list[int], value: int | None, fail: bool) -> None:
        taken = [row["id"] for row in self.rows.values()]
        clash = len(set(ids)) < len(ids) or bool(set(ids) & set(taken))
        new: Rows = {}
        try:
            with self.schema.load_table("t").inserting(DMLOptions(returning=True)) as write:
                for i in ids:
                    sent = self.batch({"id": [i], self.columns[-1]: [value]})
                    if self.columns[-1] == "id":
                        sent = self.batch({"id": [i]})
                    answer = write(sent).returning_data
                    assert answer is not None
                    row = answer.to_pylist()[0]
                    new[row.pop("rowid")] = row
                if fail:
                    raise ConnectionError
        except ConnectionError:
            return
        except DuplicateKey:
            assert clash
            return
        finally:
            assert not self.used & set(new)
            self.used |= set(new)
        assert not clash
        self.publish({**self.rows, **new})

    @precondition(lambda self: self.rows and len(self.columns) > 1)
    @rule(data=st.data(), value=VALUES)
    def update(self, data: st.DataObject, value: int | None) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.rows)), min_size=1, max_size=5))
        name = self.columns[-1]
        with self.schema.load_table("t").updating(DMLOptions()) as write:
            for rowid in chosen:
                write(self.batch({name: [value], "rowid": [rowid]}))
        changed = {rowid: {**self.rows[rowid], name: value} for rowid in chosen}
        self.publish({**self.rows, **changed})

    @precondition(lambda self: len(self.rows) > 1)
    @rule(data=st.data(), shift=st.integers(0, 3))
    def rotate_keys(self, data: st.DataObject, shift: int) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.rows)), min_size=2, unique=True))
        ids = [self.rows[rowid]["id"] for rowid in chosen]
        moved = ids[shift % len(ids) :] + ids[: shift % len(ids)]
        with self.schema.load_table("t").updating(DMLOptions()) as write:
            write(self.batch({"id": moved, "rowid": chosen}))
        changed = {r: {**self.rows[r], "id": i} for r, i in zip(chosen, moved, strict=True)}
        self.publish({**self.rows, **changed})

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.rows)), min_size=1, max_size=8))
        stale = self.schema.load_table("t")
        with self.schema.load_table("t").deleting(DMLOptions()) as write:
            assert write(self.batch({"rowid": chosen})).affected_rows == len(set(chosen))
        self.publish({r: row for r, row in self.rows.items() if r not in chosen})
        try:
            with stale.deleting(DMLOptions()) as write:
                write(self.batch({"rowid": chosen}))
        except Conflict:
            return
        raise AssertionError("a row was deleted twice")

    @rule(name=NAMES)
    def add_column(self, name: str) -> None:
        if name not in self.columns:
            field = pa.field(name, pa.int64(), metadata={"default": "7"})
            self.schema.load_table("t").alter(AddColumn(field))
            rows = {r: {**row, name: 7} for r, row in self.rows.items()}
            self.publish(rows, [*self.columns, name])

    @precondition(lambda self: len(self.columns) > 1)
    @rule()
    def remove_column(self) -> None:
        name = self.columns[-1]
        self.schema.load_table("t").alter(RemoveColumn(name))
        rows = {r: {k: v for k, v in row.items() if k != name} for r, row in self.rows.items()}
        self.publish(rows, self.columns[:-1])

    @precondition(lambda self: len(self.columns) > 1)
    @rule(new=st.sampled_from(["x", "y"]))
    def rename_column(self, new: str) -> None:
        if new not in self.columns:
            old = self.columns[-1]
            self.schema.load_table("t").alter(RenameColumn(old, new))
            rows = {
                r: {(new if k == old else k): v for k, v in row.items()}
                for r, row in self.rows.items()
            }
            self.publish(rows, [*self.columns[:-1], new])

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        version = data.draw(st.integers(0, len(self.history) - 1))
        columns, rows = self.history[version]
        past = self.schema.load_table("t").at(AsOf(AtUnit.VERSION, str(version)))
        assert past.info().schema.names == columns
        assert contents(past) == rows

    @rule(limit=KEYS)
    def filtered(self, limit: int) -> None:
        condition = Comparison(">", Column("id"), Constant("BIGINT", limit))
        found = contents(self.schema.load_table("t"), condition)
        assert found == {r: row for r, row in self.rows.items() if row["id"] > limit}

    @invariant()
    def table_is_the_model(self) -> None:
        table = self.schema.load_table("t")
        assert table.info().version == len(self.history) - 1
        assert table.count_rows() == len(self.rows)
        assert contents(table) == self.rows


def contents(table: Any, condition: Any = None) -> Rows:
    listed = [row for b in table.scan(Scan(filter=condition)) for row in b.to_pylist()]
    found = {row.pop("rowid"): row for row in listed}
    assert len(found) == len(listed)
    return found


TestTables = Tables.TestCase
TestTables.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
