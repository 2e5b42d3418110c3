"""Serves a database of SQL Server as a catalog, through Microsoft's Python driver."""
