"""Where a metastore's settings make its answers differ from what its database alone tells.

Job: one name for each part of the answers, for who finds out (checks.py), who passes it on (the follower, as a number
on the state page) and who heeds it (the readers). Must not know: which settings. Owner: any process; constants.
"""

from __future__ import annotations

from enum import IntFlag


class Differs(IntFlag):
    """The properties of UpstreamFacts with these names say when."""

    LISTS = 1
    SHAPES = 2
    STATISTICS = 4
    COLUMNS = 8
    AGGREGATES = 16
    EXPRESSIONS = 32
