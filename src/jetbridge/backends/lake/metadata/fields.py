"""Types inside of types, as Iceberg's metadata has them: which fields there are, by id and name."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from jetbridge.dialects.quoting import identifier

Kind = Any


def inner_fields(kind: Kind) -> Iterator[tuple[int, str]]:
    """Id and name of every field inside a type."""
    if isinstance(kind, str):
        return
    for field in kind.get("fields", ()):
        yield field["id"], field["name"]
        yield from inner_fields(field["type"])
    for part in _parts(kind):
        yield from inner_fields(kind[part])


def has_lists(kind: Kind) -> bool:
    """Lists or maps, at any depth."""
    if isinstance(kind, str):
        return False
    return bool(_parts(kind)) or any(has_lists(field["type"]) for field in kind["fields"])


def _parts(kind: Kind) -> list[str]:
    return [part for part in ("element", "key", "value") if part in kind]


def reshaped(value: str, stored: Kind, wanted: Kind) -> str:
    """SQL for a value whose inner fields were renamed, added or removed since it was stored.

    DuckDB casts structs by the names of their fields; here those with the same id are the same.
    """
    if list(inner_fields(stored)) == list(inner_fields(wanted)):
        return value
    return _reshaped(value, stored, wanted, count())


def _reshaped(value: str, stored: Kind, wanted: Kind, numbers: "count[int]") -> str:
    if isinstance(wanted, str):
        return value
    if "fields" in wanted:
        return f"CASE WHEN {value} IS NOT NULL THEN {_struct(value, stored, wanted, numbers)} END"
    each = f"e{next(numbers)}"
    if "element" in wanted:
        made = _reshaped(each, stored["element"], wanted["element"], numbers)
        return f"list_transform({value}, lambda {each}: {made})"
    made = ", ".join(
        f"{part} := {_reshaped(f'{each}.{part}', stored[part], wanted[part], numbers)}"
        for part in ("key", "value")
    )
    entries = f"list_transform(map_entries({value}), lambda {each}: struct_pack({made}))"
    return f"CASE WHEN {value} IS NOT NULL THEN map_from_entries({entries}) END"


def _struct(value: str, stored: Kind, wanted: Kind, numbers: "count[int]") -> str:
    there = {field["id"]: field for field in stored["fields"]}
    made = []
    for field in wanted["fields"]:
        old = there.get(field["id"])
        found = "NULL"
        if old is not None:
            inner = f"{value}.{identifier(old['name'])}"
            found = _reshaped(inner, old["type"], field["type"], numbers)
        made.append(f"{identifier(field['name'])} := {found}")
    return f"struct_pack({', '.join(made)})"
