"""Quotes names and values for SQL: the only two ways by which they become SQL text."""

from jetbridge.errors import BadRequest


def identifier(name: str) -> str:
    if "\0" in name:
        raise BadRequest(f"the name {name!r} contains a NUL character")
    return '"' + _unicode(name).replace('"', '""') + '"'


def literal(value: str | bytes | bool | int | float | None) -> str:
    """Return a constant of DuckDB that means the same in any position."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case bytes():
            # Every byte escaped: the text form of BLOB then needs no second level of quoting.
            return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"
        case _:
            return _text(value)


def _text(value: str) -> str:
    # DuckDB's parser ends the statement at a NUL, so it has to be spelled chr(0).
    parts = ["'" + part.replace("'", "''") + "'" for part in _unicode(value).split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{ascii(text)} is not valid Unicode text") from None
    return text
