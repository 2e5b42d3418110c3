"""Statements in DuckDB SQL over all catalogs: parse, plan, spool, create, load, report."""
