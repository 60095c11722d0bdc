"""The dispatcher for `authorization = "learned"`: the cache gives a user only answers that the metastore has given this
user.

Job: relay a read if its user has no verdict for it, and have the metastore's answer compared with the cache's. Keep a
reply that the cache cannot build only for its user. Must not know: what a verdict is about, and when it ends
(verdicts.py).

The metastore may be asked while the cache may not answer yet (because of a fence or a floor): an equal answer proves as
much then. So a user who has few verdicts does not wait for the follower with every read. Owner: one per worker, on its
loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from hms_cache_proxy.cache.replies import ReplyEntry, stand, versions_of
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.cache.targets import DATABASES_KIND, ROLES, kind_of, objects, rights_on
from hms_cache_proxy.config import Config
from hms_cache_proxy.consistency.gate import LOOKS, Reason
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire.message import MessageType
from hms_cache_proxy.wire.spec import Struct

from .decision import Decision, Forward, Pending, Serve, Wait, Work
from .dispatch import CacheDispatcher, SharedState, WorkerLinks
from .effects import RelayedRead
from .learnable import databases
from .method_plan import EVERYTHING
from .proof import LookNeeded, Rejected
from .read_call import ReadCall
from .readers.base import Body, Decline, DependsOnMore, Slices
from .table import Method
from .verdicts import MOST_COMPARED_BYTES, CheckedRead, Judged, Verdicts, question, unchanged

SHOWS_RIGHTS: Final = "_with_auth"
"""How methods end whose replies may show privileges."""
HEADER_BYTES: Final = 1 << 10
"""More than the header of a reply takes."""


class LearnedDispatcher(CacheDispatcher):
    """A dispatcher that answers nothing to a user without a verdict."""

    def __init__(self, config: Config, state: SharedState, metrics: WorkerMetrics, links: WorkerLinks) -> None:
        self._verdicts = Verdicts(config.authorization_ttl_s, metrics)
        super().__init__(config, state, metrics, links)

    def forget(self) -> None:
        self._verdicts.clear()
        super().forget()

    def settle(self) -> None:
        super().settle()
        self._verdicts.tend()

    def _kept(self, call: ReadCall) -> ReplyEntry | None:
        kept = super()._kept(call)
        return kept if kept is not None and stand(kept.verdicts) else None

    def _looked_at(self, call: ReadCall) -> tuple[tuple[bytes, ...], Struct | None]:
        depends, args = super()._looked_at(call)
        return (*depends, *self._listed(depends), *self._rights(call.plan.method, depends)), args

    def _listed(self, depends: tuple[bytes, ...]) -> Iterable[bytes]:
        """The databases that a listing is about. What decides whether its user sees one may look at all of it. (Of the
        tables, a target for all is among `depends`.) If the cache cannot be read, it may be about everything."""
        if not any(kind_of(target) == DATABASES_KIND for target in depends):
            return ()
        try:
            with self._reader.snapshot() as snapshot:
                return databases(snapshot, depends) or ()
        except CacheError:
            return EVERYTHING

    def _rights(self, method: Method, depends: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """The changes of rights that end this read's verdicts."""
        shows = method.name.partition("_req")[0].endswith(SHOWS_RIGHTS)
        if shows or self._page[Slot.DIFFERS] & AnswerDifferences.RIGHTS:
            return (ROLES,)
        return rights_on(depends)

    def _allowed(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], reason: Reason | None
    ) -> tuple[ReadCall, Decision | None]:
        """The call with its verdicts. If it has none, it is compared at once, unless the cache has no answer."""
        if not call.request.complete:
            return call, None
        found, user = call.plan, call.request.session.identity or b""
        parts = bool(self._page[Slot.DIFFERS] & AnswerDifferences.PARTS)
        asked = question(found.method.name, user, call.key, depends, parts=parts)
        verdicts = self._verdicts.found(asked)
        call = call._replace(judged=Judged(asked, verdicts))
        usable = (reason is None or reason in LOOKS) and call.request.header.type is MessageType.CALL
        if verdicts or found.reader is None or call.declined is not None or not usable:
            return call, None
        proof = self._proof()
        proof.current = True  # as the metastore's answer is
        try:
            with self._reader.snapshot() as snapshot:
                return call, self._answer(call._replace(proof=proof), args, depends, snapshot)
        except Decline as declined:
            return call._replace(declined=declined.reason), None
        except (LookNeeded, Rejected, CacheError, DependsOnMore):
            return call, None

    def _answer(
        self, call: ReadCall, args: Struct | None, depends: tuple[bytes, ...], snapshot: CacheSnapshot
    ) -> Decision:
        judged = call.judged
        assert judged is not None, "a call that is complete"
        if not unchanged(judged, depends, snapshot):
            call = call._replace(judged=Judged(judged.asked, (), versions_of(snapshot, depends)))
        return super()._answer(call, args, depends, snapshot)

    def _serve(self, call: ReadCall, body: Body, depends: tuple[bytes, ...], seq: int) -> Decision:
        assert call.judged is not None
        if stand(call.judged.verdicts):
            return super()._serve(call, body, depends, seq)
        if not isinstance(body, bytes):
            call = call.impatient()
        if isinstance(body, Slices):
            return Work(partial(self._collect, call, body.pieces, bytearray(), depends, seq))
        return self._compare(call, body, depends, seq)

    def _collect(
        self, call: ReadCall, pieces: Iterator[bytes], found: bytearray, depends: tuple[bytes, ...], seq: int
    ) -> Decision | None:
        """Read the next slice of an answer that is to be compared."""
        piece = next(pieces, None)
        if piece is None or len(found) > MOST_COMPARED_BYTES:
            return self._compare(call, bytes(found), depends, seq)
        found += piece
        return None

    def _compare(self, call: ReadCall, expected: bytes, depends: tuple[bytes, ...], seq: int) -> Decision:
        """Ask the metastore, and compare its answer with the cache's."""
        assert call.judged is not None
        method, versions = call.plan.method.name, call.judged.versions
        if len(expected) > MOST_COMPARED_BYTES:
            return self._misses.forward(call.plan, depends, Reason.VERDICT)
        shared = self._misses.share(call, depends, versions) if versions else None
        if isinstance(shared, Serve | Wait):
            return shared
        read = RelayedRead(self._shared, depends)
        pending = CheckedRead(read, method, self._verdicts, call.judged.asked, seq, expected, shared)
        hold = MOST_COMPARED_BYTES + HEADER_BYTES
        return Forward(method, "miss", Reason.VERDICT.value, hold, retry=True, pending=pending)

    def _learn(
        self, call: ReadCall, depends: tuple[bytes, ...], snapshot: CacheSnapshot, reason: Reason
    ) -> Serve | Forward | Wait:
        return super()._learn(call, objects(depends), snapshot, reason)

    def _watched(self, read: RelayedRead, call: ReadCall, snapshot: CacheSnapshot) -> Pending:
        assert call.judged is not None
        return CheckedRead(read, read.method, self._verdicts, call.judged.asked, snapshot.seq)


def dispatcher(config: Config, state: SharedState, metrics: WorkerMetrics, links: WorkerLinks) -> CacheDispatcher:
    """The one that the settings ask for."""
    kind = LearnedDispatcher if config.authorization == "learned" else CacheDispatcher
    return kind(config, state, metrics, links)
