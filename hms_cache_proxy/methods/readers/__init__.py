"""Readers: answers of read methods, built from the cache's objects; every.py has them all.

Nothing is imported here: the supervisor and the embedded metastore use single modules of these, and not the rest.
"""
