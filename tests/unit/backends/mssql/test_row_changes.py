"""What a process remembers of the rows that it has changed."""

import numpy as np
import pytest

from jetbridge.backends.mssql.metadata.row_changes import RowChanges
from jetbridge.backends.tables.updates import Integers
from jetbridge.errors import Conflict, DuplicateKey


def ids(*numbers: int) -> Integers:
    return np.array(numbers, np.int64)


def change(changes: RowChanges, table: int, since: int, *numbers: int) -> None:
    with changes.changing(table, "s.t", ids(*numbers), since):
        pass


def test_only_rows_that_were_changed_since_conflict():
    changes = RowChanges()
    start = changes.latest()
    change(changes, 1, start, 1, 3, 5)
    middle = changes.latest()
    change(changes, 1, start, 2, 4)
    change(changes, 2, start, 1, 3, 5)
    change(changes, 1, middle, 3)
    change(changes, 1, start)
    for since, number in ((start, 1), (start, 4), (middle, 2), (middle, 3)):
        with pytest.raises(Conflict, match=r"rows of s\.t .* run the statement again"):
            change(changes, 1, since, 0, number, 9)
    change(changes, 1, changes.latest(), 1, 2, 3, 4, 5)


def test_a_running_change_conflicts_and_a_failed_one_counts():
    changes = RowChanges()
    start = changes.latest()
    with pytest.raises(ConnectionError), changes.changing(1, "s.t", ids(7), start):
        with pytest.raises(Conflict):
            change(changes, 1, changes.latest(), 7)
        change(changes, 1, start, 8)
        raise ConnectionError
    with pytest.raises(Conflict):
        change(changes, 1, start, 7)
    change(changes, 1, changes.latest(), 7)


def test_a_refused_change_counts_for_nothing():
    changes = RowChanges()
    start = changes.latest()
    with pytest.raises(DuplicateKey), changes.changing(1, "s.t", ids(7), start):
        raise DuplicateKey("refused")
    change(changes, 1, start, 7)


def test_a_change_that_is_forgotten_conflicts_with_every_row_of_its_table():
    changes = RowChanges(at_most=100)
    start = changes.latest()
    change(changes, 1, start, *range(200))
    with pytest.raises(Conflict):
        change(changes, 1, start, 1000)
    change(changes, 2, start, 1)
    after = changes.latest()
    change(changes, 1, after, 5)
    change(changes, 1, after, 6)
    with pytest.raises(Conflict):
        change(changes, 1, after, 5)
