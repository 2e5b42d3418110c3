"""Reads and writes the table property `jetbridge.table`, for what Iceberg has no place for.

The property is JSON by field id: the exact types (`types.note`), defaults, checks and keys.
"""

from collections.abc import Mapping, Sequence

import msgspec

from jetbridge.backends.lake import types
from jetbridge.backends.lake.types import ColumnTypeNote, IcebergField
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog.values import DEFAULT

PROPERTY = "jetbridge.table"


class KeyColumns(msgspec.Struct, frozen=True):
    """Describe a key by the field ids of its columns."""

    columns: tuple[int, ...]
    primary: bool


class TableExtras(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hold the value of the property; notes and defaults are by field id."""

    notes: dict[str, tuple[ColumnTypeNote, ...]] = {}
    defaults: dict[str, str] = {}
    checks: tuple[str, ...] = ()
    keys: tuple[KeyColumns, ...] = ()

    def notes_of(self, field: IcebergField) -> tuple[ColumnTypeNote, ...]:
        """Return the notes of a column, the newest first."""
        return self.notes.get(str(field.id), ())


_EXTRAS = msgspec.json.Decoder(TableExtras)


def decode_extras(text: str) -> TableExtras:
    """Decode the property; a value that another program damaged says nothing."""
    try:
        return _EXTRAS.decode(text)
    except ValueError:
        return TableExtras()


def encode_extras(
    definition: Definition,
    fields: Sequence[IcebergField],
    notes_before: Mapping[str, tuple[ColumnTypeNote, ...]],
) -> str:
    """Return the property for a definition whose columns are these fields.

    Notes of dropped columns stay: earlier snapshots still need them.
    """
    notes = dict(notes_before)
    defaults: dict[str, str] = {}
    for column, field in zip(definition.schema, fields, strict=True):
        key, storage = str(field.id), types.signature(field.type)
        note = types.note(column, field.type)
        others = [old for old in notes.pop(key, ()) if old.storage != storage]
        if note is not None or others:
            notes[key] = (*([] if note is None else [note]), *others)
        default = (column.metadata or {}).get(DEFAULT)
        if default:
            defaults[key] = default.decode()
    ids = {field.name: field.id for field in fields}
    keys = [
        KeyColumns(tuple(ids[name] for name in key.columns), key.primary) for key in definition.keys
    ]
    extras = TableExtras(notes, defaults, tuple(definition.checks), tuple(keys))
    return msgspec.json.encode(extras).decode()
