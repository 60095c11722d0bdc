"""Whole replies: the answer to a request is given to every equal request.

Job: be the conversation of all reads whose replies are not split into objects. Must not know: what a reply means,
except whether it says that something does not exist. Owner: one per request.
"""

from __future__ import annotations

from hms_cache_proxy.cache.ttl import EntryKind, NewEntry

from ..reply_contents import kept_part
from . import contents
from .looking import OneStepConversation, RequestView


class Whole(OneStepConversation):
    """One request and its whole reply. The key is the arguments as they were sent."""

    def __init__(self, look: RequestView, method: str, arguments: bytes, kind: EntryKind) -> None:
        self.look = look
        self.kind = kind
        self._method = method
        self._key = look.key(kind, method.encode(), arguments)

    def wanted(self) -> tuple[bytes | None, list[bytes]]:
        """The result, or its key."""
        found = self.look.get(self.kind, [self._key])[0]
        return (None, [self._key]) if found is None else (found.body, [])

    def learn(self, reply: bytes) -> None:
        """Keep the reply, unless it is a refusal."""
        item = self.item(reply)
        if item is None:
            self.look.refused(self.kind, self._method, reply, [self._key])
        else:
            self.look.publish([item])

    def item(self, reply: bytes) -> NewEntry | None:
        """The entry, which is empty if partitions have too many columns, or if it shows a materialized view; None for a
        refusal."""
        body = kept_part(self._method, reply)
        absent = body is not None and body[1:3] != b"\0\0"
        if body is None or (absent and not self.look.policy(self.kind).cache_missing):
            return None
        if not absent and self._is_never_kept(reply):
            body = None
        return self.look.item(self.kind, self._key, body, absent=absent)

    def _is_never_kept(self, reply: bytes) -> bool:
        if self.kind is EntryKind.PARTITION:
            return self._is_too_wide(reply)
        return self.kind is EntryKind.TABLE and contents.shows_materialized_view(self._method, reply)

    def _is_too_wide(self, reply: bytes) -> bool:
        limit = self.look.shared.section.partition_column_limit
        count = contents.wide_partitions(self._method, reply, limit) if limit else 0
        self.look.shared.metrics.ttl_over_limit.inc(count)
        return count > 0
