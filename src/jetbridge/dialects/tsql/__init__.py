"""Renders T-SQL, and reads the constraints that SQL Server stores."""
