"""Recordings: read results kept in a file with their requests, and given again from it alone (docs/recording.md)."""
