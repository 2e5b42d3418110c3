"""The smallest Iceberg catalog: a SQLite file and a folder."""

from pathlib import Path


def catalog_properties(folder: Path) -> dict[str, str]:
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "warehouse": str(folder / "warehouse"),
        "jdbc.schema-version": "V1",
        "cache-enabled": "false",
    }
