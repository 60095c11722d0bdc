"""Snapshots of a catalog in files: their format, for who writes them (pipeline/) and who reads them (follower/)."""
