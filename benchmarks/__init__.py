"""`make bench`: proxy, metastore and Hive's CachedStore side by side, in one run on one machine.

- `servers.py` starts what is measured, on one database; `contents.py` fills it and makes the requests;
- `measure.py` runs the compiled load generator and counts server CPU; `freshness.py` times a change;
- `report.py` writes docs/figures/benchmarks.json and docs/benchmarks.png; docs/build.py makes the page of the figures.
"""
