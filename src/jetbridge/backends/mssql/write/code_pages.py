"""What `varchar` columns hold: the letters of one code page, which their collation decides.

The driver's core writes texts in the page that Windows has for the locale of the collation. It
knows neither UTF-8 nor the pages of DOS, and what a page lacks becomes a question mark, as it does
on the server. So texts are looked at before they are sent, unless they are ASCII.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.dialects.tsql import load
from jetbridge.duckdb_engine import format_value
from jetbridge.errors import BadRequest

_LATIN = 1252
_UTF8 = 65001
# Those of Windows with one byte for a letter, which the driver was seen to write rightly.
_BY_THE_DRIVER = frozenset({874, *range(1250, 1259)})
# Collations of this kind may have another page than their locale.
_OF_SORT_ORDERS = "SQL_"


@dataclass(frozen=True)
class Page:
    """`number` 0: nobody knows it."""

    number: int
    collation: str = ""

    @property
    def codec(self) -> str:
        return f"cp{self.number}"

    def is_sent_rightly(self) -> bool:
        by_locale = not self.collation.upper().startswith(_OF_SORT_ORDERS)
        return self.number == _LATIN or (self.number in _BY_THE_DRIVER and by_locale)

    def first_lost(self, values: pa.Array) -> int | None:
        """The place of the first text that has a letter of no other page."""
        if self.number in (0, _UTF8):
            return None
        together = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        if self._holds(pc.binary_join(together, "")[0].as_py()):
            return None
        return next(at for at, each in enumerate(values.to_pylist()) if not self._holds(each))

    def _holds(self, text: str) -> bool:
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        except LookupError:  # a page that Python does not have
            return True
        return True


Ask = Callable[[str], list[tuple[Any, ...]]]


class CodePages:
    """Those of the columns of one load; asked at once, for a bulk load lets nobody ask."""

    def __init__(self, ask: Ask, columns: Sequence[BulkColumn]) -> None:
        self._columns = [each for each in columns if each.family == "varchar"]
        self._pages = {
            collation: _page(ask, collation)
            for collation in {_collation(each) for each in self._columns}
        }

    def are_sent_rightly(self) -> bool:
        """Whether the driver writes all texts that the columns can hold."""
        return all(page.is_sent_rightly() for page in self._pages.values())

    def unsent(self, batch: pa.RecordBatch, first_row: int) -> pa.Array | None:
        """A mask of rows that the driver would write wrongly; None if there are none.

        Raises BadRequest for a text that its column cannot hold.
        """
        found: pa.Array | None = None
        for column in self._columns:
            values = batch.column(column.name)
            wide = pc.fill_null(
                pc.not_equal(pc.utf8_length(values), pc.binary_length(values)), False
            )
            if not wide.true_count:
                continue
            page = self._pages[_collation(column)]
            self._judge(column, page, values, wide, first_row)
            if not page.is_sent_rightly():
                found = wide if found is None else pc.or_(found, wide)
        return found

    def _judge(
        self, column: BulkColumn, page: Page, values: pa.Array, wide: pa.Array, first_row: int
    ) -> None:
        place = page.first_lost(values.filter(wide))
        if place is None:
            return
        row = pc.indices_nonzero(wide)[place].as_py()
        raise BadRequest(
            f"column {column.name!r}, row {first_row + row}: {format_value(values[row])} has "
            f"letters that {column.kind} does not, which has those of code page {page.number}; use "
            "nvarchar"
        )


def _collation(column: BulkColumn) -> str:
    return column.kind.partition(" COLLATE ")[2]


def _page(ask: Ask, collation: str) -> Page:
    ((number, name),) = ask(load.code_page(collation))
    return Page(number or 0, name or "")
