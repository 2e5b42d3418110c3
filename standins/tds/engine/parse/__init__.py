"""T-SQL text cut into statements and their parts."""
