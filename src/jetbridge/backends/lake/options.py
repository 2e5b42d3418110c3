"""Holds the settings of one lake."""

from dataclasses import dataclass, field
from uuid import uuid4

from jetbridge.backends.lake.config import ENFORCE_KEYS_ROWS
from jetbridge.catalog.settings import SPILL_BYTES, STAGED_BYTES


@dataclass(frozen=True)
class LakeOptions:
    """Configure a lake.

    Keys of tables with more than `enforce_keys_rows` rows are not checked, unless the table says
    so. `server` is a name that no other server on the warehouse has.
    """

    warehouse: str
    enforce_keys_rows: int = ENFORCE_KEYS_ROWS
    staged_bytes: int = STAGED_BYTES
    spill_bytes: int = SPILL_BYTES
    column_cache_bytes: int = 96 * 1024**2
    state_bytes: int = 32 * 1024**2
    server: str = field(default_factory=lambda: uuid4().hex[:8])
