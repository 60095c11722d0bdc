"""The gate: may this read be answered from the cache, and if not, why.

Job: one decision out of the state page, the fences, the connection's floors and the settings; every reason
is a metric label and stands in `Reason`. Must not know: methods, replies, sockets.

Order of reading, which makes the pieces fit: the state page, then the fences, then the cache: a reader who asks
opens its snapshot *after* `standing` and `held_back` have allowed the read. The snapshot is then at least
as new as the confirmation, and as the reload of every fence that was found lifted.

Modes: `session` (default) keeps all rules; `bounded` too, with a smaller bound on the age of the
confirmation; `strict` only takes a confirmation that began after the read arrived: reads wait for the next
step; `eventual` only asks that the object is loaded, that the cache has caught up once since the start, and that it was
confirmed within `max_unconfirmed`: nobody is served any age because the follower is stuck.
Owner: one per worker; no state of its own but the fence mirror's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage

from .floors import Floors

ConsistencyMode = Literal["eventual", "session", "bounded", "strict"]
Authorization = Literal["none", "per_user", "relay"]
"""What settings and upstream checks allow: all may see all; what a user was told is for that user; nothing."""


class Reason(StrEnum):
    """Why a read went upstream: the metric label."""

    STARTING = "starting"  # the cache has not caught up since this start
    UNCONFIRMED = "unconfirmed"  # the follower has not confirmed it for too long
    BOUNDED = "bounded"  # ... for longer than max_staleness_ms
    STRICT = "strict"  # the mode asks for a confirmation after the read arrived
    FENCE = "fence"  # a write is in flight, or its reload is not done
    UNFENCED = "unfenced"  # a write through this proxy could not be fenced: the disk is full
    FLOOR = "floor"  # this connection was shown something newer
    UNSETTLED = "unsettled"  # it changed while the follower read it; the next step reads it again
    SETMETACONF = "setmetaconf"  # the connection changed the metastore's settings for itself
    AUTHORIZATION = "authorization"  # the metastore filters or refuses by user
    NOT_LOADED = "not_loaded"
    ABSENT = "absent"  # known not to exist, and the metastore is to say so itself
    EXCLUDED = "excluded"  # by include and exclude
    FULL = "full"  # no room in the cache
    TRANSACTIONAL = "transactional"  # a transactional table of another catalog than hive: write ids have none
    NO_WRITE_ID = "no_write_id"  # a transactional table, and the request brings no ValidWriteIdList
    TABLE_ID = "table_id"  # ... and the list comes without the table's id, or with another's
    WRITE_ID = "write_id"  # ... and somebody committed between the request's list and the cache's, or is writing
    FOREIGN_KEYS = "foreign_keys"  # a table that refers to others: what is said of it changes with them
    REMOTE = "remote"  # a database behind a data connector
    MATERIALIZED_VIEW = "materialized_view"
    PRIVILEGES = "privileges"  # the table has privileges per partition
    COLLATION = "collation"  # an order or equality that the database decides by a collation that is not bytewise
    FILTER_LIKE = "filter_like"
    FILTER = "filter_unsupported"
    EXPRESSION_PUSHED = "expression_pushed"  # the metastore has not been seen to push an expression down
    EXPRESSION_NAMES = "expression_names"  # ... or to evaluate one over the names of partitions
    NAME = "name"  # a name that is absent or not in ASCII
    PATTERN = "pattern"  # a pattern, or a value with pattern characters, that releases read differently
    VARIANT = "variant"  # what calls for one partition say is not known where the cache is read over Thrift
    SETTINGS = "settings"  # the metastore limits lists of partitions, or reads them, or statistics, another way
    SERDE = "serde"  # of a serde that the metastore itself asks for the columns
    LOCATION = "location"  # the metastore may rewrite the stored location: its own reply is kept
    RELEASE = "release"  # a metastore before Hive 4 answers this otherwise
    UNLOGGED = "unlogged"  # this metastore changes it without an event
    CAPABILITIES = "capabilities"  # the answer depends on what the client says it can do
    ARGUMENTS = "arguments"  # arguments whose answer is not reproduced here
    CACHE = "cache"  # there is none yet, or it cannot be read
    STATISTICS = "statistics"  # statistics that are not added up here, or that a metastore may refuse to add up
    ORDER = "order"  # a list that the metastore gives in whatever order its database finds it
    NO_READER = "not_cached"  # a read that is never answered from objects, and was not learned yet


@dataclass(frozen=True, slots=True)
class Rules:
    """The gate's settings. All times in ns."""

    mode: ConsistencyMode = "session"
    max_unconfirmed_ns: int = 10_000_000_000
    max_staleness_ns: int = 0
    max_stale_ns: int = 0  # in an outage


