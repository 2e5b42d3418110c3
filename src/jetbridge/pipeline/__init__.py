"""Runs statements in DuckDB SQL over all catalogs: parses, plans, spools, loads, reports."""
