"""Encodes the listing of a catalog: packs, compresses and hashes FlightInfos for the client."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from jetbridge.catalog import CatalogVersion, SchemaInfo
from jetbridge.wire.codec import encode


class Contents(NamedTuple):
    """Hold serialized contents, as the client calls them: bytes and their SHA-256."""

    sha256: str = ""
    serialized: bytes | None = None

    def as_map(self, inline: bool = True) -> dict[str, Any]:
        """Return the map that the client reads, without the bytes unless `inline`."""
        return {
            "sha256": self.sha256,
            "url": None,
            "serialized": self.serialized if inline else None,
        }


def compress(data: bytes) -> bytes:
    """Return `[uncompressed length, zstd frame]`, the format of every compressed answer."""
    return encode([len(data), pa.compress(data, codec="zstd", asbytes=True)])


def schema_contents(flight_infos: Sequence[bytes]) -> Contents:
    """Return the tables and functions of one schema."""
    packed = compress(encode(list(flight_infos)))
    return Contents(hashlib.sha256(packed).hexdigest(), packed)


def catalog_contents(schemas: Sequence[Contents]) -> Contents:
    """Return all schemas in one piece. The client keeps such pieces in its disk cache for ever."""
    packed = encode([[c.sha256, c.serialized] for c in schemas])
    return Contents(hashlib.sha256(packed).hexdigest(), packed)


def listing(schemas: Sequence[tuple[SchemaInfo, Contents]], version: CatalogVersion) -> bytes:
    """Return the answer to list_schemas.

    A catalog that never changes is sent in one piece, which the client later finds in its disk
    cache. A catalog that changes would only fill that cache, so it is sent schema by schema.
    """
    whole = catalog_contents([c for _, c in schemas]) if version.fixed else Contents()
    return compress(
        encode(
            {
                "contents": whole.as_map(),
                "schemas": [
                    {
                        "name": info.name,
                        "description": info.comment,
                        "tags": dict(info.tags),
                        "contents": contents.as_map(inline=not version.fixed),
                        "is_default": False,
                    }
                    for info, contents in schemas
                ],
                "version_info": version_map(version),
            }
        )
    )


def item_metadata(item_type: str, catalog: str, schema: str, name: str, **more: Any) -> bytes:
    """Return the app_metadata by which the client recognises a table or function."""
    item = {
        "type": item_type,
        "catalog": catalog,
        "schema": schema,
        "name": name,
        "comment": None,
        "input_schema": None,
        "action_name": None,
        "description": None,
        "extra_data": None,
    }
    return encode({**item, **more})


def version_map(version: CatalogVersion) -> dict[str, Any]:
    """Return the catalog version as the map that the client reads."""
    return {"catalog_version": version.number, "is_fixed": version.fixed}
