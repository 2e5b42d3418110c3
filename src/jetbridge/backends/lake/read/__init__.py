"""Reads snapshots of Iceberg tables."""
