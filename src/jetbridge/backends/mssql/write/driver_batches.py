"""Rows as the driver takes them, judged before anything is sent."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.types import ServerColumn, loaded_type, wire_type
from jetbridge.dialects.tsql.types import MOST_DIGITS
from jetbridge.duckdb_engine import cast, format_value
from jetbridge.errors import BadRequest

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_MICROS = 86_400_000_000
_LARGEST_TINYINT = 255
_BEYOND_UNICODE_16 = "[\U00010000-\U0010ffff]"
# Lengths that `auto` chooses from.
_LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 4000)
_LONGEST_BYTES = 8000
_EXACT = Context(prec=MOST_DIGITS)


@dataclass(frozen=True)
class BulkColumn:
    """A column on its way: its name, and the T-SQL type that it is loaded into."""

    name: str
    kind: str

    @property
    def family(self) -> str:
        return self.kind.partition("(")[0]

    def field(self) -> pa.Field:
        return pa.field(self.name, wire_type(self.kind))

    def array(self, values: pa.Array, first_row: int) -> pa.Array:
        """As the driver takes it; raises BadRequest with column and row."""
        judge = _JUDGES.get(self.family)
        bad = _too_long(self.kind, values) if judge is None else judge(values)
        if bad is not None:
            row, problem = bad
            raise BadRequest(
                f"column {self.name!r}, row {first_row + row}: "
                f"{format_value(values[row])} {problem}"
            )
        return cast(values, self.field(), first_row)


def loaded(columns: Sequence[ServerColumn]) -> list[BulkColumn]:
    return [BulkColumn(each.name, collated(each)) for each in columns]


def collated(column: ServerColumn) -> str:
    """A staging column keeps the letters that only the collation of its target has."""
    kind = loaded_type(column)
    is_text = kind.startswith(("varchar", "nvarchar")) and column.collation.isidentifier()
    return f"{kind} COLLATE {column.collation}" if is_text else kind


def converted(
    columns: Sequence[BulkColumn], values: Sequence[pa.Array], first_row: int
) -> pa.RecordBatch:
    """A batch as the driver takes it."""
    made = [each.array(array, first_row) for each, array in zip(columns, values, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=wire_schema(columns))


def all_converted(
    columns: Sequence[BulkColumn], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches with these columns, in other types; rows are counted from the first one."""
    first = 0
    for batch in batches:
        yield converted(columns, batch.columns, first)
        first += batch.num_rows


def wire_schema(columns: Sequence[BulkColumn]) -> pa.Schema:
    return pa.schema([each.field() for each in columns])


Bad = tuple[int, str] | None


def _first(mask: pa.Array, problem: str) -> Bad:
    row = pc.index(mask, value=True).as_py()
    return None if row < 0 else (row, problem)


def _tinyint(values: pa.Array) -> Bad:
    if not pa.types.is_integer(values.type) or values.type == pa.uint8():
        return None
    outside = pc.less(values, 0)
    if values.type != pa.int8():
        outside = pc.or_(outside, pc.greater(values, _LARGEST_TINYINT))
    return _first(
        outside, "does not fit tinyint of SQL Server (0 to 255); SET mssql_ctas_tinyint = SMALLINT"
    )


def _finite(values: pa.Array) -> Bad:
    if not pa.types.is_floating(values.type):
        return None
    return _first(pc.invert(pc.is_finite(values)), "is no number that SQL Server has; use NULL")


def _date(values: pa.Array) -> Bad:
    if not pa.types.is_date32(values.type):
        return None
    return _outside(values.cast(pa.int32()), _FIRST_DAY, _LAST_DAY + 1)


def _moment(values: pa.Array) -> Bad:
    if not pa.types.is_timestamp(values.type) or values.type.unit != "us":
        return None
    low, high = _FIRST_DAY * _MICROS, (_LAST_DAY + 1) * _MICROS
    return _outside(values.cast(pa.int64()), low, high)


def _outside(numbers: pa.Array, low: int, end: int) -> Bad:
    outside = pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, end))
    return _first(outside, "is not in the years 1 to 9999 that SQL Server has")


def _too_long(kind: str, values: pa.Array) -> Bad:
    """Characters of varchar may take several bytes; the server judges those that are left."""
    sized = _SIZED.match(kind)
    if sized is None or not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return None
    most = int(sized[2])
    lengths = _LENGTHS_OF[sized[1]](values)
    return _first(pc.greater(lengths, most), f"is longer than {sized[0]} of SQL Server")


def _units(values: pa.Array) -> pa.Array:
    lengths = pc.utf8_length(values)
    if pc.sum(pc.binary_length(values)) == pc.sum(lengths):  # all of it is ASCII
        return lengths
    return pc.add(lengths, pc.count_substring_regex(values, _BEYOND_UNICODE_16))


_SIZED = re.compile(r"(nvarchar|varchar|varbinary)\((\d+)\)")
_LENGTHS_OF: dict[str, Callable[[pa.Array], pa.Array]] = {
    "nvarchar": _units,
    "varchar": pc.utf8_length,
    "varbinary": pc.binary_length,
}


def _digits(values: pa.Array) -> Bad:
    """A HUGEINT may have 39 of them; Arrow does not mind."""
    kind = values.type
    if not pa.types.is_decimal128(kind) or kind.precision < MOST_DIGITS:
        return None
    most = pa.scalar(Decimal(10**MOST_DIGITS - 1).scaleb(-kind.scale, _EXACT), kind)
    return _first(pc.greater(pc.abs(values), most), f"has more than {MOST_DIGITS} digits")


_JUDGES: dict[str, Callable[[pa.Array], Bad]] = {
    "tinyint": _tinyint,
    "decimal": _digits,
    "real": _finite,
    "float": _finite,
    "date": _date,
    "datetime2": _moment,
    "datetimeoffset": _moment,
}


def units(column: pa.Array) -> int:
    """The most UTF-16 units of a text, as nvarchar counts."""
    most: int = pc.max(pc.utf8_length(column)).as_py() or 0
    if most and pc.any(pc.match_substring_regex(column, _BEYOND_UNICODE_16)).as_py():
        return 2 * most
    return most


def octets(column: pa.Array) -> int:
    """The most bytes of a text, which varchar cannot need more of."""
    found: int = pc.max(pc.binary_length(column)).as_py() or 0
    return found


def sized(column: BulkColumn, most: int) -> BulkColumn:
    """With the next length up; `max` for what is longer than any."""
    wide = column.family == "nvarchar"
    lengths = _LENGTHS if wide else (*_LENGTHS, _LONGEST_BYTES)
    found = next((str(each) for each in lengths if each >= most), "max")
    return replace(column, kind=f"{column.family}({found})")