class Fences(Protocol):
    """What the gate asks of the fence mirror."""

    def active(self, targets: Sequence[bytes], done_ticket: int) -> bool:
        """Whether one of the targets is fenced for a cache that has done all tickets up to done_ticket."""
        ...

    def liftable(self, targets: Sequence[bytes]) -> bool:
        """Whether the fences on these targets wait for the follower only, not for a write that is under way."""
        ...


STALE = "stale"
"""The metric label of hits that nobody has confirmed for too long, in an outage (`serve_stale`)."""

_NEXT_STEP = frozenset({Reason.UNSETTLED, Reason.FLOOR, Reason.STRICT, Reason.BOUNDED})
"""What the next step of the follower ends, if it is well."""


class Gate:
    """Evaluates the rules for one worker."""

    __slots__ = ("_limit_ns", "_words", "authorization", "eventual", "fences", "rules")

    def __init__(self, page: StatePage, fences: Fences, rules: Rules) -> None:
        self.fences = fences
        self.rules = rules
        self.eventual = rules.mode == "eventual"
        self.authorization: Authorization = "none"
        self._words = page.words
        bounded = rules.mode == "bounded"
        self._limit_ns = min(rules.max_staleness_ns, rules.max_unconfirmed_ns) if bounded else rules.max_unconfirmed_ns

    def standing(self, relay_for_good: bool, now_ns: int) -> Reason | None:
        """What holds now for every read of this connection that arrived at now_ns."""
        words = self._words
        if relay_for_good:
            return Reason.SETMETACONF
        if self.authorization == "relay":
            return Reason.AUTHORIZATION
        began_ns = words[Slot.BEGAN_NS]
        if words[Slot.SERVE_MODE] != MODE_SERVE or not began_ns or words[Slot.CURSOR] < words[Slot.START_EVENT]:
            return Reason.STARTING
        age_ns = now_ns - began_ns
        if self.eventual:
            return Reason.UNCONFIRMED if age_ns > self._limit_ns else None
        if words[Slot.UNFENCED] & 1:
            return Reason.UNFENCED
        if self.rules.mode == "strict" and began_ns <= now_ns:
            return Reason.STRICT
        if age_ns > self._limit_ns:
            return Reason.UNCONFIRMED if age_ns > self.rules.max_unconfirmed_ns else Reason.BOUNDED
        return None

    def stale_enough(self, reason: Reason, now_ns: int) -> bool:
        """May a read that `standing` holds back for this reason be answered if there is nobody else to answer it?"""
        age_ns = now_ns - self._words[Slot.BEGAN_NS]
        return reason in (Reason.UNCONFIRMED, Reason.BOUNDED) and age_ns <= self.rules.max_stale_ns

    def open_until(self, began_ns: int) -> int:
        """How long `standing` stays None, while the state page stays as it is, for reads that arrive until then."""
        return began_ns - 1 if self.rules.mode == "strict" else began_ns + self._limit_ns

    def held_back(self, targets: Sequence[bytes], floors: Floors | None) -> Reason | None:
        """What holds for these dependencies. Open the snapshot afterwards."""
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
        """Whether a read that is held back for this reason is served in a moment, if it waits."""
        return reason in _NEXT_STEP or (reason is Reason.FENCE and self.fences.liftable(targets))
