"""CHECK, UNIQUE and PRIMARY KEY over batches."""

import pyarrow as pa
import pytest

from jetbridge.backends.tables.constraints import check_rows, refuse_duplicates, select_key
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import UniqueKey
from jetbridge.errors import ConstraintViolation, DuplicateKey

KEY = UniqueKey(("b", "a"), False)
TABLE = Definition(
    "t", pa.schema([("a", pa.int64()), ("b", pa.string())]), checks=("(a > 0)",), keys=(KEY,)
)


def batch(*rows):
    columns = [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows])]
    return pa.RecordBatch.from_arrays(columns, names=["c0", "c1"])


def test_a_failed_check_names_the_first_row():
    check_rows(TABLE, "s.t", [batch((1, "x")), batch((None, "y"))])
    with pytest.raises(ConstraintViolation, match=r"s.t: \(a > 0\), first row with a = -2"):
        check_rows(TABLE, "s.t", iter([batch((1, "x")), batch((-2, "y"), (-3, "z"))]))


def test_columns_of_a_key_are_in_the_order_of_the_key():
    keys = select_key(TABLE, KEY, iter([batch((1, "x")), batch((2, "y"))]))
    assert keys.to_pydict() == {"b": ["x", "y"], "a": [1, 2]}


def test_a_key_that_is_written_twice_or_exists_already_is_a_duplicate():
    new = select_key(TABLE, KEY, [batch((1, "x"), (2, "x"))])
    others = [select_key(TABLE, KEY, [batch((3, "x"))]), select_key(TABLE, KEY, [batch((2, "x"))])]
    refuse_duplicates("s.t", KEY, new)
    refuse_duplicates("s.t", KEY, new, others[:1])
    with pytest.raises(DuplicateKey, match=r"Duplicate key in s.t: \(b, a\) = \('?x'?, 2\)"):
        refuse_duplicates("s.t", KEY, new, iter(others))
    twice = select_key(TABLE, KEY, [batch((1, "x")), batch((1, "x"))])
    with pytest.raises(DuplicateKey, match=r"\(b, a\) = \('?x'?, 1\)"):
        refuse_duplicates("s.t", KEY, twice)
