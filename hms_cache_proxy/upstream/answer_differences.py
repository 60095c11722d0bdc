"""Which answers of a metastore differ from what is in its database, because of its settings.

Job: define one flag for each part of the answers. checks.py sets the flags, the follower writes them to the state page
as a number, and readers decline where a flag is set. Must not know: which settings. Owner: any process; constants.
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
