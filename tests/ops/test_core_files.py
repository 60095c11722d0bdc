"""A process that crashes leaves no core file: keys, tokens and passwords would be in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.proxy import Proxy
from tests.testbed.bed import Bed


def test_no_process_may_write_one(bed: Bed, new_proxy: Callable[..., Proxy]) -> None:
    """At 0, the kernel would still give it to a program, where one is set."""
    proxy = new_proxy(bed.shared("embedded"), prewarmed=False)
    assert proxy.process is not None
    for pid in (proxy.process.pid, *(pid for pids in proxy.children().values() for pid in pids)):
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        (core,) = (line.split() for line in limits if line.startswith("Max core file size"))
        assert core[4] == ("0" if core[5] == "0" else "1"), core
