"""Opens a configuration: its catalogs, Spark, sessions and server, and closes them again."""
