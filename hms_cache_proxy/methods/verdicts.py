"""For `authorization = "learned"`: remembers for which reads the metastore gave a user the same answer as the cache.

Job: say which verdicts a read needs, remember them, and take them from relayed reads. Must not know: sockets, how an
answer is built.

A read is relayed until the metastore has given its user the answer that the cache gives (up to the order in maps). Then
the cache may answer this user, for at most `authorization_ttl_s` from when the compared request left. A verdict is
about a user (all that set_ugi or a login named, the groups too; connections that named nobody are one user), a method,
and
- a table, for the methods in BY_TABLE; for those in BY_PART only if the metastore's hooks are known to decide by table
  (upstream/checks.py), because another hook may hide single partitions;
- otherwise the request, in all its bytes. This is the case for listings, because one pattern proves nothing about
  another.

A verdict ends when its time is over; when the version of anything that the read depends on is above `seq`, the state of
the cache that was compared; and when the metastore gives this user another answer. Rights are among these dependencies,
so a change of rights through the proxy or through a peer ends the verdicts that it may concern: a check whose request
left before the change has a smaller `seq` than the step that did the change's ticket. Until that step, the change's
fence holds hits back. A change may concern all verdicts (ROLES), unless the metastore's rules are known to be Hive's,
by which a privilege on an object concerns only what is in the object (targets.rights_on).

Without a verdict, nothing is answered; a kept reply without one is not used either (hot.py).

Owner: one per worker, on its loop. A verdict is not shared with other workers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic_ns
from typing import Final, NamedTuple

from hms_cache_proxy.cache.replies import UserVerdict, stand
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import boottime_ns
from hms_cache_proxy.cache.targets import Target, only_tables
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType

from .decision import ClientSession, Pending
from .effects import RelayedRead
from .flights import Flight
from .reply_contents import kept_part, whole_header

MOST: Final = 100_000
"""Verdicts that a worker remembers (some 25 MB); the oldest are forgotten first."""
MOST_COMPARED_BYTES: Final = 256 << 10
"""Longer answers are not compared: it would take longer than a turn of the loop should."""
MOST_TABLES: Final = 100
"""A read of more tables is judged by its request."""
SPREAD: Final = 0.25
"""A verdict stands for between 75 and 100 % of the time, so that those that were made together do not end together."""

BY_TABLE: Final = frozenset(
    "get_table get_table_req get_table_objects_by_name get_table_objects_by_name_req get_fields"
    " get_fields_with_environment_context get_fields_req get_schema get_schema_with_environment_context get_schema_req"
    " get_primary_keys get_unique_constraints get_not_null_constraints get_default_constraints get_check_constraints"
    " get_all_table_constraints".split()
)
"""The metastore shows a user the table, or does not."""

NAMES_OTHERS: Final = frozenset(("get_all_table_constraints",))
"""The answer depends on tables that the request does not name, and that the user may not see."""

BY_PART: Final = frozenset(
    "get_partition get_partition_req get_partition_with_auth get_partition_by_name get_partitions get_partitions_req"
    " get_partition_names fetch_partition_names_req get_partition_names_req get_partition_names_ps"
    " get_partition_names_ps_req get_partitions_ps get_partitions_ps_with_auth get_partitions_ps_with_auth_req"
    " get_partitions_by_names get_partitions_by_names_req get_partitions_by_filter get_partitions_by_filter_req"
    " get_part_specs_by_filter get_num_partitions_by_filter get_partitions_by_expr get_partitions_spec_by_expr"
    " get_table_column_statistics get_partition_column_statistics get_table_statistics_req"
    " get_partitions_statistics_req get_aggr_stats_for".split()
)
"""They ask for partitions or columns of one table."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which verdicts a read needs. `tables`: what each of `keys` is about; empty: the only key is about the request."""

    keys: tuple[bytes, ...]
    tables: tuple[Target, ...] = ()


class Judged(NamedTuple):
    """What is known of a read's user: which verdicts it needs, and those that stand. `versions`: of what it depends on,
    if it has none."""

    asked: Question
    verdicts: tuple[UserVerdict, ...]
    versions: tuple[int, ...] = ()


def question(method: str, user: bytes, request: bytes, depends: Iterable[Target], *, parts: bool) -> Question:
    """`request`: its bytes and its user, as the key of a kept reply. `parts`: may hooks tell parts of a table apart?"""
    if method in BY_TABLE or (method in BY_PART and not parts):
        tables = only_tables(depends)
        if method in NAMES_OTHERS:
            tables = tables[:1]
        if 0 < len(tables) <= MOST_TABLES:
            about = blake2b(b"t%d %b%b\0" % (len(user), user, method.encode()), digest_size=16)
            return Question(tuple(_digest(about.copy(), table) for table in tables), tables)
    return Question((_digest(blake2b(b"r", digest_size=16), request),))


def _digest(hashed: blake2b, last: bytes) -> bytes:
    hashed.update(last)
    return hashed.digest()


