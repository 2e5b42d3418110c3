"""The DuckDB beneath: one file in a temporary folder, a few macros, and its errors translated."""

import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import PythonUDFType
from duckdb.sqltypes import BLOB, VARCHAR

from standins.tds.engine.error_texts import TEXTS
from standins.tds.engine.errors import MARK, UNKNOWN, error
from standins.tds.values import SqlError

RAISED = re.compile(f"{MARK}(\\d+){MARK}(.*)", re.DOTALL)
# What code page 1252 has not; SQL Server puts a question mark in its place.
NOT_LATIN = "[^\\x{00}-\\x{7F}\\x{A0}-\\x{FF}€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"
YEAR_ONE = 62135596800000000  # microseconds from there to 1970
MACROS = {
    # Length in UTF-16 units.
    "_len16(x)": "length(x) + length(regexp_replace(x, '[^\\x{10000}-\\x{10FFFF}]', '', 'g'))",
    "_latin(x)": f"CASE WHEN strlen(x) = length(x) THEN x"
    f" ELSE regexp_replace(x, '{NOT_LATIN}', '?', 'g') END",
    # Equal without regard to case and trailing spaces.
    "_fold(x)": "lower(rtrim(x, ' '))",
    # Sorted so: letters with accents stand beside those without.
    "_sort(x)": "strip_accents(lower(rtrim(x, ' '))) || chr(1) || lower(rtrim(x, ' '))",
    # SQL Server compares the last six bytes of a uniqueidentifier first.
    "_guid(x)": "substr(x::VARCHAR, 25, 12) || substr(x::VARCHAR, 20, 4)"
    " || substr(x::VARCHAR, 17, 2) || substr(x::VARCHAR, 15, 2)"
    " || substr(x::VARCHAR, 12, 2) || substr(x::VARCHAR, 10, 2)"
    " || substr(x::VARCHAR, 7, 2) || substr(x::VARCHAR, 5, 2)"
    " || substr(x::VARCHAR, 3, 2) || substr(x::VARCHAR, 1, 2)",
    "_bytes16(x)": "_len16(x) * 2",
    # Ticks of 1/300 s, shown as milliseconds: .000, .003, .007.
    "_ticks(x)": "date_trunc('second', x) + to_microseconds("
    "(round(round((epoch_us(x) - epoch_us(date_trunc('second', x))) * 3 / 10000.0) * 10 / 3.0)"
    " * 1000)::BIGINT)",
    "_rounded(x, unit)": f"make_timestamp(((epoch_us(x) + {YEAR_ONE} + unit // 2) // unit) * unit"
    f" - {YEAR_ONE})",
    # As DuckDB reads it: dashes in a date of eight digits, six digits of a second, no space
    # before an offset.
    "_iso(x)": "regexp_replace(regexp_replace(regexp_replace(regexp_replace(trim(x),"
    " '^(\\d{4})(\\d{2})(\\d{2})($|[ T])', '\\1-\\2-\\3\\4'),"
    " '(\\.\\d{6})\\d+', '\\1'), '\\s+([+-]\\d\\d:\\d\\d)$', '\\1'),"
    " '([ T]\\d{1,2}:\\d{2})($|[+Z-])', '\\1:00\\2')",
}
# Strings as bytes, in the two encodings that SQL Server has for them.
Udf = Callable[[pa.Array], pa.Array]


def _encoded(encoding: str) -> Udf:
    return lambda values: pa.array(
        [None if each is None else each.encode(encoding, "replace") for each in values.to_pylist()],
        pa.binary(),
    )


def _decoded(encoding: str) -> Udf:
    return lambda values: pa.array(
        [None if each is None else each.decode(encoding, "replace") for each in values.to_pylist()],
        pa.string(),
    )


FUNCTIONS: dict[str, tuple[Udf, Any, Any]] = {
    "_utf16": (_encoded("utf-16-le"), VARCHAR, BLOB),
    "_latin1": (_encoded("cp1252"), VARCHAR, BLOB),
    "_of_utf16": (_decoded("utf-16-le"), BLOB, VARCHAR),
    "_of_latin1": (_decoded("cp1252"), BLOB, VARCHAR),
}
SETTINGS: dict[str, Any] = {"memory_limit": "512MB", "threads": 1, "preserve_insertion_order": True}


class Store:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tds-engine-"))
        self._root = duckdb.connect(
            str(self.folder / "data.duckdb"),
            config={**SETTINGS, "temp_directory": str(self.folder / "spill")},
        )
        self._lock = threading.Lock()
        self._root.execute("SET GLOBAL TimeZone = 'UTC'")
        self._root.execute("SET GLOBAL arrow_lossless_conversion = true")
        self._root.execute("SET GLOBAL checkpoint_threshold = '256MB'")
        for head, body in MACROS.items():
            self._root.execute(f"CREATE MACRO {head} AS {body}")
        for name, (function, taken, given) in FUNCTIONS.items():
            self._root.create_function(name, function, [taken], given, type=PythonUDFType.ARROW)
        self._root.execute("SET enable_external_access = false")
        self._root.execute("SET lock_configuration = true")

    def cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._root.cursor()

    def close(self) -> None:
        with self._lock:
            self._root.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_conflict(failure: Exception) -> bool:
    """Two statements of DuckDB met: nothing of this one has happened, it may run again."""
    return isinstance(failure, duckdb.TransactionException) and "onflict" in str(failure)


def translated(failure: Exception, sql: str = "") -> SqlError:
    """A DuckDB error as SQL Server's; what has no counterpart shows itself with its SQL."""
    if isinstance(failure, SqlError):
        return failure
    text = str(failure)
    found = RAISED.search(text)
    if found:
        number = int(found[1])
        return SqlError(number, found[2].strip(), TEXTS[number][0])
    return _by_kind(failure, text, sql)


def _by_kind(failure: Exception, text: str, sql: str) -> SqlError:
    found = KINDS.get(type(failure))
    if found is not None:
        return found(text)
    if "More than one row returned by a subquery" in text:
        return error(512)
    if isinstance(failure, duckdb.BinderException) and "GROUP BY" in text:
        return error(8120, _between(text))
    return error(UNKNOWN, f"{text[:600]} -- {sql[:1500]}")


def _between(text: str) -> str:
    found = re.search(r'"([^"]*)"', text)
    return found[1] if found else "?"


KINDS: dict[type[Exception], Callable[[str], SqlError]] = {
    duckdb.OutOfRangeException: lambda text: error(
        8115, "expression", "bigint" if "INT64" in text else "int"
    ),
    duckdb.InterruptException: lambda text: SqlError(3617, "The query was canceled.", 11),
    duckdb.ConversionException: lambda text: error(8115, "expression", "numeric"),
    duckdb.OutOfMemoryException: lambda text: SqlError(
        701, "There is insufficient system memory to run this query.", 17
    ),
}
