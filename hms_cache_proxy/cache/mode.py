"""Why the proxy answers from its cache, or only relays: the numbers in `Slot.MODE_REASON`, and their texts.

Job: define the reasons once, for the follower, which decides, and for the gate and /status. Must not know: how the
follower decides.
"""

from __future__ import annotations

from enum import IntEnum


class ModeReason(IntEnum):
    """SERVING goes with MODE_SERVE, everything else with MODE_RELAY_ONLY. `label` is for metrics and /status.

    UNCONFIRMED is never written, because a stuck follower writes nothing. Readers derive it from the clock.
    """

    STARTING = 0
    SERVING = 1
    NO_STORE = 2
    NO_LOG = 3
    AUTHORIZATION = 4
    OTHER_DATABASE = 5
    CACHED_STORE = 6
    REPLICA = 7
    UNCHECKED = 8
    REPLAY = 9
    UNCONFIRMED = 10
    OTHER_CATALOG = 11

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def text(self) -> str:
        """One line for users."""
        return _TEXTS[self]


_TEXTS = {
    ModeReason.STARTING: "the follower has not caught up since the start",
    ModeReason.SERVING: "serving from cache",
    ModeReason.NO_STORE: "store = none, so nothing can be cached",
    ModeReason.NO_LOG: "the metastore does not write its notification log, or does not let this proxy read it",
    ModeReason.AUTHORIZATION: "the metastore's answers may depend on the user",
    ModeReason.OTHER_DATABASE: "a metastore and store_url use different databases",
    ModeReason.CACHED_STORE: "the metastore answers from a cache of its own",
    ModeReason.OTHER_CATALOG: "the metastore's default catalog is not hive",
    ModeReason.REPLICA: "store_url is a read-only replica, which may lag behind the metastore",
    ModeReason.UNCHECKED: "no metastore answers, so the proxy cannot check whether it may be cached",
    ModeReason.UNCONFIRMED: "the follower has not confirmed the cache for longer than max_unconfirmed_ms",
    ModeReason.REPLAY: "a recording is replayed; writes are refused",
}

BY_TIME = frozenset({ModeReason.NO_STORE, ModeReason.NO_LOG})
"""For these reasons no log is followed. TTL mode then answers, if it is enabled."""
