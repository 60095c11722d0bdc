"""The expressions with which Hive's planner selects partitions: bytes to a tree, and what the tree means."""
