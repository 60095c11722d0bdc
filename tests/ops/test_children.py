"""What is said of children that have ended."""

from __future__ import annotations

import signal

from hms_cache_proxy.processes.children import how


def test_every_end_has_words() -> None:
    """An error here would end the whole proxy."""
    assert (how(0), how(3), how(-9)) == ("exit code 0", "exit code 3", "signal SIGKILL")
    assert all(how(-number) for number in range(1, signal.NSIG))
    assert how(-signal.SIGRTMIN - 1) == f"signal {signal.SIGRTMIN + 1}"
