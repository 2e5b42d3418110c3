"""Checks texts against the code pages of `varchar` columns, which depend on their collations.

The driver's core encodes texts in the code page that Windows has for the locale of the collation.
It supports neither UTF-8 nor the pages of DOS. Letters that are not in the page become question
marks, as they do on the server. So texts that are not ASCII are checked before they are sent.
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
# Windows code pages with one byte per character, which the driver encodes correctly.
_ENCODED_BY_DRIVER = frozenset({874, *range(1250, 1259)})
# Collations with this prefix may have another page than their locale.
_SORT_ORDER_PREFIX = "SQL_"


@dataclass(frozen=True)
class Page:
    """Check texts against one code page; its `number` is 0 if it is unknown."""

    number: int
    collation: str = ""

    @property
    def codec(self) -> str:
        return f"cp{self.number}"

    def is_encoded_correctly(self) -> bool:
        by_locale = not self.collation.upper().startswith(_SORT_ORDER_PREFIX)
        return self.number == _LATIN or (self.number in _ENCODED_BY_DRIVER and by_locale)

    def find_unencodable(self, values: pa.Array) -> int | None:
        """Return the index of the first text with a letter that is not in the page."""
        if self.number in (0, _UTF8):
            return None
        one_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        if self._can_encode(pc.binary_join(one_list, "")[0].as_py()):
            return None
        return next(i for i, text in enumerate(values.to_pylist()) if not self._can_encode(text))

    def _can_encode(self, text: str) -> bool:
        try:
            text.encode(self.codec)
        except UnicodeEncodeError:
            return False
        except LookupError:  # a page that Python does not have
            return True
        return True


Query = Callable[[str], list[tuple[Any, ...]]]


class CodePages:
    """Hold the code pages of a load's columns. They are read first: a bulk load blocks queries."""

    def __init__(self, query: Query, columns: Sequence[BulkColumn]) -> None:
        self._columns = [column for column in columns if column.family == "varchar"]
        self._pages = {
            collation: _page(query, collation)
            for collation in {_collation(column) for column in self._columns}
        }

    def are_encoded_correctly(self) -> bool:
        """Return whether the driver encodes all texts that the columns can hold."""
        return all(page.is_encoded_correctly() for page in self._pages.values())

    def find_miscoded(self, batch: pa.RecordBatch, first_row: int) -> pa.Array | None:
        """Return a mask of rows that the driver would encode wrongly; None if there are none.

        Raises BadRequest for a text that its column cannot store.
        """
        mask: pa.Array | None = None
        for column in self._columns:
            values = batch.column(column.name)
            non_ascii = pc.fill_null(
                pc.not_equal(pc.utf8_length(values), pc.binary_length(values)), False
            )
            if not non_ascii.true_count:
                continue
            page = self._pages[_collation(column)]
            self._check(column, page, values, non_ascii, first_row)
            if not page.is_encoded_correctly():
                mask = non_ascii if mask is None else pc.or_(mask, non_ascii)
        return mask

    def _check(
        self, column: BulkColumn, page: Page, values: pa.Array, non_ascii: pa.Array, first_row: int
    ) -> None:
        index = page.find_unencodable(values.filter(non_ascii))
        if index is None:
            return
        row = pc.indices_nonzero(non_ascii)[index].as_py()
        raise BadRequest(
            f"column {column.name!r}, row {first_row + row}: {format_value(values[row])} "
            f"has characters that {column.sql_type} cannot store (code page {page.number}); "
            "use nvarchar"
        )


def _collation(column: BulkColumn) -> str:
    return column.sql_type.partition(" COLLATE ")[2]


def _page(query: Query, collation: str) -> Page:
    ((number, name),) = query(load.select_code_page(collation))
    return Page(number or 0, name or "")
