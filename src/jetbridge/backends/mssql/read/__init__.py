"""Reads SQL Server tables."""
