"""Keeps tables as Arrow data in the memory of this process: the backend that other backends follow.

>>> import pyarrow as pa
>>> from jetbridge.backends.memory import MemoryCatalog
>>> from jetbridge.catalog import CreateTable, DMLOptions, Scan, SchemaInfo
>>> schema = MemoryCatalog().create_schema(SchemaInfo("sales"))
>>> table = schema.create_table(CreateTable("orders", pa.schema({"id": pa.int64()})))
>>> with table.inserting(DMLOptions()) as write:
...     _ = write(pa.record_batch({"id": [1, 2]}))
>>> [batch.to_pydict() for batch in schema.load_table("orders").scan(Scan())]
[{'id': [1, 2], 'rowid': [0, 1]}]
"""

from jetbridge.backends.memory.catalog import MemoryCatalog
from jetbridge.backends.memory.schema import MemorySchema
from jetbridge.backends.memory.table import MemoryTable

__all__ = ["MemoryCatalog", "MemorySchema", "MemoryTable"]
