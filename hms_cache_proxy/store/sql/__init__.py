"""The store over SQL: a metastore's own database, read in snapshots by a SELECT-only account."""
