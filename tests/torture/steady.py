"""What the steady client of a proxy reads (pulse.py), for those who look at how it fares.

Job: names. Must not know: who reads.
"""

from __future__ import annotations

METHOD = "get_schema"
"""Called by steady clients alone, so that a hit of it is theirs."""
QUIET = "quiet"
"""A table that nobody writes."""


def database_of(number: int) -> str:
    """That of the steady client of the proxy with this number."""
    return f"pulse{number}"
