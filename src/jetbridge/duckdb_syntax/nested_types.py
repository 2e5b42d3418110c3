"""DuckDB's names of nested types, built from the names of their parts.

They quote names and labels themselves: `wire` builds them and may not import `sql`.
"""

from collections.abc import Iterable


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


def list_of(element: str) -> str:
    return f"{element}[]"


def array_of(element: str, size: int) -> str:
    return f"{element}[{size}]"


def map_of(key: str, value: str) -> str:
    return f"MAP({key}, {value})"


def struct_of(fields: Iterable[tuple[str, str]]) -> str:
    return "STRUCT(" + ", ".join(f"{_quoted(name, chr(34))} {kind}" for name, kind in fields) + ")"


def enum_of(labels: Iterable[str]) -> str:
    return "ENUM(" + ", ".join(_quoted(label, "'") for label in labels) + ")"


def kind_of(type_name: str) -> str:
    """The family of a type: `DECIMAL` of `DECIMAL(12,2)`, `LIST` of lists and arrays alike."""
    return "LIST" if type_name.endswith("]") else type_name.partition("(")[0]
