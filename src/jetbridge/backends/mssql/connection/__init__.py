"""Connects to SQL Server."""
