"""Recordings: results of reads, kept in a file with their requests, and replayed from it (docs/recording.md)."""
