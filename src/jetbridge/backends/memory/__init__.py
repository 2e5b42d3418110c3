"""The reference backend: Arrow tables in memory."""

from jetbridge.backends.memory.catalog import MemoryCatalog
from jetbridge.backends.memory.schema import MemorySchema
from jetbridge.backends.memory.table import MemoryTable

__all__ = ["MemoryCatalog", "MemorySchema", "MemoryTable"]
