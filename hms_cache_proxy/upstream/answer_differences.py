"""Which answers of a metastore differ, because of its settings, from what its database has.

Job: one flag for each part of the answers. checks.py sets them, the follower writes them on the state page as a number,
readers decline by them. Must not know: which settings. Owner: any process; constants.
"""

from __future__ import annotations

from enum import IntFlag


class AnswerDifferences(IntFlag):
    """The properties of UpstreamFacts with these names (`lists_differ` ...) explain them."""

    LISTS = 1
    SHAPES = 2
    STATISTICS = 4
    COLUMNS = 8
    AGGREGATES = 16
    EXPRESSIONS = 32
    PARTS = 64
    RIGHTS = 128
    NAMES = 256
