"""Spark jobs over a whole catalog: snapshots in files and SQL over them, audits of a cache, advice from access logs.

Only cli imports this package. Spark is an extra, so the functions that need it import it.
"""
