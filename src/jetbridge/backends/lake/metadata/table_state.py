"""Describes a table as one metadata file has it: columns, constraints, layout, snapshot.

Metadata files never change, so a state can be kept for as long as someone reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from jetbridge.backends.lake import types
from jetbridge.backends.lake.errors import unreadable_table
from jetbridge.backends.lake.metadata.extras import PROPERTY, TableExtras, decode_extras
from jetbridge.backends.lake.metadata.metadata_file import MetadataFile, read_metadata
from jetbridge.backends.lake.metadata.pointers import MetadataPointer
from jetbridge.backends.lake.metadata.structs import (
    KeptSchema,
    PartitionField,
    PartitionSpec,
    Reference,
    Snapshot,
    SortField,
)
from jetbridge.backends.lake.types import IcebergField
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import TableInfo, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import DEFAULT
from jetbridge.duckdb_engine import may_be_stored

# In the summary of the first snapshot of a table that was replaced: the last one before it.
REPLACED = "jetbridge.replaced"
CREATED = "jetbridge.created-ms"
ENFORCE_KEYS = "jetbridge.enforce-keys"
COMMENT = "comment"
_DATA_FOLDER = "write.data.path"
# Columns that `iceberg_scan` adds; a column of the table with such a name shadows them.
FILE_COLUMNS = ("filename", "file_row_number")
_WITH_ROW_IDS = 3

# Parts that versions of a table have in common, unless DDL changed them.
_SHARED_PARTS = ("schemas", "properties", "partition_specs", "sort_orders")
_SHARED_VALUES = ("extras", "schema", "definition", "codec")


@dataclass(frozen=True, eq=False)
class TableState:
    """Describe a table at one snapshot of one metadata file; `snapshot` None is the empty table."""

    pointer: MetadataPointer
    file: MetadataFile
    snapshot: Snapshot | None
    schema_id: int

    def snapshots(self) -> list[Snapshot]:
        """Return all snapshots that the file names, decoded anew each time."""
        return self.file.snapshot_list.decode()

    @property
    def updated(self) -> int:
        """Return when the metadata file was made, in milliseconds of the epoch."""
        return self.file.metadata.last_updated_ms or 0

    def share(self, other: "TableState") -> None:
        """Use the objects of another version of the table for whatever both have."""
        self.file.snapshot_list.share(other.file.snapshot_list)
        mine, theirs = self.file.metadata, other.file.metadata
        for part in _SHARED_PARTS:
            if getattr(mine, part) == getattr(theirs, part):
                setattr(mine, part, getattr(theirs, part))
        if self._described_by() == other._described_by():
            known = {name: other.__dict__[name] for name in _SHARED_VALUES if name in vars(other)}
            self.__dict__.update(known)

    def _described_by(self) -> tuple[object, ...]:
        """Return what `_SHARED_VALUES` are made from."""
        metadata = self.file.metadata
        return self.pointer.name, self.schema_id, metadata.properties, metadata.schemas

    def title(self) -> str:
        """Return the name of the table with its schema, for messages."""
        return self.pointer.title()

    @property
    def location(self) -> str:
        """Return the location of the metadata file."""
        return self.pointer.location

    @property
    def folder(self) -> str:
        """Return the folder of the table."""
        return self.file.metadata.location.rstrip("/")

    @property
    def data_folder(self) -> str:
        """Return the folder of the table's data files."""
        return self.properties.get(_DATA_FOLDER, f"{self.folder}/data").rstrip("/")

    @property
    def identity(self) -> str:
        """Return the id that the table keeps when it is renamed; format 1 need not have one."""
        return self.file.metadata.table_uuid or self.folder

    @property
    def format_version(self) -> int:
        """Return the version of Iceberg's format."""
        return self.file.metadata.format_version

    @property
    def properties(self) -> dict[str, str]:
        """Return the table properties."""
        return dict(self.file.metadata.properties or {})

    @property
    def last_column_id(self) -> int:
        """Return the highest field id that the table ever had."""
        return self.file.metadata.last_column_id

    @property
    def schemas(self) -> Sequence[KeptSchema]:
        """Return all schemas that the table ever had, as far as the file names them."""
        return self.file.metadata.schemas

    @property
    def references(self) -> dict[str, Reference]:
        """Return branches and tags by name."""
        return dict(self.file.metadata.refs or {})

    @property
    def partition_specs(self) -> Sequence[PartitionSpec]:
        """Return all partition specs that the table ever had."""
        return self.file.metadata.partition_specs or ()

    @property
    def spec_id(self) -> int | None:
        """Return the id of the partition spec for new rows."""
        return self.file.metadata.default_spec_id

    @property
    def partition_fields(self) -> Sequence[PartitionField]:
        """Return the fields of the partition spec for new rows."""
        specs = {spec.spec_id: spec.fields for spec in self.partition_specs}
        return () if self.spec_id is None else specs.get(self.spec_id, ())

    @property
    def sort_order_id(self) -> int:
        """Return the id of the sort order for new rows; 0 is no order."""
        return self.file.metadata.default_sort_order_id or 0

    @property
    def sort_fields(self) -> Sequence[SortField]:
        """Return the fields of the sort order for new rows."""
        orders = {order.order_id: order.fields for order in self.file.metadata.sort_orders or ()}
        return orders.get(self.sort_order_id, ())

    @property
    def snapshot_id(self) -> int | None:
        """Return the id of the snapshot."""
        return None if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def requested_snapshot_id(self) -> int | None:
        """Return the snapshot that a reader must ask for; None if the file alone means this one.

        DDL of Spark makes no snapshot: then the newest one has an older schema than the table.
        """
        metadata = self.file.metadata
        is_current = self.snapshot_id == metadata.current_snapshot_id
        if is_current and metadata.current_schema_id in (None, self.schema_id):
            return None
        return self.snapshot_id

    @property
    def version(self) -> int:
        """Return the number that AT takes."""
        return 0 if self.snapshot is None else self.snapshot.sequence_number

    @property
    def next_row_id(self) -> int:
        """Return the row id that the next new row gets."""
        return self.file.metadata.next_row_id or 0

    def has_row_ids(self) -> bool:
        """Return whether rows have ids; those of an upgraded table get them with a snapshot."""
        if self.format_version < _WITH_ROW_IDS:
            return False
        return self.snapshot is None or self.snapshot.first_row_id is not None

    def shadows_file_columns(self) -> bool:
        """Return whether a column shadows the columns for file or position of `iceberg_scan`."""
        return any(fold(field.name) in FILE_COLUMNS for field in self.fields)

    def is_plain(self) -> bool:
        """Return whether the table is neither partitioned nor sorted."""
        return not self.partition_fields and not self.sort_order_id

    def partitioned_specs(self) -> frozenset[int]:
        """Return the ids of the specs under which a file belongs to a partition."""
        return frozenset(spec.spec_id for spec in self.partition_specs if spec.fields)

    @cached_property
    def extras(self) -> TableExtras:
        """Return what the table property `jetbridge.table` says."""
        return decode_extras(self.properties.get(PROPERTY, "{}"))

    @cached_property
    def schema(self) -> KeptSchema:
        """Return the schema of this snapshot; raises Unavailable if the file has none."""
        for schema in self.schemas:
            if schema.schema_id == self.schema_id:
                return schema
        if not self.schemas:
            raise unreadable_table(self.title(), "the metadata has no schema", self.location)
        return self.schemas[-1]

    @property
    def fields(self) -> tuple[IcebergField, ...]:
        """Return the columns as Iceberg has them."""
        return self.schema.fields

    @cached_property
    def definition(self) -> Definition:
        """Return the columns and constraints as clients know them."""
        return Definition(
            name=self.pointer.name,
            schema=pa.schema([self._column(field) for field in self.fields]),
            comment=self.properties.get(COMMENT, ""),
            checks=self.extras.checks,
            keys=self._keys(),
        )

    def _column(self, field: IcebergField) -> pa.Field:
        notes = self.extras.notes_of(field)
        column = types.arrow_field(
            field.name, field.type, required=field.required, doc=field.doc, notes=notes
        )
        default = self.extras.defaults.get(str(field.id))
        # Clients paste it into their statements, and another program may have written it.
        if default and may_be_stored(default):
            column = column.with_metadata({**(column.metadata or {}), DEFAULT: default.encode()})
        return column

    def _keys(self) -> tuple[UniqueKey, ...]:
        names = {field.id: field.name for field in self.fields}
        keys = [
            UniqueKey(tuple(names[i] for i in key.columns), key.primary)
            for key in self.extras.keys
            if all(i in names for i in key.columns)
        ]
        identifiers = self.schema.identifiers
        if not any(key.primary for key in keys) and identifiers:
            top = [names[i] for i in identifiers if i in names]
            if len(top) == len(identifiers):
                keys.insert(0, UniqueKey(tuple(top), primary=True))
        return tuple(keys)

    @cached_property
    def codec(self) -> types.RowCodec:
        """Return the codec for rows of the table."""
        return types.RowCodec(self.definition.schema, self.fields)

    def info(self) -> TableInfo:
        """Return the table as clients know it."""
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
        """Return the comment of a table that has none: how its keys are checked."""
        setting = self.properties.get(ENFORCE_KEYS, "")
        if not self.definition.keys or not setting:
            return ""
        if setting.isdecimal():
            return f"keys are checked up to {int(setting):,} rows"
        return "keys are checked" if setting == "true" else "keys are not checked"

    def count(self) -> int | None:
        """Return the number of rows, if the summary of the snapshot has it."""
        if self.snapshot is None:
            return 0
        rows = self.snapshot.total("total-records")
        if rows is None or self.snapshot.total("total-equality-deletes"):
            return None
        return rows - (self.snapshot.total("total-position-deletes") or 0)

    def ddl_fingerprint(self) -> tuple[object, ...]:
        """Return the parts of the table that only DDL changes."""
        return (
            self.pointer.namespace,
            self.pointer.name,
            self.identity,
            self.has_row_ids(),
            self.file.metadata.current_schema_id,
            self.properties.get(PROPERTY),
            self.properties.get(COMMENT),
        )

    def at_snapshot(self, snapshot: Snapshot | None) -> "TableState":
        """Return the table at another snapshot of the same file."""
        if snapshot is None:
            first = min((schema.schema_id for schema in self.schemas), default=self.schema_id)
            return replace(self, snapshot=None, schema_id=first)
        schema_id = self.schema_id if snapshot.schema_id is None else snapshot.schema_id
        return replace(self, snapshot=snapshot, schema_id=schema_id)


def read_state(pointer: MetadataPointer, data: bytes) -> TableState:
    """Return the table at the newest snapshot of a metadata file; raises Unavailable."""
    file = read_metadata(pointer, data)
    return TableState(pointer, file, file.snapshot, file.metadata.current_schema_id or 0)
