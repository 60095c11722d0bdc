"""The embedded metastore: a Thrift Hive metastore in Python over SQLite or PostgreSQL, an upstream like any other."""
