"""Reads the metadata of Iceberg tables."""
