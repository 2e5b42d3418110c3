"""Reads what DuckDB writes: constraints, filters, values, types and plans."""
