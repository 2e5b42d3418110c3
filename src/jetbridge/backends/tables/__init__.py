"""Define tables and convert rows for all backends, wherever they keep the rows."""
