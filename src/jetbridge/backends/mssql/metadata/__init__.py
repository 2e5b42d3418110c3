"""Reads the definitions of SQL Server tables."""
