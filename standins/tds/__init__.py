"""A stand-in for SQL Server: TDS 7.4 over a real socket, T-SQL done by DuckDB."""
