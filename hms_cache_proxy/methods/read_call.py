"""One read, as the dispatcher of a worker that has a cache handles it. Owner: the worker's loop."""

from __future__ import annotations

from typing import Final, NamedTuple

from hms_cache_proxy.cache.replies import LARGE_BYTES, HitLabel
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.errors import WireError

from .decision import ClientCall
from .method_plan import Plan
from .proof import Proof
from .verdicts import Judged

SEQID: Final = 4
"""Bytes of a sequence id, the last of a header."""


class ReadCall(NamedTuple):
    """A read: the call as it arrived, the key of its reply, and its proof for transactional tables.

    If `request` is patient, the read may wait for a step of the follower. `declined`: why its reader has already
    declined it. `also`: what it depends on besides what it names.
    """

    request: ClientCall
    plan: Plan
    key: bytes
    proof: Proof
    declined: Reason | None = None
    judged: Judged | None = None  # with `authorization = "learned"`
    also: tuple[bytes, ...] = ()
    stale: bool = False  # answered under `serve_stale`: the cache is unconfirmed, and no metastore answers

    def impatient(self) -> ReadCall:
        """The same read, which does not wait."""
        return self._replace(request=self.request._replace(patient=False))

    def head(self, label: HitLabel) -> bytes:
        """The header of its reply."""
        body = self.request.header.body
        return label.head + self.request.message[body - SEQID : body]

    def reply(self, label: HitLabel, body: bytes) -> bytes | tuple[bytes, bytes]:
        """Its whole reply; a long body is a piece of its own, and is not copied."""
        head = self.head(label)
        return (head, body) if len(body) > LARGE_BYTES else head + body

    def proved(self) -> Proof:
        """The proof; reads it from the request if that has not been done yet."""
        if not self.proof.shown and self.plan.bearer.bears:
            try:
                args = self.request.arguments()
            except WireError:
                return self.proof
            self.plan.bearer.show(args, self.proof)
        return self.proof
