"""The expressions by which Hive's planner asks for partitions: bytes to a tree, and what the tree means."""
