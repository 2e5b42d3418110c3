"""Holds the parts of an Iceberg metadata file that the lake uses, decoded once.

Iceberg's specification names all keys: https://iceberg.apache.org/spec/#table-metadata-and-snapshots
Keys that are not named here are skipped. A schema also keeps its JSON, because it goes back to
Iceberg's Java library when a column changes, and keys of newer versions must not be lost.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    ListType,
    MapType,
    StructType,
    to_json,
)


class Snapshot(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """Describe one snapshot of a table."""

    snapshot_id: int
    timestamp_ms: int = 0
    sequence_number: int = 0
    parent_snapshot_id: int | None = None
    schema_id: int | None = None
    manifest_list: str | None = None
    # Format 1 may name the manifests themselves.
    manifests: tuple[str, ...] | None = None
    first_row_id: int | None = None
    summary: dict[str, str] | None = None

    def property(self, name: str) -> str | None:
        """Return a property of the summary."""
        return (self.summary or {}).get(name)

    def total(self, name: str) -> int | None:
        """Return a number of the summary, such as `total-records`; None if it is not there."""
        text = self.property(name)
        return None if text is None else int(text)


class PartitionField(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe one field of a partition spec."""

    name: str
    transform: str
    source_id: int | None = None


class PartitionSpec(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe how rows are partitioned; a table without partitions has no fields."""

    spec_id: int
    fields: tuple[PartitionField, ...]


class SortField(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe one field of a sort order."""

    transform: str
    direction: str
    null_order: str
    source_id: int | None = None


class SortOrder(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe how rows of a file are sorted."""

    order_id: int
    fields: tuple[SortField, ...]


class Reference(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe a branch or a tag."""

    snapshot_id: int
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    def has_rules(self) -> bool:
        """Return whether the branch or tag says how long it keeps snapshots."""
        rules = (self.min_snapshots_to_keep, self.max_snapshot_age_ms, self.max_ref_age_ms)
        return any(rule is not None for rule in rules)


class StatisticsFile(msgspec.Struct, frozen=True, rename="kebab"):
    """Name a file of statistics."""

    statistics_path: str


class EarlierFile(msgspec.Struct, frozen=True, rename="kebab"):
    """Name a metadata file before the current one."""

    metadata_file: str


class TableSchema(msgspec.Struct, frozen=True, rename="kebab"):
    """Describe the columns of a table."""

    fields: tuple[IcebergField, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] | None = None


class KeptSchema(msgspec.Struct, frozen=True):
    """Hold a schema and its JSON."""

    decoded: TableSchema
    text: bytes

    @property
    def schema_id(self) -> int:
        """Return the number of the schema."""
        return self.decoded.schema_id

    @property
    def fields(self) -> tuple[IcebergField, ...]:
        """Return the columns."""
        return self.decoded.fields

    @property
    def identifiers(self) -> tuple[int, ...]:
        """Return the ids of the columns that are Iceberg's identifier fields."""
        return self.decoded.identifier_field_ids or ()

    def with_fields(self, fields: Iterable[IcebergField], identifiers: Sequence[int]) -> str:
        """Return the JSON of the schema with other fields.

        A field that stays keeps the keys of its JSON that are not known here.
        """
        document = json.loads(self.text)
        changed = {"fields": to_json(fields), "identifier-field-ids": list(identifiers)}
        return json.dumps({**document, **_with_unknown_keys(changed, document)})


_SCHEMA = msgspec.json.Decoder(TableSchema)


def decode_schema(text: bytes | memoryview) -> KeptSchema:
    """Decode a schema; raises ValueError."""
    return KeptSchema(_SCHEMA.decode(text), bytes(text))


_TYPES = (IcebergField, ListType, MapType, StructType)
_KNOWN_KEYS = {"type", *(name for kind in _TYPES for name in kind.__struct_encode_fields__)}


def _with_unknown_keys(new: Any, old: Any) -> Any:
    """Return the JSON of a field or type, with the keys of the old one that no struct has."""
    if not (isinstance(new, dict) and isinstance(old, dict)):
        return new
    result = {key: value for key, value in old.items() if key not in _KNOWN_KEYS} | new
    for key in ("type", "element", "key", "value"):
        if key in new:
            result[key] = _with_unknown_keys(new[key], old.get(key))
    if "fields" in new:
        before = {field.get("id"): field for field in old.get("fields", ())}
        result["fields"] = [_with_unknown_keys(f, before.get(f["id"])) for f in new["fields"]]
    return result


class TableMetadata(msgspec.Struct, rename="kebab"):
    """Hold what a metadata file says of a table, without its snapshots and its logs."""

    format_version: int
    location: str
    last_column_id: int
    schemas: tuple[KeptSchema, ...] = ()
    table_uuid: str | None = None
    last_updated_ms: int | None = None
    current_schema_id: int | None = None
    partition_specs: tuple[PartitionSpec, ...] | None = None
    default_spec_id: int | None = None
    sort_orders: tuple[SortOrder, ...] | None = None
    default_sort_order_id: int | None = None
    properties: dict[str, str] | None = None
    current_snapshot_id: int | None = None
    refs: dict[str, Reference] | None = None
    next_row_id: int | None = None
    statistics: tuple[StatisticsFile, ...] | None = None
    partition_statistics: tuple[StatisticsFile, ...] | None = None
