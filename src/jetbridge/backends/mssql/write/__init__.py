"""Changes the rows of SQL Server tables."""
