"""Plans a query, chooses its engine and runs it."""
