"""A typed client for any server that speaks the Airport protocol.

Examples:
    >>> with connect(location, "memory") as client:
    ...     client.read("shop", "orders", ["id", "city"]).to_pylist()[0]
    {'id': 1, 'city': 'Ulm'}
"""

from jetbridge.client.client import ActionListing, Client, connect
from jetbridge.client.dml import ChangeResult
from jetbridge.client.exchange import Exchange
from jetbridge.client.listing import SchemaListing, TableListing
from jetbridge.client.scan import ScanReader

__all__ = [
    "ActionListing",
    "ChangeResult",
    "Client",
    "Exchange",
    "ScanReader",
    "SchemaListing",
    "TableListing",
    "connect",
]
