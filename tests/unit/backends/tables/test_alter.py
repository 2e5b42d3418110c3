"""ALTER TABLE as a value: the new definition, the converted rows, and the checks of rows."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.constraints import verify_rows
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
from jetbridge.errors import BadRequest, FailedPrecondition, NotSupported

STRUCT = pa.struct([("x", pa.int8()), ("y", pa.int8())])
BEFORE = Definition(
    "t",
    pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("s", STRUCT)]),
    checks=("(a < 100)",),
    keys=(UniqueKey(("b",), False),),
)
# The names of a batch have no meaning: columns are mapped by position.
ROWS = pa.RecordBatch.from_arrays(
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array(["1", "2", None]),
        pa.array([{"x": 1, "y": 2}, None, {"x": 3, "y": 4}], STRUCT),
    ],
    names=["c0", "c1", "c2"],
)
NEW = pa.field("n", pa.int8(), nullable=False, metadata={"default": "7"})


def alter(change, rows=3):
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
    after = alter(change)
    batch = after.convert(ROWS)
    assert batch.schema.equals(after.definition.schema, check_metadata=True)
    found = [tuple(v.values()) if isinstance(v, dict) else v for v in batch[column].to_pylist()]
    assert found == values


def test_removed_column_takes_its_constraints_with_it():
    after = alter(RemoveColumn("A", cascade=True))
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
def test_changes_of_names_and_constraints_convert_no_rows(change):
    after = alter(change)
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
def test_a_change_without_effect_returns_the_same_definition(change):
    assert alter(change).definition is BEFORE


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
def test_rows_that_violate_a_new_constraint_are_refused(change, message):
    with pytest.raises(FailedPrecondition, match=message):
        verify_rows(alter(change), "s.t", iter([ROWS, ROWS]))


def test_converted_rows_are_verified():
    change = alter(ChangeType(pa.field("a", pa.int16()), "a + 50"))
    verify_rows(change, "s.t", iter([change.convert(ROWS)]))
    change = alter(ChangeType(pa.field("a", pa.int16()), "a + 99"))
    with pytest.raises(FailedPrecondition, match="first row with a = 100"):
        verify_rows(change, "s.t", iter([change.convert(ROWS)]))


@pytest.mark.parametrize("change", [AddCheck("a < 0"), AddKey(UniqueKey(("a",), True))])
def test_a_table_without_rows_satisfies_every_constraint(change):
    verify_rows(alter(change, rows=0), "s.t", [])
    verify_rows(alter(change, rows=0), "s.t", [ROWS.slice(0, 0)])


def test_a_change_with_nothing_to_verify_reads_no_rows():
    batches = iter([ROWS])
    verify_rows(alter(RenameTable("u")), "s.t", batches)
    assert next(batches) is ROWS


def test_a_required_column_without_default_needs_an_empty_table():
    change = AddColumn(pa.field("n", pa.int8(), nullable=False))
    assert alter(change, rows=0).definition.position("n") == 3
    with pytest.raises(FailedPrecondition, match="'n' is NOT NULL and has no default, but 's.t'"):
        alter(change, rows=1)


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
def test_a_value_that_cannot_be_converted_is_refused(before, change, message):
    after = alter_definition(before, change, "s.t", 3)
    assert after.convert is not None
    with pytest.raises(FailedPrecondition, match=message):
        after.convert(ROWS)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (RemoveColumn("A"), FailedPrecondition, "used by a CHECK or key of table 't'; add CASCADE"),
        (RemoveField(("s", "x", "q")), BadRequest, "int8 is not a STRUCT"),
        (RemoveField(("s",)), BadRequest, "'s' does not name a field"),
        (AddField(("s",), pa.field("", pa.int8())), BadRequest, "new field of s.t.s needs a name"),
        (RenameField(("s", "x"), ""), BadRequest, "new name of field s.t.s.x is empty"),
        (AddKey(UniqueKey(("z",), False)), BadRequest, "key of table 's.t' names column 'z'"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Alteration) else None,
)
def test_errors_name_the_column_or_field(change, error, message):
    with pytest.raises(error, match=message):
        alter(change)


def test_an_unknown_change_is_not_supported():
    with pytest.raises(NotSupported, match="object is not supported"):
        alter(object())
