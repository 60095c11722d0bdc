"""`bridge.capabilities`: adds the names of capabilities to requests of clients that name none.

Job: be a dispatcher in front of another. If a request could name what its client can do, and does not, it gets the
capabilities that the settings give its user, before it is decided. So the answer, from the cache or from the metastore,
is the one that a client with these capabilities gets. Not all calls that create a table can name capabilities, and they
need more than that (creations.py). Requests that name capabilities are sent as they are, byte for byte.
Must not know: how answers are found, sockets. Owner: one per worker, on its loop.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.upstream.replay import user_named
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType
from hms_cache_proxy.wire.spans import fields_of

from .creations import CREATE, Creation, created, field_of, with_request
from .decision import ClientCall, ClientSession, Decision, Dispatcher, Forward, Wait, Work
from .reply_contents import whole_header

IDENTIFIER: Final = b"hms-cache-proxy"
"""What clients without an identifier of their own are called in the metastore's messages."""

_USERS_REMEMBERED: Final = 10_000

CARRIERS: Final[Mapping[bytes, str]] = {
    b"alter_table_req": "AlterTableRequest",
    b"create_table_req": "CreateTableRequest",
    b"get_database_req": "GetDatabaseRequest",
    b"get_partitions_by_names_req": "GetPartitionsByNamesRequest",
    b"get_partitions_with_specs": "GetPartitionsRequest",
    b"get_table_objects_by_name_req": "GetTablesRequest",
    b"get_table_req": "GetTableRequest",
    b"get_tables_ext": "GetTablesExtRequest",
    b"translate_table_dryrun": "CreateTableRequest",
}
"""The methods whose request may name capabilities, and the request's struct."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What users with such names can do."""

    user: re.Pattern[str]
    capabilities: tuple[bytes, ...]


class CapableDispatcher:
    """Decides as `inner` does, about requests that name capabilities. `rules`: globs of user names and their
    capabilities; the first that matches applies. `relocates`: see creations.py."""

    def __init__(self, inner: Dispatcher, rules: Mapping[str, Sequence[str]], *, relocates: bool) -> None:
        self._inner = inner
        self._relocates = relocates
        self._hot = inner.hot
        self.moved, self.looked_ns = inner.moved, inner.looked_ns
        self._rules = tuple(
            _Rule(re.compile(fnmatch.translate(user)), tuple(word.encode() for word in words))
            for user, words in rules.items()
        )
        self._known: dict[bytes | None, tuple[bytes, ...]] = {}

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The reply to a request whose very bytes were answered before. Bytes that gain capabilities are others."""
        return None if self._given(session.identity) else self._hot(session, data, now_ns)

    def hot_wait(self, session: ClientSession, data: bytes, now_ns: int) -> Wait | None:
        """A Wait for such a request."""
        return None if self._given(session.identity) else self._inner.hot_wait(session, data, now_ns)

    def decide(self, call: ClientCall) -> Decision:
        """What `inner` decides. A request that is too large to look at is not changed."""
        decide, session, header, message = self._inner.decide, call.session, call.header, call.message
        words = self._given(session.identity) if call.complete and header.type is MessageType.CALL else ()
        if not words:
            return decide(call)
        try:
            request = with_request(header, message)
            named = with_capabilities(message if request is None else request, words)
            if named is not None and (request is not None or header.name == CREATE):
                creation = Creation(header, message, named)
                return created(session, decide(call), creation, relocates=self._relocates)
        except WireError:
            named = None  # malformed: the metastore refuses it
        return decide(call) if named is None else _sent_as(decide(call.saying(named)), named)

    def _given(self, identity: bytes | None) -> tuple[bytes, ...]:
        """The capabilities of the user that set_ugi has named; '' without one."""
        words = self._known.get(identity)
        if words is None:
            user = user_named(identity) or ""
            words = next((rule.capabilities for rule in self._rules if rule.user.match(user)), ())
            if len(self._known) >= _USERS_REMEMBERED:
                self._known.clear()
            self._known[identity] = words
        return words


def with_capabilities(message: bytes, words: Sequence[bytes]) -> bytes | None:
    """The call with these capabilities in its request; None if it has no place for them, or names its own. Raises
    WireError."""
    header = whole_header(message)
    carrier = CARRIERS.get(header.name)
    if carrier is None:
        return None
    request = field_of(fields_of(message, header.body), 1)
    if request is None:
        return None
    fields = spec.encode(spec.struct(carrier)(processorCapabilities=list(words), processorIdentifier=IDENTIFIER))
    own = {field_id for field_id, _, _, _ in fields_of(fields)}
    if any(field_id in own for field_id, _, _, _ in fields_of(message, request[2])):
        return None
    end = request[3] - 1
    return message[:end] + fields[:-1] + message[end:]


def _sent_as(decision: Decision, message: bytes) -> Decision:
    """The decision, with this message for the metastore if the metastore is asked."""
    if isinstance(decision, Forward):
        return replace(decision, instead=message)
    if isinstance(decision, Work):

        def step(work: Work = decision) -> Decision | None:
            found = work.step()
            return None if found is None else _sent_as(found, message)

        return Work(step)
    return decision
