"""A caching, version-bridging proxy for the Apache Hive Metastore."""

__version__ = "0.1.0"
