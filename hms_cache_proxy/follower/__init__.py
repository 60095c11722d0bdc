"""The follower: the one process that reads the metastore's log and writes the cache."""
