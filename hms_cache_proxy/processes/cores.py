"""How many cores this process may use: affinity and the cgroup's CPU quota, version 2 and version 1.

A container with `--cpus 2` on a host with 64 cores sees all 64. With that many workers it would be throttled, and each
worker has a reply cache. Imports nothing of the package.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """The number of cores, at least 1; `root` is the parent of /proc and /sys, for tests."""
    affinity = len(os.sched_getaffinity(0))
    return max(1, min([affinity, *(math.ceil(quota) for quota in _quotas(root))]))


def _quotas(root: Path) -> Iterator[float]:
    """CPU quotas, in cores, of this process's cgroup and of every cgroup above it."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            yield from _walk(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            yield from _walk(root / f"sys/fs/cgroup/{controllers}", path, _quota_v1)
            yield from _walk(root / "sys/fs/cgroup/cpu", path, _quota_v1)


def _walk(base: Path, path: str, quota_of: Callable[[Path], float | None]) -> Iterator[float]:
    directory = base / path.lstrip("/")
    while True:
        quota = quota_of(directory)
        if quota is not None:
            yield quota
        if directory == base or base not in directory.parents:
            return
        directory = directory.parent


def _quota_v2(directory: Path) -> float | None:
    fields = _read(directory / "cpu.max").split()
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0] != "max" else None


def _quota_v1(directory: Path) -> float | None:
    quota, period = _read(directory / "cpu.cfs_quota_us"), _read(directory / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _read(path: Path) -> str:
    """The text of a file; empty if it cannot be read (another cgroup version, no permission)."""
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""
