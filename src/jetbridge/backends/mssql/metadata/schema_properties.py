"""Converts comments and tags of schemas to extended properties of SQL Server, and back."""

from collections.abc import Iterable, Iterator

from jetbridge.catalog import SchemaInfo
from jetbridge.dialects.tsql import statements
from jetbridge.errors import BadRequest

# A property has 7,500 bytes, and a character of nvarchar has two.
LONGEST_VALUE = 3750
_LONGEST_TAG = statements.LONGEST_NAME - len(statements.TAG_PREFIX)


def properties_of(info: SchemaInfo) -> list[tuple[str, str]]:
    """Return the names and values of properties for a comment and tags.

    Raises BadRequest for values that are too long for an extended property.
    """
    return list(_properties(info))


def _properties(info: SchemaInfo) -> Iterator[tuple[str, str]]:
    if info.comment:
        _check_length(f"the comment of schema {info.name!r}", info.comment)
        yield statements.DESCRIPTION, info.comment
    for key, value in info.tags.items():
        if _length(key) > _LONGEST_TAG:
            raise BadRequest(
                f"a tag of schema {info.name!r} is too long: {_length(key)} characters; SQL Server "
                f"keeps names of tags of up to {_LONGEST_TAG}: shorten {key[:40]!r}…"
            )
        _check_length(f"tag {key!r} of schema {info.name!r}", value)
        yield statements.TAG_PREFIX + key, value


def _check_length(title: str, value: str) -> None:
    if _length(value) > LONGEST_VALUE:
        raise BadRequest(
            f"{title} has {_length(value):,} characters; SQL Server keeps up to {LONGEST_VALUE:,}: "
            "shorten it"
        )


def _length(value: str) -> int:
    """Return the length in UTF-16 code units, as SQL Server counts."""
    return len(value.encode("utf-16-le", "surrogatepass")) // 2


def schema_info(name: str, rows: Iterable[tuple[str, str, str | None]]) -> SchemaInfo:
    """Return a schema with its comment and tags, from the properties of all schemas."""
    properties = {key: value or "" for schema, key, value in rows if schema == name}
    tags = {
        key.removeprefix(statements.TAG_PREFIX): value
        for key, value in properties.items()
        if key.startswith(statements.TAG_PREFIX)
    }
    return SchemaInfo(name, properties.get(statements.DESCRIPTION, ""), tags)
