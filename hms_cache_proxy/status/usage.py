"""What a process of this proxy uses: memory and processor time, from /proc.

Must not know: which processes there are. Owner: any thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from hms_cache_proxy.metrics import ProcessUsage

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 11, 12  # fields of /proc/PID/stat, counted from the state (proc(5))


def usage_of(pid: int) -> ProcessUsage | None:
    """None if the process has ended, or the system has no /proc."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    sizes = {
        name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest
    }
    shared = sizes.get("RssFile", 0) + sizes.get("RssShmem", 0)
    ticks = int(after_name[_UTIME]) + int(after_name[_STIME])
    return ProcessUsage(sizes.get("RssAnon", 0), shared, ticks / _TICKS_PER_S)
