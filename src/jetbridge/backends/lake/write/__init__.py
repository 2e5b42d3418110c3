"""Changes the rows of Iceberg tables."""
