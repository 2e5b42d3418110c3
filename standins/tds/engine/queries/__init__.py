"""SELECT, compiled into DuckDB's SQL and run under locks."""
