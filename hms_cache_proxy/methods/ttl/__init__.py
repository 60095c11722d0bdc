"""TTL mode: reads answered from a loading cache, for metastores whose log cannot be followed (docs/ttl.md).

`kinds.py` says which method's answers are entries of which kind; `dispatcher.py` decides; `whole.py` keeps a reply as
it came, `tables.py`, `partitions.py`, `statistics.py` and `filters.py` take replies apart into objects that several
methods share. Values and times are cache/ttl.py's.
"""
