"""Snapshots of a catalog in files: their format, which pipeline/ writes and follower/ reads."""
