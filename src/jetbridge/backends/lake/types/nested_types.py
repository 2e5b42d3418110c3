"""Names the shape of nested Arrow types, whichever way Arrow lays them out."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from jetbridge.catalog.identifiers import fold

# Constructors by test; the first that fits.
_LISTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.Field], pa.DataType]], ...] = (
    (pa.types.is_list, lambda _, field: pa.list_(field)),
    (pa.types.is_large_list, lambda _, field: pa.large_list(field)),
    (pa.types.is_list_view, lambda _, field: pa.list_view(field)),
    (pa.types.is_large_list_view, lambda _, field: pa.large_list_view(field)),
    (pa.types.is_fixed_size_list, lambda kind, field: pa.list_(field, kind.list_size)),
)
_SHAPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    *((test, "list") for test, _ in _LISTS),
    (pa.types.is_struct, "struct"),
    (pa.types.is_map, "map"),
    (pa.types.is_union, "union"),
)


def bare(kind: pa.DataType) -> pa.DataType:
    """Return the storage of an extension type if that is nested; else the type itself."""
    while isinstance(kind, pa.BaseExtensionType) and pa.types.is_nested(kind.storage_type):
        kind = kind.storage_type
    return kind


def shape_of(kind: pa.DataType) -> str:
    """Return list, struct, map or union; "" for a flat type."""
    kind = bare(kind)
    return next((name for test, name in _SHAPES if test(kind)), "")


def children(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields right inside a type."""
    kind = bare(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(i) for i in range(kind.num_fields)] if shape_of(kind) else []


def rebuilt(kind: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return the type with other fields inside it."""
    kind = bare(kind)
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(fields[0], fields[1], keys_sorted=kind.keys_sorted)
    if pa.types.is_union(kind):
        return pa.sparse_union(fields, kind.type_codes)
    build = next(build for test, build in _LISTS if test(kind))
    return build(kind, fields[0])


def names_fit(kind: pa.DataType) -> bool:
    """Return whether SQL can spell the names of a struct or union: all differ."""
    names = [fold(child.name) for child in children(kind)]
    return all(names) and len(set(names)) == len(names)


def speakable(kind: pa.DataType) -> bool:
    """Return whether SQL has a name for the type."""
    fits = shape_of(kind) not in {"struct", "union"} or names_fit(kind)
    return fits and all(speakable(child.type) for child in children(kind))


def plain(field: pa.Field) -> pa.Field:
    """Return the field with plain values in place of dictionaries and runs."""
    if pa.types.is_dictionary(field.type) or pa.types.is_run_end_encoded(field.type):
        return plain(field.with_type(field.type.value_type))
    return _with_inner(field, plain)


def with_lists(field: pa.Field) -> pa.Field:
    """Return the field with lists for arrays of a fixed size."""
    field = _with_inner(field, with_lists)
    kind = bare(field.type)
    if pa.types.is_fixed_size_list(kind):
        return field.with_type(pa.list_(kind.value_field))
    return field


def _with_inner(field: pa.Field, change: Callable[[pa.Field], pa.Field]) -> pa.Field:
    inner = children(field.type)
    changed = [change(child) for child in inner]
    if all(one is other for one, other in zip(inner, changed, strict=True)):
        return field
    return field.with_type(rebuilt(field.type, changed))


def stored_names(names: Sequence[str]) -> list[str]:
    """Return names of fields that every engine can read.

    Iceberg joins names with dots, Spark ignores upper and lower case, and in DuckDB a field may
    have no name.
    """
    taken: set[str] = set()
    unique = []
    for name in names:
        base = name.replace(".", "_") or "field"
        free, number = base, 2
        while free.lower() in taken:
            free, number = f"{base}_{number}", number + 1
        taken.add(free.lower())
        unique.append(free)
    return unique
