"""What is left of a proxy's work when no client is there any more: nothing.

Job: `left(world)` says in words which fences stand, and which readers' slots of ended processes hold pages back.
Must not know: faults, what clients did.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import lmdb

from tests.torture.world import Side, World


def left(world: World) -> list[str]:
    """Of all proxies."""
    return [f"proxy {number}: {what}" for number, side in enumerate(world.sides) for what in _of(side)]


def _of(side: Side) -> Iterator[str]:
    try:
        standing = {row["state"]: count for row, count in side.proxy.samples("hms_proxy_fences") if count}
    except (URLError, OSError) as error:
        yield f"its metrics cannot be read: {error}"
        return
    if standing:
        yield f"fences stand: {standing}"
    for name in ("cache", "fences"):
        if gone := [pid for pid in readers(side.data / name) if not Path(f"/proc/{pid}").exists()]:
            yield f"readers of {name} that have ended: {gone}"


def readers(path: Path) -> set[int]:
    """Processes that have a slot in the environment."""
    with lmdb.open(str(path), readonly=True, create=False) as environment:
        return {int(line.split()[0]) for line in environment.readers().splitlines()[1:]}
