"""Field ids through changes: a field keeps its id for as long as it means the same."""

from typing import Any

from jetbridge.backends.lake.types import Iceberg

# What Iceberg reads from old files as the new type.
_WIDENS = {("int", "long"), ("float", "double")}


def merged(old: Iceberg, new: Iceberg) -> Iceberg | None:
    """The new type with the ids of the old one where fields have the same name.

    None if the files of the old type cannot be read as the new one.
    """
    if isinstance(old, str) or isinstance(new, str):
        return new if isinstance(old, str) and isinstance(new, str) and _reads(old, new) else None
    if old["type"] != new["type"]:
        return None
    if new["type"] == "struct":
        return _merged_struct(old, new)
    result = dict(new)
    for part in ("element", "key", "value"):
        if part in new:
            inner = merged(old[part], new[part])
            if inner is None:
                return None
            result[part], result[f"{part}-id"] = inner, old[f"{part}-id"]
    return result


def _merged_struct(old: Iceberg, new: Iceberg) -> Iceberg | None:
    known = {field["name"]: field for field in old["fields"]}
    fields: list[dict[str, Any]] = []
    for field in new["fields"]:
        before = known.get(field["name"])
        if before is None:
            fields.append(field)
            continue
        kind = merged(before["type"], field["type"])
        if kind is None:
            return None
        fields.append({**field, "id": before["id"], "type": kind})
    return {**new, "fields": fields}


def _reads(old: str, new: str) -> bool:
    if old.replace(" ", "") == new.replace(" ", "") or (old, new) in _WIDENS:
        return True
    before, after = _digits(old), _digits(new)
    return bool(before and after and before[1] == after[1] and before[0] <= after[0])


def _digits(kind: str) -> tuple[int, int] | None:
    if not kind.startswith("decimal("):
        return None
    precision, _, scale = kind[len("decimal(") : -1].partition(",")
    return int(precision), int(scale)
