"""Snapshots of a metastore's content, as wire bytes, with the notification log that keeps them current."""
