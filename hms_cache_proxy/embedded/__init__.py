"""The embedded metastore: a Hive metastore in Python, over SQLite or PostgreSQL, that is an upstream like any other."""
