"""A change is a value: the definition afterwards, the way of the rows, and what they must obey."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.altered_table import verify_rows
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
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
from jetbridge.errors import FailedPrecondition, NotSupported

STRUCT = pa.struct([("x", pa.int8()), ("y", pa.int8())])
BEFORE = Definition(
    "t",
    pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("s", STRUCT)]),
    checks=("(a < 100)",),
    keys=(UniqueKey(("b",), False),),
)
# The names of a batch mean nothing: columns go by position.
ROWS = pa.RecordBatch.from_arrays(
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array(["1", "2", None]),
        pa.array([{"x": 1, "y": 2}, None, {"x": 3, "y": 4}], STRUCT),
    ],
    names=["c0", "c1", "c2"],
)
NEW = pa.field("n", pa.int8(), nullable=False, metadata={"default": "7"})


def step(change, rows=3):
    return alter_definition(BEFORE, change, "s.t", rows)


@pytest.mark.parametrize(
    ("change", "column", "values"),
    [
        (AddColumn(NEW), "n", [7, 7, 7]),
        (ChangeType(pa.field("a", pa.int16())), "a", [1, None, 3]),
        (ChangeType(pa.field("a", pa.int16()), "a + 1"), "a", [2, None, 4]),
        (AddField(("s",), pa.field("z", pa.int8())), "s", [(1, 2, None), None, (3, 4, None)]),
        (RemoveField(("s", "x")), "s", [(2,), None, (4,)]),
        (RenameField(("s", "x"), "q"), "s", [(1, 2), None, (3, 4)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_get_the_schema_of_the_new_definition(change, column, values):
    after = step(change)
    batch = after.convert(ROWS)
    assert batch.schema.equals(after.definition.schema, check_metadata=True)
    found = [tuple(v.values()) if isinstance(v, dict) else v for v in batch[column].to_pylist()]
    assert found == values


def test_removed_column_takes_its_constraints_with_it():
    after = step(RemoveColumn("A", cascade=True))
    assert (after.definition.schema.names, after.definition.checks) == (["b", "s"], ())
    assert after.convert(ROWS).columns == ROWS.columns[1:]


@pytest.mark.parametrize(
    "change",
    [
        RenameColumn("a", "z"),
        RenameTable("u"),
        SetDefault("a", "1"),
        SetNotNull("s"),
        DropNotNull("a"),
        AddCheck("a > 0"),
        AddKey(UniqueKey(("a",), True)),
    ],
    ids=lambda change: type(change).__name__,
)
def test_names_and_constraints_leave_the_rows_alone(change):
    after = step(change)
    assert after.convert is None
    assert after.definition is not BEFORE


@pytest.mark.parametrize(
    "change",
    [
        AddColumn(pa.field("A", pa.int8()), if_not_exists=True),
        RemoveColumn("z", if_exists=True),
        AddField(("s",), pa.field("X", pa.int8()), if_not_exists=True),
        RemoveField(("s", "z"), if_exists=True),
    ],
    ids=lambda change: type(change).__name__,
)
def test_nothing_to_do_is_the_same_definition(change):
    assert step(change).definition is BEFORE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (SetNotNull("A"), "column s.t.a has 2 NULL values; update them first"),
        (AddKey(UniqueKey(("b", "a"), True)), "column s.t.b has 2 NULL values"),
        (AddCheck("a < 3"), r"CHECK constraint failed: s.t: \(a < 3\), first row with a = 3"),
        (AddKey(UniqueKey(("a",), False)), r"Duplicate key in s.t: \(a\) = \(1\) already exists"),
    ],
    ids=["not null", "primary key", "check", "unique key"],
)
def test_rows_that_do_not_obey_fail_the_verification(change, message):
    with pytest.raises(FailedPrecondition, match=message):
        verify_rows(step(change), "s.t", iter([ROWS, ROWS]))


def test_rows_that_obey_are_verified_in_the_new_layout():
    change = step(ChangeType(pa.field("a", pa.int16()), "a + 50"))
    verify_rows(change, "s.t", iter([change.convert(ROWS)]))
    change = step(ChangeType(pa.field("a", pa.int16()), "a + 99"))
    with pytest.raises(FailedPrecondition, match="first row with a = 100"):
        verify_rows(change, "s.t", iter([change.convert(ROWS)]))


@pytest.mark.parametrize("change", [AddCheck("a < 0"), AddKey(UniqueKey(("a",), True))])
def test_table_without_rows_obeys_everything(change):
    verify_rows(step(change, rows=0), "s.t", [])
    verify_rows(step(change, rows=0), "s.t", [ROWS.slice(0, 0)])


def test_nothing_to_verify_reads_no_rows():
    batches = iter([ROWS])
    verify_rows(step(RenameTable("u")), "s.t", batches)
    assert next(batches) is ROWS


def test_required_column_without_default_needs_an_empty_table():
    change = AddColumn(pa.field("n", pa.int8(), nullable=False))
    assert step(change, rows=0).definition.position("n") == 3
    with pytest.raises(FailedPrecondition, match="'n' is NOT NULL and has no default, but 's.t'"):
        step(change, rows=1)


@pytest.mark.parametrize(
    ("before", "change", "message"),
    [
        (
            BEFORE,
            ChangeType(pa.field("b", pa.int8()), "'x' || b"),
            "s.t.b does not survive as int8: ",
        ),
        (
            Definition("t", BEFORE.schema.set(0, pa.field("a", pa.int64(), nullable=False))),
            ChangeType(pa.field("a", pa.int8()), "nullif(a, 1)"),
            "column s.t.a is NOT NULL, but a new value is NULL",
        ),
    ],
    ids=["value", "null"],
)
def test_value_that_does_not_survive_fails_the_rows(before, change, message):
    after = alter_definition(before, change, "s.t", 3)
    assert after.convert is not None
    with pytest.raises(FailedPrecondition, match=message):
        after.convert(ROWS)


def test_unknown_change_is_not_supported():
    with pytest.raises(NotSupported, match="object is not supported"):
        step(object())
