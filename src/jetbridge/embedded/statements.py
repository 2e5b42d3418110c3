"""What kind of statement a text is, by DuckDB's own parser."""

import duckdb

from jetbridge.errors import BadRequest

_LONGEST = 400


def kind_of_statement(text: str) -> str:
    """DuckDB's name for it: SELECT, CREATE, MERGE_INTO, ...

    Some become several statements; the first says what is meant. Raises BadRequest with what
    DuckDB says, and where.
    """
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as error:
        raise BadRequest(_sentence(str(error))) from None
    return found[0].type.name if found else ""


def _sentence(message: str) -> str:
    """`Parser Error: ...` and the line with its marker, in one line."""
    first, _, rest = message.partition("\n")
    where = next((line for line in rest.splitlines() if line.startswith("LINE ")), "")
    return f"{first}{' at ' + where.strip() if where else ''}"[:_LONGEST]
