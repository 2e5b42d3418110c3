"""Requests about a catalog as a whole."""

from msgspec import Struct


class CatalogRequest(Struct, frozen=True, kw_only=True):
    """list_schemas, catalog_version and create_transaction."""

    catalog_name: str = ""
