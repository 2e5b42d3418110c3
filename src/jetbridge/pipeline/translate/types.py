"""What Spark calls the types of DuckDB; most of what it lacks is refused."""

import re
from collections.abc import Iterator

from jetbridge.dialects.spark import identifier
from jetbridge.pipeline.translate.untranslatable import Untranslatable

# The type of a bare NULL, which fits everywhere; DESCRIBE would call it INTEGER.
NULL = "NULL"

_FLAT = {
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "HUGEINT": "DECIMAL(38,0)",  # only results of sums, which Spark cannot hold otherwise
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    NULL: "VOID",
}
_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")
_LIST, _STRUCT = "LIST", "STRUCT"
_PLAIN = re.compile(r"[A-Za-z]\w*", re.ASCII)
_NAME = re.compile(r'"((?:[^"]|"")*)"|(\w+)')


def spark_type(duckdb_type: str) -> str:
    """Raises Untranslatable for a type that Spark has not."""
    if duckdb_type in _FLAT:
        return _FLAT[duckdb_type]
    if _DECIMAL.fullmatch(duckdb_type):
        return duckdb_type
    if duckdb_type.endswith("[]"):
        return f"ARRAY<{spark_type(duckdb_type[:-2])}>"
    if duckdb_type.startswith("STRUCT(") and duckdb_type.endswith(")"):
        inner = (f"{_field(n)}: {spark_type(t)}" for n, t in struct_fields(duckdb_type))
        return f"STRUCT<{', '.join(inner)}>"
    raise Untranslatable(f"the type {duckdb_type}")


def _field(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else identifier(name)


def kind(duckdb_type: str) -> str:
    """The type without its parameters."""
    if duckdb_type.endswith("[]"):
        return _LIST
    if duckdb_type.endswith("]"):
        return "ARRAY"
    return duckdb_type.partition("(")[0]


def element_type(list_type: str) -> str:
    return list_type.removesuffix("[]")


def struct_fields(struct_type: str) -> list[tuple[str, str]]:
    """Names and types of the fields, as written in STRUCT(...)."""
    return list(_fields(struct_type.removeprefix("STRUCT(").removesuffix(")")))


def _fields(text: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        found = _NAME.match(part)
        if found is None:
            raise Untranslatable(f"the type STRUCT({text})")
        name = found[2] if found[1] is None else found[1].replace('""', '"')
        yield name, part[found.end() :].strip()


def _split(text: str) -> Iterator[str]:
    """At the commas outside of brackets and quotes."""
    depth, quoted, start = 0, False, 0
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif not quoted:
            depth += (char == "(") - (char == ")")
            if char == "," and depth == 0:
                yield text[start:at].strip()
                start = at + 1
    yield text[start:].strip()
