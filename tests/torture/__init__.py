"""The torture machine: histories of clients through two proxies while a seeded schedule breaks everything around them.

`make torture SEED= MINUTES=` runs it; docs/test-results.md says what it does and what it found.
"""
