"""The gate: whether a read may be answered from the cache, and why not.

Job: one decision from the state page, the fences, the connection's floors and the settings. Every reason is a metric
label, and is in `Reason`. Must not know: methods, replies, sockets.

Order of reading: the state page, then the fences, then the cache. A caller opens its snapshot *after* `standing` and
`held_back` have allowed the read. So the snapshot is at least as new as the confirmation, and as the reload of every
fence that was found lifted.

Modes: `session` (default) applies all rules. `bounded` does, too, with a smaller limit on the age of the confirmation.
`strict` only accepts a confirmation that began after the read arrived, so reads wait for the next step. `eventual` only
requires that the object is loaded, that the cache has caught up once since the start, and that it was confirmed within
`max_unconfirmed`, so that a stuck follower cannot make answers arbitrarily old. Owner: one per worker; its only state
is the fence mirror's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage, boottime_ns

from .floors import Floors

ConsistencyMode = Literal["eventual", "session", "bounded", "strict"]
Authorization = Literal["none", "learned", "per_user", "relay"]
"""Who may see cached answers: `none`: everybody; `learned`: users to whom the metastore gave the same answer;
`per_user`: replies are kept for the user that got them; `relay`: nobody."""


class Reason(StrEnum):
    """Why a read went to the metastore; the metric label."""

    STARTING = "starting"  # the cache has not caught up since this start
    UNCONFIRMED = "unconfirmed"  # the follower has not confirmed it for too long
    BOUNDED = "bounded"  # ... for longer than max_staleness_ms
    STRICT = "strict"  # the mode asks for a confirmation after the read arrived
    PEERS = "peers"  # another proxy has not promised to tell of its writes: a look after the read arrived is needed
    FENCE = "fence"  # a write is in progress, or its reload is not done
    UNFENCED = "unfenced"  # a write through this proxy could not be fenced: the disk is full
    FLOOR = "floor"  # this connection has seen something newer
    UNSETTLED = "unsettled"  # it changed while the follower read it; the next step reads it again
    SETMETACONF = "setmetaconf"  # the connection changed the metastore's settings for itself
    AUTHORIZATION = "authorization"  # the metastore filters or refuses by user
    VERDICT = "verdict"  # the metastore has not given this user the cache's answer recently
    NOT_LOADED = "not_loaded"
    ABSENT = "absent"  # known not to exist, and the metastore must say so itself
    EXCLUDED = "excluded"  # by include and exclude
    FULL = "full"  # no room in the cache
    TRANSACTIONAL = "transactional"  # a transactional table of another catalog than hive: write ids have none
    NO_WRITE_ID = "no_write_id"  # a transactional table, and the request has no ValidWriteIdList
    TABLE_ID = "table_id"  # ... and the list has no table id, or that of another table
    WRITE_ID = "write_id"  # ... and a write was committed between the request's list and the cache's, or is open
    FOREIGN_KEYS = "foreign_keys"  # a table that refers to others of which the cache does not know the keys
    REMOTE = "remote"  # a database behind a data connector
    MATERIALIZED_VIEW = "materialized_view"
    PRIVILEGES = "privileges"  # the table has privileges for each partition
    COLLATION = "collation"  # an order or equality that depends on a collation that is not bytewise
    FILTER_LIKE = "filter_like"
    FILTER = "filter_unsupported"
    EXPRESSION_PUSHED = "expression_pushed"  # the metastore has not been seen to push an expression down
    EXPRESSION_NAMES = "expression_names"  # ... or to evaluate one over the names of partitions
    NAME = "name"  # a name that is absent or not in ASCII
    PATTERN = "pattern"  # a pattern, or a value with pattern characters, that releases read differently
    VARIANT = "variant"  # the form of calls for one partition, which is not known over Thrift
    SETTINGS = "settings"  # settings of the metastore change its lists of partitions, statistics or expressions
    SERDE = "serde"  # a serde that the metastore asks for the columns
    LOCATION = "location"  # the metastore may rewrite the stored location, so its own reply is kept
    RELEASE = "release"  # a metastore before Hive 4 answers this differently
    UNLOGGED = "unlogged"  # this metastore changes it without an event
    CAPABILITIES = "capabilities"  # the answer depends on the client's capabilities
    ARGUMENTS = "arguments"  # arguments whose answer is not reproduced here
    CACHE = "cache"  # there is none yet, or it cannot be read
    STATISTICS = "statistics"  # statistics that are not aggregated here, or that a metastore may refuse to aggregate
    ORDER = "order"  # a list without a defined order: the metastore's database decides
    NO_READER = "not_cached"  # a read that is only answered from learned replies, and was not learned yet


@dataclass(frozen=True, slots=True)
class Rules:
    """The gate's settings. All times in ns."""

    mode: ConsistencyMode = "session"
    max_unconfirmed_ns: int = 10_000_000_000
    max_staleness_ns: int = 0
    max_stale_ns: int = 0  # serve_stale
    leased: bool = False  # there are other proxies


