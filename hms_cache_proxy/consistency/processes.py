"""Telling whether the process that owns a record is the one that wrote it: its pid and when it was started.

A pid alone is reused; the pair is not, within one run of the machine. Owner: any process; no state.
"""

from __future__ import annotations


def started(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None if there is none, or only what is left of one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):  # dead, not yet waited for
        return None
    return int(fields[19])
