"""Reads the metadata of the fields that describe columns."""

import pyarrow as pa

from jetbridge.errors import BadRequest

DEFAULT = b"default"


def default_of(field: pa.Field) -> str | None:
    """Return the default of a column as an expression in DuckDB's SQL, or None if it has none.

    Raises BadRequest if it is not UTF-8.
    """
    text = (field.metadata or {}).get(DEFAULT)
    try:
        return text.decode() if text else None
    except UnicodeDecodeError:
        raise BadRequest(f"the default of column {field.name!r} is not UTF-8") from None
