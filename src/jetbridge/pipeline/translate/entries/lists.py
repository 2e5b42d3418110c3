"""Lists and structs."""

from typing import Any

from jetbridge.dialects.spark import identifier
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    BLOB,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGERS,
    LIST,
    MOMENT,
    STRUCT,
    TEXT,
    TIMESTAMP,
    Kinds,
)
from jetbridge.pipeline.translate.entries.text import positive

_ELEMENTS: tuple[Kinds, ...] = (
    *(frozenset({kind}) for kind in sorted(INTEGERS)),
    *(DECIMAL, DOUBLE, BOOLEAN, TEXT, BLOB, DATE, TIMESTAMP, MOMENT),
)
_LENGTHS = ("len", "length", "array_length")


def field(value: Any) -> str | None:
    return identifier(value) if isinstance(value, str) and value and "\0" not in value else None


def _of_equal(types: tuple[str, ...], result: str) -> bool:
    return len(set(types)) == 1


def _element(types: tuple[str, ...], result: str) -> bool:
    """The second is of the type of the list's elements."""
    return types[0] == f"{types[1]}[]"


def _values() -> tuple[Entry, ...]:
    found = []
    for count in range(1, 5):
        marks = ", ".join(f"{{{at}}}" for at in range(count))
        for kinds in _ELEMENTS:
            takes = (kinds,) * count
            found += [
                Entry(f"[{marks}]", f"array({marks})", takes, fits=_of_equal),
                Entry(f"list_value({marks})", f"array({marks})", takes, fits=_of_equal),
            ]
    return tuple(found)


ENTRIES: tuple[Entry, ...] = (
    *_values(),
    *(Entry(f"{name}({{0}})", "CAST(size({0}) AS BIGINT)", (LIST,)) for name in _LENGTHS),
    *(
        Entry(
            f"{name}({{0}}, {{1}})",
            "try_element_at({0}, {1})",
            (LIST, INTEGERS),
            {1: positive},
            {1: (1, 2, 9)},
        )
        for name in ("list_extract", "list_element", "array_extract")
    ),
    *(
        Entry(
            f"{name}({{0}}, {{1}})",
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL "
            "THEN coalesce(array_contains({0}, {1}), false) END",
            (LIST, TEXT | INTEGERS),
            fits=_element,
        )
        for name in ("list_contains", "list_has", "array_contains", "array_has")
    ),
    *(
        Entry(
            f"{name}({{0}}, {{1}})",
            "concat(coalesce({0}, array()), coalesce({1}, array()))",
            (LIST, LIST),
            fits=_of_equal,
        )
        for name in ("list_concat", "list_cat", "array_concat", "array_cat")
    ),
    *(Entry(f"{name}({{0}})", "array_sort({0})", (LIST,)) for name in ("list_sort", "array_sort")),
    Entry("struct_extract({0}, {1})", "{0}.{1}", (STRUCT, TEXT), {1: field}, {1: ("a", "b")}),
    Entry("{0}[{1}]", "{0}.{1}", (STRUCT, TEXT), {1: field}, {1: ("a", "b")}),
)
