"""A table as one metadata file tells it: columns, constraints, snapshots.

Metadata files never change, so what was read once is kept. What Iceberg has no place for stands
in the table property `jetbridge.table`, as JSON by field id: the exact types (`types.note`),
defaults, checks and keys.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from jetbridge.backends.lake import types
from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.snapshot_list import SnapshotList
from jetbridge.backends.tables.definition import Definition
from jetbridge.backends.tables.time_travel import (
    describe_kept_versions,
    parse_timestamp,
    parse_version,
    version_not_kept,
)
from jetbridge.catalog import AsOf, AtUnit, TableInfo, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import DEFAULT
from jetbridge.duckdb_engine import may_be_stored
from jetbridge.errors import NotFound

PROPERTY = "jetbridge.table"
# In the summary of the first snapshot of a table that was made anew: the last one from before.
REPLACED = "jetbridge.replaced"
CREATED = "jetbridge.created-ms"
ENFORCE_KEYS = "jetbridge.enforce-keys"
COMMENT = "comment"
# Names of `iceberg_scan`'s own columns that a column of the table would hide.
PLACES = ("filename", "file_row_number")
_WITH_ROW_IDS = 3

# What versions of a table have in common, unless DDL has changed it.
_SHARED_PARTS = ("schemas", "properties", "partition-specs", "sort-orders")
_SHARED_VALUES = ("extras", "iceberg_schema", "definition", "codec")

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TableState:
    """A table at one snapshot of one metadata file; `snapshot` None is the empty table.

    `raw` is the metadata without its snapshots and its logs.
    """

    pointer: MetadataPointer
    raw: Json
    snapshot: Json | None
    schema_id: int
    snapshot_list: SnapshotList
    earlier_files_text: bytes = b"[]"
    size: int = 0

    def snapshots(self) -> list[Json]:
        """All that are kept, decoded anew each time."""
        return self.snapshot_list.decode()

    def earlier_files(self) -> list[str]:
        """The metadata files before this one that the table names."""
        entries: list[Json] = json.loads(self.earlier_files_text)
        return [str(entry["metadata-file"]) for entry in entries]

    @property
    def updated(self) -> int:
        """When the metadata file was made, in milliseconds of the epoch."""
        return int(self.raw.get("last-updated-ms") or 0)

    def share(self, other: "TableState") -> None:
        """Takes from another version of the table whatever both have."""
        self.snapshot_list.share(other.snapshot_list)
        for part in _SHARED_PARTS:
            if part in self.raw and self.raw[part] == other.raw.get(part):
                self.raw[part] = other.raw[part]
        if self._described_by() == other._described_by():
            known = {name: other.__dict__[name] for name in _SHARED_VALUES if name in vars(other)}
            self.__dict__.update(known)

    def _described_by(self) -> tuple[object, ...]:
        """What `_SHARED_VALUES` are made from."""
        raw = self.raw
        name, properties = self.pointer.name, raw.get("properties")
        return name, self.schema_id, properties, raw.get("schemas"), raw.get("schema")

    def title(self) -> str:
        return f"{self.pointer.namespace}.{self.pointer.name}"

    @property
    def location(self) -> str:
        """Of the metadata file."""
        return self.pointer.location

    @property
    def folder(self) -> str:
        """Where the table keeps its files."""
        return str(self.raw["location"]).rstrip("/")

    @property
    def identity(self) -> str:
        # A table of format 1 need not have one.
        return str(self.raw.get("table-uuid") or self.folder)

    @property
    def format_version(self) -> int:
        return int(self.raw["format-version"])

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.raw.get("properties") or {})

    @property
    def snapshot_id(self) -> int | None:
        return None if self.snapshot is None else int(self.snapshot["snapshot-id"])

    @property
    def past_id(self) -> int | None:
        """The snapshot to ask for; None if the metadata file by itself means this one.

        DDL of Spark makes no snapshot: the newest one then has an older schema than the table.
        """
        is_current = self.snapshot_id == self.raw.get("current-snapshot-id")
        if is_current and self.schema_id == self.raw.get("current-schema-id", self.schema_id):
            return None
        return self.snapshot_id

    @property
    def version(self) -> int:
        if self.snapshot is not None:
            return int(self.snapshot.get("sequence-number", 0))
        return 0

    @property
    def next_row_id(self) -> int:
        return int(self.raw.get("next-row-id") or 0)

    def has_row_ids(self) -> bool:
        """Rows of a table that was upgraded get theirs with its next snapshot."""
        if self.format_version < _WITH_ROW_IDS:
            return False
        return self.snapshot is None or self.snapshot.get("first-row-id") is not None

    def hides_places(self) -> bool:
        """Whether a column has the name by which `iceberg_scan` tells files or positions."""
        return any(fold(field["name"]) in PLACES for field in self.fields)

    def is_plain(self) -> bool:
        """Neither partitioned nor sorted: a file may hold any rows in any order."""
        specs = {spec["spec-id"]: spec for spec in self.raw.get("partition-specs", [])}
        spec = specs.get(self.raw.get("default-spec-id"), {"fields": []})
        return not spec["fields"] and not self.raw.get("default-sort-order-id")

    def was_partitioned(self) -> bool:
        """Whether there may be files that belong to a partition."""
        return bool(self.partitioned_specs())

    def partitioned_specs(self) -> frozenset[int]:
        """Return the ids of the specs under which a file belongs to a partition."""
        specs = self.raw.get("partition-specs", [])
        return frozenset(int(spec["spec-id"]) for spec in specs if spec["fields"])

    @cached_property
    def extras(self) -> Json:
        try:
            found: Json = json.loads(self.properties.get(PROPERTY, "{}"))
        except ValueError:
            return {}
        return found

    @cached_property
    def iceberg_schema(self) -> Json:
        schemas = {schema["schema-id"]: schema for schema in self.raw.get("schemas", [])}
        found: Json = schemas.get(self.schema_id) or self.raw["schema"]
        return found

    @property
    def fields(self) -> list[Json]:
        return list(self.iceberg_schema["fields"])

    @cached_property
    def definition(self) -> Definition:
        schema = pa.schema([self._column(field) for field in self.fields])
        return Definition(
            name=self.pointer.name,
            schema=schema,
            comment=self.properties.get(COMMENT, ""),
            checks=tuple(self.extras.get("checks", ())),
            keys=self._keys(),
        )

    def _column(self, field: Json) -> pa.Field:
        identifier = str(field["id"])
        doc = field.get("doc")
        column = types.arrow_field(
            field["name"],
            field["type"],
            required=bool(field["required"]),
            doc=doc,
            notes=self.extras.get("notes", {}).get(identifier, ()),
        )
        default = self.extras.get("defaults", {}).get(identifier)
        # Clients paste it into statements of their own, and other programs may have written it.
        if default and may_be_stored(default):
            column = column.with_metadata({**(column.metadata or {}), DEFAULT: default.encode()})
        return column

    def _keys(self) -> tuple[UniqueKey, ...]:
        names = {field["id"]: field["name"] for field in self.fields}
        keys = [
            UniqueKey(tuple(names[i] for i in key["columns"]), bool(key["primary"]))
            for key in self.extras.get("keys", ())
            if all(i in names for i in key["columns"])
        ]
        identifiers = self.iceberg_schema.get("identifier-field-ids") or ()
        if not any(key.primary for key in keys) and identifiers:
            top = [names[i] for i in identifiers if i in names]
            if len(top) == len(identifiers):
                keys.insert(0, UniqueKey(tuple(top), primary=True))
        return tuple(keys)

    @cached_property
    def codec(self) -> types.RowCodec:
        return types.RowCodec(self.definition.schema, self.fields)

    def info(self) -> TableInfo:
        return TableInfo(
            name=self.definition.name,
            schema=self.definition.schema,
            comment=self.definition.comment or self._about_keys(),
            row_id=pa.int64() if self.has_row_ids() else None,
            version=self.version,
            identity=self.identity,
            checks=self.definition.checks,
            keys=self.definition.keys,
        )

    def _about_keys(self) -> str:
        """What a table without a comment says of its keys, so that CREATE TABLE answers it."""
        said = self.properties.get(ENFORCE_KEYS, "")
        if not self.definition.keys or not said:
            return ""
        if said.isdecimal():
            return f"keys are checked up to {int(said):,} rows"
        return "keys are checked" if said == "true" else "keys are not checked"

    def count(self) -> int | None:
        """The number of rows, if the summary of the snapshot tells it."""
        if self.snapshot is None:
            return 0
        summary: Mapping[str, str] = self.snapshot.get("summary") or {}
        if "total-records" not in summary or int(summary.get("total-equality-deletes", 0)):
            return None
        return int(summary["total-records"]) - int(summary.get("total-position-deletes", 0))

    def ddl_mark(self) -> tuple[object, ...]:
        """What DDL changes, and nothing else does."""
        return (
            self.pointer.namespace,
            self.pointer.name,
            self.identity,
            self.has_row_ids(),
            self.raw.get("current-schema-id"),
            self.properties.get(PROPERTY),
            self.properties.get(COMMENT),
        )

    def history(self) -> list[Json]:
        """The snapshots that led here and are kept, the oldest first."""
        known = {s["snapshot-id"]: s for s in self.snapshots()}
        found: list[Json] = []
        current = known.get(self.raw.get("current-snapshot-id"))
        while current is not None:
            found.append(current)
            replaced = (current.get("summary") or {}).get(REPLACED, "0")
            current = known.get(current.get("parent-snapshot-id") or int(replaced))
        return found[::-1]

    def at_snapshot(self, snapshot: Json | None) -> "TableState":
        if snapshot is None:
            schemas = [schema["schema-id"] for schema in self.raw.get("schemas", ())]
            first = min(schemas, default=self.schema_id)
            return replace(self, snapshot=None, schema_id=first)
        return replace(self, snapshot=snapshot, schema_id=snapshot.get("schema-id", self.schema_id))

    def at(self, point: AsOf) -> "TableState":
        """The table as it was; raises NotFound that says what is kept."""
        history = self.history()
        begins = not history or _is_first(history[0])
        if point.unit == AtUnit.VERSION:
            found = self._by_number(history, parse_version(point.value), begins)
        else:
            found = self._by_time(history, parse_timestamp(point.value) // 1000, begins)
        if found is not None:
            return found
        raise self._not_kept(point, history, begins)

    def _by_number(self, history: Sequence[Json], number: int, begins: bool) -> "TableState | None":
        if number == self.version:
            return self
        if number == 0 and begins:
            return self.at_snapshot(None)
        for snapshot in history:
            if snapshot.get("sequence-number") == number:
                return self.at_snapshot(snapshot)
        other = self.snapshot_list.find(number)  # of another branch
        return None if other is None else self.at_snapshot(other)

    def _by_time(
        self, history: Sequence[Json], millisecond: int, begins: bool
    ) -> "TableState | None":
        for snapshot in reversed(history):
            if snapshot["timestamp-ms"] <= millisecond:
                return self.at_snapshot(snapshot)
        created = self.properties.get(CREATED, "")
        if begins and created.isdecimal() and int(created) <= millisecond:
            return self.at_snapshot(None)
        return None

    def _not_kept(self, point: AsOf, history: Sequence[Json], begins: bool) -> NotFound:
        oldest = 0 if begins else history[0].get("sequence-number", 0)
        since = int(self.properties.get(CREATED) or 0)
        if history and (not begins or not since):
            since = history[0]["timestamp-ms"]
        when = datetime.fromtimestamp(since / 1000, UTC)
        kept = describe_kept_versions(oldest, self.version, when)
        number = point.value if point.unit == AtUnit.VERSION else ""
        expired = not begins and (not number or int(number) < oldest)
        return version_not_kept(self.title(), point, f"it has expired, {kept}" if expired else kept)


def _is_first(snapshot: Json) -> bool:
    """Whether a table began with it; one that was replaced begins anew with a later number."""
    return not snapshot.get("parent-snapshot-id") and snapshot.get("sequence-number", 0) <= 1


def with_extras(definition: Definition, fields: Sequence[Json], before: Json) -> str:
    """The value of `jetbridge.table` for a definition whose columns are these fields.

    Notes of columns that are gone stay: the past still needs them.
    """
    ids = {field["name"]: field["id"] for field in fields}
    notes = {key: list(value) for key, value in before.get("notes", {}).items()}
    defaults: dict[str, str] = {}
    for column, field in zip(definition.schema, fields, strict=True):
        key = str(field["id"])
        note = types.note(column, field["type"])
        storage = types.signature(field["type"])
        others = [old for old in notes.pop(key, ()) if old.get("storage") != storage]
        if note is not None or others:
            notes[key] = [*([] if note is None else [note]), *others]
        default = (column.metadata or {}).get(DEFAULT)
        if default:
            defaults[key] = default.decode()
    keys = [
        {"columns": [ids[name] for name in key.columns], "primary": key.primary}
        for key in definition.keys
    ]
    extras = {"notes": notes, "defaults": defaults, "checks": definition.checks, "keys": keys}
    return json.dumps({name: value for name, value in extras.items() if value})
