"""Hive's filter language: one lexer, one grammar, one tree, one evaluator.

`words.py` cuts a text into words, `text.py` makes a tree of them and refuses what Hive refuses, `tree.py` has the tree
and what AND and OR mean, `values.py` compares values with literals, `times.py` has what Java says of dates. The
embedded metastore answers every filter with these; the cache declines some first (methods/readers/filter_declined.py).
"""
