"""Row ids of SQL Server's tables: made of the primary key, and back."""

from datetime import date
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import row_ids
from jetbridge.backends.mssql.types import ServerColumn
from jetbridge.backends.mssql.write.update_delete import read_count
from jetbridge.catalog import UniqueKey
from jetbridge.errors import BadRequest, NotSupported


def table(*kinds: str, scale: int = 0) -> TableDescription:
    columns = tuple(
        ServerColumn(f"c{i}", kind, 8, 18, scale, nullable=False) for i, kind in enumerate(kinds)
    )
    key = UniqueKey(tuple(each.name for each in columns), primary=True)
    return TableDescription("dbo", "t", 1, "now", False, columns, (key,))


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_one_whole_number_is_the_row_id_itself(kind):
    found = row_ids(table(kind))
    assert found is not None
    assert found.type == pa.int64()
    (key,) = found.decode(pa.array([1, 200], pa.int64()), "t") if kind != "tinyint" else ([1, 200],)
    assert list(map(int, pa.array(key).to_pylist())) == [1, 200]


@pytest.mark.parametrize(
    ("kinds", "scale", "rows"),
    [
        (("nvarchar",), 0, [['a"\\]'], ["ü😀 , "], [""]]),
        (("int", "date"), 0, [[1, date(2020, 2, 29)], [-1, date(1, 1, 1)]]),
        (("uniqueidentifier", "decimal"), 2, [[UUID(int=7), Decimal("1.50")]]),
        (("varbinary", "bit"), 0, [[b"\x00\xff'", True], [b"", False]]),
    ],
)
def test_other_keys_are_a_text_and_come_back(kinds, scale, rows):
    found = row_ids(table(*kinds, scale=scale))
    assert found is not None
    assert found.type == pa.string()
    arrays = [
        pa.array([_plain(value) for value in column], field.type)
        for column, field in zip(zip(*rows, strict=True), found.fields(), strict=True)
    ]
    ids = found.encode(arrays)
    assert len(set(ids.to_pylist())) == len(rows)
    back = found.decode(ids, "t")
    assert [list(row) for row in zip(*(a.to_pylist() for a in back), strict=True)] == rows


def _plain(value: object) -> object:
    return value.bytes if isinstance(value, UUID) else value


@pytest.mark.parametrize("ids", [["x"], ["[]"], ['["1","2","3"]'], ['["a","2020-01-01"]'], [None]])
def test_what_no_row_has_is_refused(ids):
    found = row_ids(table("int", "date"))
    assert found is not None
    with pytest.raises(BadRequest, match="'t'"):
        found.decode(pa.array(ids, pa.string()), "t")


@pytest.mark.parametrize(
    ("kinds", "scale"),
    [(("datetime2",), 7), (("time",), 7), (("datetimeoffset",), 3), (("xml",), 0)],
)
def test_keys_that_are_not_seen_exactly_make_no_row_ids(kinds, scale):
    assert row_ids(table(*kinds, scale=scale)) is None


def test_without_a_key_there_are_none():
    assert row_ids(TableDescription("dbo", "t", 1, "now", False, table("int").columns)) is None


def test_number_of_changed_rows_is_the_only_answer_to_a_change():
    assert read_count([(5,)]) == 5
    for trigger in ([("hello",)], [(1,), (2,)], [(1, 2)], []):
        with pytest.raises(NotSupported, match="trigger"):
            read_count(trigger)
