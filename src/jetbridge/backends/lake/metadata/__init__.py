"""Reads the metadata of Iceberg tables: names, states, manifests and files."""
