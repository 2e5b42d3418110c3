"""T-SQL expressions and conditions, compiled into DuckDB's SQL."""