class Fences(Protocol):
    """What the gate needs from the fence mirror."""

    def active(self, targets: Sequence[bytes], done_ticket: int) -> bool:
        """Whether one of the targets is fenced, for a cache that has done all tickets up to `done_ticket`."""
        ...

    def liftable(self, targets: Sequence[bytes]) -> bool:
        """Whether the fences on these targets only wait for the follower, not for a write in progress."""
        ...


STALE = "stale"
"""The metric label of hits in an outage with a confirmation that is too old (`serve_stale`)."""

LOOKS = frozenset({Reason.STRICT, Reason.PEERS})
"""What `must_look` returns."""

_NEXT_STEP = LOOKS | {Reason.UNSETTLED, Reason.FLOOR, Reason.BOUNDED}
"""Reasons that the next step of a healthy follower ends."""


class Gate:
    """Evaluates the rules for one worker."""

    __slots__ = ("_limit_ns", "_strict", "_words", "authorization", "eventual", "fences", "leased", "rules")

    def __init__(self, page: StatePage, fences: Fences, rules: Rules) -> None:
        self.fences = fences
        self.rules = rules
        self.eventual = rules.mode == "eventual"
        self._strict = rules.mode == "strict"
        self.leased = rules.leased and rules.mode in ("session", "bounded")
        self.authorization: Authorization = "none"
        self._words = page.words
        bounded = rules.mode == "bounded"
        self._limit_ns = min(rules.max_staleness_ns, rules.max_unconfirmed_ns) if bounded else rules.max_unconfirmed_ns

    def standing(self, relay_for_good: bool, now_ns: int) -> Reason | None:
        """The reason that now holds for every read of this connection that arrived at `now_ns`."""
        words, slept_ns = self._words, self._slept_age_ns()
        if relay_for_good:
            return Reason.SETMETACONF
        if self.authorization == "relay":
            return Reason.AUTHORIZATION
        began_ns = words[Slot.BEGAN_NS]
        if words[Slot.SERVE_MODE] != MODE_SERVE or not began_ns or words[Slot.CURSOR] < words[Slot.START_EVENT]:
            return Reason.STARTING
        age_ns = max(now_ns - began_ns, slept_ns)
        if self.eventual:
            return Reason.UNCONFIRMED if age_ns > self._limit_ns else None
        if words[Slot.UNFENCED] & 1:
            return Reason.UNFENCED
        looks = self.must_look()
        if looks is not None and began_ns <= now_ns:
            return looks
        if age_ns > self._limit_ns:
            return Reason.UNCONFIRMED if age_ns > self.rules.max_unconfirmed_ns else Reason.BOUNDED
        return None

    def must_look(self) -> Reason | None:
        """Why every read needs a look that began after it arrived (looks.py); None if it does not."""
        if self._strict:
            return Reason.STRICT
        return Reason.PEERS if self.leased and self.lapsed(self._words[Slot.LEASE_UNTIL_NS]) else None

    @staticmethod
    def lapsed(until_ns: int) -> bool:
        """Is this lease over? Must be called after the request was received, and before the fences are looked at."""
        return boottime_ns() >= until_ns

    def stale_enough(self, reason: Reason, now_ns: int) -> bool:
        """May a read that `standing` refuses for this reason be answered if no metastore can answer it?"""
        age_ns = max(self._slept_age_ns(), now_ns - self._words[Slot.BEGAN_NS])
        return reason in (Reason.UNCONFIRMED, Reason.BOUNDED) and age_ns <= self.rules.max_stale_ns

    def overslept(self) -> bool:
        """Has the confirmation become too old while the machine slept? Must be called before the page's other words are
        read."""
        return self._slept_age_ns() > self._limit_ns

    def _slept_age_ns(self) -> int:
        """The present age of the confirmation, sleep of the machine included; 0: it is not known."""
        began_ns = self._words[Slot.BEGAN_BOOT_NS]
        return boottime_ns() - began_ns if began_ns else 0

    def open_until(self, began_ns: int) -> int:
        """Until when `standing` returns None for reads that arrive, if the state page does not change, and the machine
        does not sleep (`overslept`)."""
        return began_ns - 1 if self.must_look() is not None else began_ns + self._limit_ns

    def held_back(self, targets: Sequence[bytes], floors: Floors | None) -> Reason | None:
        """The reason that holds for these dependencies. The snapshot must be opened afterwards."""
        if self.eventual:
            return None
        words = self._words
        began_ns, done_ticket = words[Slot.BEGAN_NS], words[Slot.DONE_TICKET]
        if self.fences.active(targets, done_ticket):
            return Reason.FENCE
        if floors is not None and floors.highest_ns and floors.block(targets, began_ns):
            return Reason.FLOOR
        return None

    def ends_with_next_step(self, reason: Reason, targets: Sequence[bytes]) -> bool:
        """Whether a read that is refused for this reason can be answered soon, if it waits."""
        return reason in _NEXT_STEP or (reason is Reason.FENCE and self.fences.liftable(targets))
