"""A typed client for any server that speaks the Airport protocol."""

from jetbridge.client.client import ActionListing, Client, connect
from jetbridge.client.dml import ChangeResult, Exchange
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