def unchanged(judged: Judged, depends: Iterable[Target], snapshot: CacheSnapshot) -> bool:
    """Do its verdicts stand, and is everything that they are about as it was when they were made?"""
    asked, verdicts, _ = judged
    if not stand(verdicts):
        return False
    newest = max((snapshot.version(target) for target in depends if target not in asked.tables), default=0)
    if newest > min(verdict.seq for verdict in verdicts):
        return False
    return all(snapshot.version(table) <= one.seq for table, one in zip(asked.tables, verdicts, strict=False))


class Verdicts:
    """A worker's verdicts."""

    __slots__ = ("_by_key", "_metrics", "_most", "_ttl_ns")

    def __init__(self, ttl_s: float, metrics: WorkerMetrics, most: int = MOST) -> None:
        self._by_key: dict[bytes, UserVerdict] = {}  # the oldest first
        self._ttl_ns = int(ttl_s * 1e9)
        self._metrics = metrics
        self._most = most

    def found(self, asked: Question) -> tuple[UserVerdict, ...]:
        """The verdicts that a read needs, if all of them stand; else none."""
        found = tuple(self._by_key.get(key) for key in asked.keys)
        known = tuple(verdict for verdict in found if verdict is not None)
        return known if len(known) == len(found) and stand(known) else ()

    def made(self, seq: int, checked_ns: int) -> UserVerdict:
        """A new one, which nobody finds."""
        return UserVerdict(seq, checked_ns + int(self._ttl_ns * (1 - SPREAD * random.random())))

    def give(self, asked: Question, seq: int, checked_ns: int) -> None:
        """The metastore's answer was the cache's, as of the state `seq`."""
        for key in asked.keys:
            self._by_key.pop(key, None)
            self._by_key[key] = self.made(seq, checked_ns)
        while len(self._by_key) > self._most:
            del self._by_key[next(iter(self._by_key))]

    def end(self, asked: Question) -> None:
        """The metastore's answer was another one."""
        for key in asked.keys:
            verdict = self._by_key.pop(key, None)
            if verdict is not None:
                verdict.until_ns = 0  # kept replies have it, too

    def count(self, result: str) -> None:
        """Count a check."""
        self._metrics.checked(result)

    def tend(self) -> None:
        """Forget what has ended, and tell how many there are."""
        now_ns = boottime_ns()
        ended = [key for key, verdict in self._by_key.items() if verdict.until_ns <= now_ns]
        for key in ended:
            del self._by_key[key]
        self._metrics.verdicts.set(len(self._by_key))

    def clear(self) -> None:
        """End all."""
        for verdict in self._by_key.values():
            verdict.until_ns = 0
        self._by_key.clear()


def same(method: str, first: bytes, second: bytes) -> bool:
    """Do two result structs say the same? The order in a map does not count: a metastore's varies."""
    if first == second or len(first) != len(second):
        return first == second
    cls = spec.result(method)
    try:
        return bool(spec.decode(cls, first)[0] == spec.decode(cls, second)[0])
    except WireError:
        return False


@dataclass(slots=True)
class CheckedRead(Pending):
    """A relayed read that shows what its user may see. `expected`: the cache's answer; None: the reply
    is kept instead, and is given to this user only."""

    read: RelayedRead
    method: str
    verdicts: Verdicts
    asked: Question
    seq: int = 0
    expected: bytes | None = None
    flight: Flight | None = None
    left_ns: int = 0

    def leaving(self) -> PeerRequest | None:
        return self.read.leaving()

    def sending(self) -> None:
        self.left_ns = boottime_ns()
        self.read.sending()

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.read.reply_began(session, now_ns)

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        found = None if reply is None else kept_part(self.method, reply)
        if self.expected is None:
            self._keep(session, reply, found, now_ns)
        else:
            self._compare(reply, found)
            self._land(found)

    def failed(self, sent: bool) -> None:
        self.read.failed(sent)
        self._land(None)

    def _land(self, body: bytes | None) -> None:
        if self.flight is not None:
            self.read.shared.flights.land(self.flight, body, monotonic_ns())

    def _compare(self, reply: bytes | None, found: bytes | None) -> None:
        if reply is None:
            self.verdicts.count("too_large")
        elif (result := _result(reply)) is not None and same(self.method, self.expected or b"", result):
            self.verdicts.give(self.asked, self.seq, self.left_ns)
            self.verdicts.count("equal")
        else:
            self.verdicts.end(self.asked)
            self.verdicts.count("refused" if found is None else "different")

    def _keep(self, session: ClientSession, reply: bytes | None, found: bytes | None, now_ns: int) -> None:
        replies, key = self.read.shared.replies, self.read.key
        before = replies.peek(key)
        if before is not None and before.body != found:
            replies.drop(key)
        self.read.reply_done(session, reply, now_ns)
        kept = replies.peek(key)
        if kept is not None and found is not None:
            kept.verdicts = (self.verdicts.made(self.seq, self.left_ns),)
        self.verdicts.count("too_large" if reply is None else "refused" if found is None else "kept")


def _result(reply: bytes) -> bytes | None:
    """The result struct of a reply; None for an exception of the protocol."""
    header = whole_header(reply)
    return reply[header.body :] if header.type is MessageType.REPLY else None
