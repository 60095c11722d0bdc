"""Identifies the process that wrote a record, by its pid and its start time.

A pid is reused, but the pair is not, until the machine is restarted. Owner: any process; no state.
"""

from __future__ import annotations


def started(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None if there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):  # dead, not yet waited for
        return None
    return int(fields[19])
