"""Creates a table for a client that names no capabilities, by `create_table_req` instead of the client's call.

Job: make the calls that do, with capabilities (capabilities.py), what one `create_table`,
`create_table_with_environment_context`, `create_table_with_constraints` or `create_table_req` does.

With `bridge.managed_locations = "metastore"`, a managed transactional table whose location is its database's default
loses that location: Hive 4 accepts such tables only in the managed warehouse, or in the database's managed location,
and chooses a place in the managed warehouse itself (MetastoreDefaultTransformer of 4.2). So the metastore is first
asked where the database is. A table whose parameters say that it has files keeps its location. Trino's do not say so:
it writes the rows of a CREATE TABLE AS before it creates the table, and these rows would be left behind. So this is not
the default.

A metastore that does not know `create_table_req` gets the client's own call.
Must not know: how a write is fenced, sockets. Owner: the worker's loop.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hms_cache_proxy.peers.requests import PeerRequest
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import (
    ApplicationError,
    Header,
    MessageType,
    exception_message,
    message_header,
)
from hms_cache_proxy.wire.spans import FieldSpan, fields_of

from .decision import Ask, ClientSession, Decision, Forward, Pending, Work
from .reply_contents import Said, said, whole_header

CREATED_BY: Final[Mapping[bytes, Mapping[int, int]]] = {
    b"create_table": {1: 1},
    b"create_table_with_environment_context": {1: 1, 2: 2},
    b"create_table_with_constraints": {1: 1, **{field: field + 1 for field in range(2, 8)}},
}
"""For each method that creates a table without a request: which field of CreateTableRequest each argument is."""

CREATE: Final = b"create_table_req"
HOLD_BYTES: Final = 1 << 20
"""Of a database, or of the reply to a create, which is empty or an exception."""

_TABLE, _STORAGE, _LOCATION = 1, 7, 2  # fields of CreateTableRequest, Table and StorageDescriptor
_MANAGED: Final = b"MANAGED_TABLE"
_NO_FILES: Final = (None, b"0", b"-1")  # values of numFiles; Trino's is always -1, unknown


def field_of(spans: Sequence[FieldSpan], field_id: int) -> FieldSpan | None:
    """The field with this id."""
    return next((span for span in spans if span[0] == field_id), None)


@dataclass(frozen=True, slots=True)
class Creation:
    """A table to be created: the client's call, and the create_table_req with the same seqid that is sent instead."""

    header: Header
    original: bytes
    message: bytes

    def question(self) -> Ask | None:
        """Where its database is; None if its location does not depend on that. Raises WireError."""
        row = self._table()
        if row is None or not _is_new_and_transactional(row) or not (row.dbName and row.tableName and row.sd):
            return None
        if not row.sd.location:
            return None
        name = b"@%b#%b" % (row.catName, row.dbName) if row.catName else row.dbName
        arguments = spec.encode(spec.args("get_database")(name=name))
        return _ask(message_header(b"get_database", MessageType.CALL, self.header.seqid) + arguments)

    def call(self, database: bytes | None = None) -> Ask:
        """The call, without a location that is the default one in the database of this reply to `question`."""
        if database is None or not self._is_default(database):
            return _ask(self.message)
        location = self._field(_TABLE, _STORAGE, _LOCATION)
        assert location is not None, "the default location is there"
        return _ask(self.message[: location[2] - 3] + self.message[location[3] :])

    def reply(self, reply: bytes) -> bytes:
        """The reply to the client's call, which has the same result."""
        answer = whole_header(reply)
        return message_header(self.header.name, answer.type, self.header.seqid) + reply[answer.body :]

    def _is_default(self, database: bytes) -> bool:
        answer = whole_header(database)
        if answer.type is not MessageType.REPLY:
            return False
        found = spec.decode(spec.result("get_database"), database, answer.body)[0].success
        if found is None or not found.locationUri:
            return False
        row = self._table()
        assert row is not None, "its location was looked at"
        default = found.locationUri.rstrip(b"/") + b"/" + row.tableName.lower()
        return bool(row.sd.location.rstrip(b"/") == default)

    def _table(self) -> spec.Struct | None:
        span = self._field(_TABLE)
        return None if span is None else spec.decode(spec.struct("Table"), self.message, span[2])[0]

    def _field(self, *path: int) -> FieldSpan | None:
        """A field of the request."""
        span, at = None, whole_header(self.message).body
        for field_id in (1, *path):
            span = field_of(fields_of(self.message, at), field_id)
            if span is None:
                return None
            at = span[2]
        return span


