"""SQL text, cut into statements by DuckDB's own parser."""

from dataclasses import dataclass

import duckdb

from jetbridge.errors import BadRequest

_LONGEST = 400


@dataclass(frozen=True)
class Parsed:
    """`kind` is DuckDB's name for it: SELECT, CREATE, MERGE_INTO, ..."""

    kind: str
    text: str


def split_statements(text: str) -> list[Parsed]:
    """Raises BadRequest with what DuckDB says, and where."""
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise BadRequest(_sentence(str(error))) from None
    return [Parsed(each.type.name, each.query.strip("; \t\r\n")) for each in found]


def _sentence(message: str) -> str:
    """`Parser Error: ...` and the line with its marker, in one line."""
    first, _, rest = message.partition("\n")
    where = next((line for line in rest.splitlines() if line.startswith("LINE ")), "")
    return f"{first}{' at ' + where.strip() if where else ''}"[:_LONGEST]
