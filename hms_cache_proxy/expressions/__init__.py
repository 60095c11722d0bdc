"""The expressions with which Hive's planner selects partitions: decodes their bytes to a tree, and says what the tree
means."""
