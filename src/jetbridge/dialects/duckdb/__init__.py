"""Renders DuckDB SQL."""
