"""INSERT, UPDATE, DELETE, MERGE and bulk loads."""
