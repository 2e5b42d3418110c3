"""What the metadata of a field says of a column."""

import pyarrow as pa

from jetbridge.errors import BadRequest

DEFAULT = b"default"


def default_of(field: pa.Field) -> str | None:
    """The expression of its default, in DuckDB's SQL."""
    text = (field.metadata or {}).get(DEFAULT)
    try:
        return text.decode() if text else None
    except UnicodeDecodeError:
        raise BadRequest(f"the default of column {field.name!r} is no UTF-8") from None