class Creating(Pending):
    """Makes the calls of a creation one after another, and tells `inner` how the client's call ended."""

    __slots__ = ("_asks", "_creation", "_inner", "_session")

    def __init__(self, session: ClientSession, inner: Pending, creation: Creation, *, asks: bool) -> None:
        self._session = session
        self._inner = inner
        self._creation = creation
        self._asks = asks  # the reply to the question is still to come

    def leaving(self) -> PeerRequest | None:
        return self._inner.leaving()

    def sending(self) -> None:
        self._inner.sending()

    def failed(self, sent: bool) -> None:
        self._inner.failed(sent)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """The next call, or the reply for the client."""
        creation = self._creation
        if self._asks:
            self._asks = False
            return creation.call(reply)
        if reply is None:
            self._inner.failed(True)
            text = f"the metastore's reply to {CREATE.decode()} is longer than {HOLD_BYTES} bytes"
            return exception_message(creation.header.name, creation.header.seqid, ApplicationError.INTERNAL_ERROR, text)
        if whole_header(reply).name == CREATE != creation.header.name and said(reply) is Said.UNKNOWN_METHOD:
            return Ask(creation.header, creation.original, HOLD_BYTES)
        answer, now_ns = creation.reply(reply), time.monotonic_ns()
        self._inner.reply_began(self._session, now_ns)
        self._inner.reply_done(self._session, answer, now_ns)
        return answer


def created(session: ClientSession, decision: Decision, creation: Creation, *, relocates: bool) -> Decision:
    """The decision about a call that creates a table, with the calls of `creation` instead. `relocates`: the metastore
    chooses a location in place of the default one. Raises WireError."""
    return _with_calls(session, decision, creation, creation.question() if relocates else None)


def _with_calls(session: ClientSession, decision: Decision, creation: Creation, question: Ask | None) -> Decision:
    """The decision, also about a call that is read in slices, with these calls instead."""
    if isinstance(decision, Work):

        def step(work: Work = decision) -> Decision | None:
            found = work.step()
            return None if found is None else _with_calls(session, found, creation, question)

        return Work(step)
    if not isinstance(decision, Forward):
        return decision
    pending = Creating(session, decision.pending, creation, asks=question is not None)
    return replace(decision, pending=pending, ask=question or creation.call())


def with_request(header: Header, message: bytes) -> bytes | None:
    """The create_table_req, without capabilities, that does what this call does; None if there is none."""
    fields = CREATED_BY.get(header.name)
    spans = fields_of(message, header.body) if fields is not None else ()
    if fields is None or field_of(spans, 1) is None:
        return None
    parts = [message_header(CREATE, MessageType.CALL, header.seqid), b"\x0c\x00\x01"]
    for field_id, ttype, start, end in spans:
        if field_id in fields:
            parts.append(bytes((ttype, 0, fields[field_id])) + message[start:end])
    return b"".join((*parts, b"\x00\x00"))


def _ask(message: bytes) -> Ask:
    return Ask(whole_header(message), message, HOLD_BYTES)


def _is_new_and_transactional(row: spec.Struct) -> bool:
    parameters = row.parameters or {}
    transactional = (parameters.get(b"transactional") or b"").lower() == b"true"
    return row.tableType == _MANAGED and transactional and parameters.get(b"numFiles") in _NO_FILES
