"""Spark jobs over a whole catalog: snapshots of it in files, and SQL over them.

Nothing imports this package but cli. Spark is imported by the function that needs it: it is an extra.
"""
