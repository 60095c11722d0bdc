"""The gate decides whether a read may be answered from the cache, and says why not.

Job: make this decision from the state page, the fences, the connection's floors and the settings. `Reason` has every
reason; each is a metric label. Must not know: methods, replies, sockets.

Order of reading: the state page, then the fences, then the cache. A caller opens its snapshot *after* `standing` and
`held_back` have allowed the read. So the snapshot is at least as new as the confirmation, and as the reload of every
fence that was found lifted.

Modes: `session` (default) applies all rules. `bounded` applies them with a smaller limit on the age of the
confirmation. `strict` only accepts a confirmation that began after the read arrived, so reads wait for the next step.
`eventual` only requires that the object is loaded, that the cache has caught up once since the start, and that it was
confirmed within `max_unconfirmed`, so that a stuck follower cannot make answers arbitrarily old. Owner: one per worker;
its only state is the fence mirror's.
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
    """Why a read went to the metastore; the metric label. status/reasons.py says what each means."""

    STARTING = "starting"
    UNCONFIRMED = "unconfirmed"
    BOUNDED = "bounded"
    STRICT = "strict"
    PEERS = "peers"
    FENCE = "fence"
    UNFENCED = "unfenced"
    FLOOR = "floor"
    UNSETTLED = "unsettled"
    SETMETACONF = "setmetaconf"
    AUTHORIZATION = "authorization"
    VERDICT = "verdict"
    NOT_LOADED = "not_loaded"
    ABSENT = "absent"
    EXCLUDED = "excluded"
    FULL = "full"
    TRANSACTIONAL = "transactional"
    NO_WRITE_ID = "no_write_id"
    TABLE_ID = "table_id"
    WRITE_ID = "write_id"
    FOREIGN_KEYS = "foreign_keys"
    REMOTE = "remote"
    MATERIALIZED_VIEW = "materialized_view"
    PRIVILEGES = "privileges"
    COLLATION = "collation"
    FILTER_LIKE = "filter_like"
    FILTER = "filter_unsupported"
    EXPRESSION_PUSHED = "expression_pushed"
    EXPRESSION_NAMES = "expression_names"
    NAME = "name"
    PATTERN = "pattern"
    VARIANT = "variant"
    SETTINGS = "settings"
    SERDE = "serde"
    LOCATION = "location"
    RELEASE = "release"
    UNLOGGED = "unlogged"
    CAPABILITIES = "capabilities"
    ARGUMENTS = "arguments"
    CACHE = "cache"
    STATISTICS = "statistics"
    ORDER = "order"
    NO_READER = "not_cached"


@dataclass(frozen=True, slots=True)
class Rules:
    """The gate's settings. All times in ns."""

    mode: ConsistencyMode = "session"
    max_unconfirmed_ns: int = 10_000_000_000
    max_staleness_ns: int = 0
    max_stale_ns: int = 0  # serve_stale
    leased: bool = False  # there are other proxies
    authorization: Authorization = "none"


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
        self.authorization = rules.authorization
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
