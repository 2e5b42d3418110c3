"""Creates, alters and drops Iceberg tables."""
