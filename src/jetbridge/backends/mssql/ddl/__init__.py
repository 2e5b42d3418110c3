"""Creates and alters SQL Server tables."""
