"""Differential testing: generated contents and reads, the metastore's own answers against the proxy's.

Run by hand: `python -m tests.differential --direct HOST:PORT --proxy HOST:PORT --seed 1 --reads 20000`.

- `contents.py` fills a metastore; `changes.py` changes it at random;
- `reads.py` generates requests from what exists and what does not;
- `compare.py` sends each request to both ends and reports every difference: replies are decoded without a schema, so
  that no field can be overlooked.
"""
