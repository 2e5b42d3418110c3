"""Queries of DuckDB cut into stages, each a piece of DuckDB SQL that tasks run side by side."""
