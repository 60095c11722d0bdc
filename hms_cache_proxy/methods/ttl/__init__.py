"""TTL mode: reads answered from a loading cache, for metastores whose log cannot be followed (docs/ttl.md).

`kinds.py` says which method's answers are entries of which kind; `dispatcher.py` decides; `whole.py` keeps whole
replies; `tables.py`, `partitions.py`, `statistics.py` and `filters.py` split replies into objects that several methods
share. cache/ttl.py keeps values and times.
"""
