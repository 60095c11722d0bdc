"""Readers build the answers of read methods from the cache's objects; registry.py lists them.

Nothing is imported here, because the supervisor and the embedded metastore use only some of these modules.
"""
