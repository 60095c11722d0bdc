"""Looks at the database that reads wait for, and share.

A **look** is a step of the follower: it began at a moment that is published (LOOKING_NS) before its first statement,
and when it is done, the cache is confirmed as of that moment (BEGAN_NS). A read that must see everything that was true
when it arrived can be answered after any look that began later. So all reads that arrived before a look share it, in
every worker; no read needs a look of its own.

Job: ask the follower for a look if none is on its way. Must not know: why a read needs one, how it waits.

Who looks: the follower, because only its step can confirm the cache. If a worker looked at the log by itself, it would
need a database connection, and could only find out that nothing has changed; after a change it would still have to wait
for the follower. Besides, workers share the follower's looks without knowing of each other.

A worker that asks is told when the look has ended (server/waker.py), so waiting reads are not decided again too early.

Why asking is enough: the follower takes the requests of all workers out of its queue before it reads the clock for its
next look. Let a worker ask at time t. While LOOKING_NS is not above t, no look that began after t has been published,
so one is still to come, and later reads need not ask again. When LOOKING_NS is above t, the request has been used, or
one more look follows. If a request is lost (the follower was restarted), the next look that the follower makes by
itself takes its place. A read never waits longer than its patience allows, even if a look fails or takes too long; it
is then relayed. Looks begin at least LOOK_INTERVAL_S apart (follower/pace.py), however many reads wait.

Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Final

from hms_cache_proxy.cache.state import Slot, StatePage

ASKED_NS: Final = 1_000_000_000
"""Within this time the follower has taken a request, unless it is lost, and tells the worker of the look."""


class Looks:
    """One worker's requests for looks."""

    __slots__ = ("_again_ns", "_asked_ns", "_wake", "_words")

    def __init__(self, page: StatePage, wake: Callable[[], None], again_ns: int = ASKED_NS) -> None:
        """`wake` makes the follower begin a step as soon as it may; it must not block. `again_ns`: a request without an
        effect for this long counts as lost."""
        self._words = page.words
        self._wake = wake
        self._again_ns = again_ns
        self._asked_ns = -again_ns

    @property
    def began_ns(self) -> int:
        """When the last look began that is done."""
        return self._words[Slot.BEGAN_NS]

    def ask(self, moment_ns: int) -> None:
        """Have the follower look after this moment, which is not in the future."""
        looking_ns = self._words[Slot.LOOKING_NS]
        now_ns = monotonic_ns()
        if (looking_ns > moment_ns or self._asked_ns > looking_ns) and now_ns - self._asked_ns < self._again_ns:
            return
        self._asked_ns = now_ns
        self._wake()
