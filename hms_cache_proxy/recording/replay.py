"""Answers only from a recording: a metastore in a file, which refuses writes and reports what it does not have.

Job: keep an index of the recording by request, and be the dispatcher that answers from it. Must not know: sockets,
caches.

- A request is answered by the latest result that was recorded for exactly these arguments. If there is none, and the
  method's requests may say which transactions the client sees (ValidWriteIdList, ValidTxnList), the answer is the
  latest result for the same arguments without these lists and the table's id: the lists differ with each planner, and a
  recording has one state.
- A session call succeeds and changes nothing. A write is refused. A request that was not recorded gets an error that
  says so. Errors are MetaExceptions if the method declares these, because clients show their texts to people.
Owner: one per worker, on its loop. The index takes about 100 bytes for each request; results are read on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.methods.decision import BaseDispatcher, ClientCall, Forward, Serve
from hms_cache_proxy.methods.refusal import refusal
from hms_cache_proxy.methods.reply_contents import agreement
from hms_cache_proxy.methods.table import METHODS, OTHER_LABEL, MethodKind
from hms_cache_proxy.recording.allowed import ALLOWED, LISTS, TABLE_IDS, bears_lists
from hms_cache_proxy.recording.file import Damage, RecordingFile
from hms_cache_proxy.recording.format import digest
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import (
    ApplicationError,
    Header,
    MessageType,
    exception_message,
    is_answered,
    message_header,
)

SLICE_BYTES: Final = 1 << 20
NOT_RECORDED, READ_ONLY, OTHER_LIST = "not_recorded", "read_only", "other_list"
"""Reasons in the metrics."""

_CHANGE = frozenset({MethodKind.WRITE, MethodKind.LOCK, MethodKind.TRANSACTION})


class ResultPlace(NamedTuple):
    """The position of a result (offset, length), the type of its reply, and when it was recorded."""

    at: int
    size: int
    type: MessageType
    recorded_ms: int


class Recorded:
    """A recording with its index."""

    def __init__(self, path: str) -> None:
        """Reads the whole recording. ConfigError if it is not a recording."""
        self.file = RecordingFile.to_read(path)
        header = self.file.header()
        self.methods: Counter[bytes] = Counter()
        self._exact: dict[bytes, ResultPlace] = {}
        self._without_lists: dict[bytes, ResultPlace] = {}
        for found in self.file.records(header.end):
            if isinstance(found, Damage):
                break
            record = found.record
            place = ResultPlace(found.result_at, len(record.result), MessageType(record.type), record.recorded_ms)
            key = digest(record.method, record.arguments)
            self.methods[record.method] += key not in self._exact
            _keep_latest(self._exact, key, place)
            alike = without_lists(record.method, record.arguments)
            if alike is not None:
                _keep_latest(self._without_lists, digest(record.method, alike), place)

    def find(self, method: bytes, arguments: bytes) -> tuple[ResultPlace | None, bool]:
        """The result for a request (None if there is none), and whether it was recorded for exactly these arguments."""
        place = self._exact.get(digest(method, arguments))
        if place is not None:
            return place, True
        alike = without_lists(method, arguments)
        return (None if alike is None else self._without_lists.get(digest(method, alike))), False


def _keep_latest(index: dict[bytes, ResultPlace], key: bytes, place: ResultPlace) -> None:
    """Keep the latest result. Workers write with a delay, so the order in the file is not that of the answers."""
    known = index.get(key)
    if known is None or place.recorded_ms >= known.recorded_ms:
        index[key] = place


def without_lists(method: bytes, arguments: bytes) -> bytes | None:
    """Arguments without lists of transactions and write ids, and without the table id that belongs to them. None for
    methods without such lists, and for arguments that cannot be read."""
    name = method.decode("ascii", "replace")
    bearers = bears_lists(name) if name in METHODS else ()
    if not bearers:
        return None
    try:
        args, _ = spec.decode(spec.args(name), arguments)
    except WireError:
        return None
    for bearer in bearers:
        value = getattr(args, bearer)
        if isinstance(value, spec.Struct):
            for field in (*LISTS, *TABLE_IDS):
                if hasattr(value, field):
                    setattr(value, field, None)
        else:
            setattr(args, bearer, None)
    return spec.encode(args)


class ReplayDispatcher(BaseDispatcher):
    """Decides what each request means: an answer from the recording, or an error."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._path = recorded.file.path

    def decide(self, call: ClientCall) -> Serve | Forward:
        """The answer."""
        header, message = call.header, call.message
        name = header.name.decode("utf-8", "replace")
        row = METHODS.get(name)
        if not is_answered(header):
            return Forward(name if row is not None else OTHER_LABEL, "relay", "oneway")
        if row is None:
            text = f"Invalid method name: '{name}'"
            return Serve(
                exception_message(header.name, header.seqid, ApplicationError.UNKNOWN_METHOD, text),
                OTHER_LABEL,
                "error",
                "unknown_method",
            )
        if row.kind is MethodKind.SESSION and call.complete:
            return Serve(_agreement(name, header, message), name, "relay", "session")
        if row.kind is MethodKind.SESSION:
            return self._error(name, header, NOT_RECORDED, f"{name}: too long for a replay of {self._path}")
        if header.name not in ALLOWED:
            return self._refused(name, header, row.kind)
        place, exact = self._recorded.find(header.name, message[header.body :]) if call.complete else (None, False)
        if place is None:
            return self._error(name, header, NOT_RECORDED, self._what_is_missing(name, header.name))
        try:
            return Serve(self._reply(header, place), name, reason="" if exact else OTHER_LIST)
        except CacheError as error:
            return self._error(name, header, NOT_RECORDED, f"{name}: {error}")

    def _reply(self, header: Header, place: ResultPlace) -> bytes | Iterator[bytes]:
        head = message_header(header.name, place.type, header.seqid)
        if place.size > SLICE_BYTES:
            return self._slices(head, place)
        return head + self._read(place.at, place.size)

    def _slices(self, head: bytes, place: ResultPlace) -> Iterator[bytes]:
        yield head
        end = place.at + place.size
        for at in range(place.at, end, SLICE_BYTES):
            yield self._read(at, min(SLICE_BYTES, end - at))

    def _read(self, at: int, size: int) -> bytes:
        data = self._recorded.file.read(size, at)
        if len(data) < size:
            raise CacheError(f"the recording {self._path} became shorter during the replay: restart the proxy")
        return data

    def _what_is_missing(self, name: str, method: bytes) -> str:
        others = self._recorded.methods[method]
        held = f"it holds {others} with other arguments" if others else f"it holds no call of {name}"
        return (
            f"{name}: the recording {self._path} does not hold this call ({held}). Record it: run the client against"
            f" hms-cache-proxy serve --record {self._path} with the metastore as upstream, then replay again"
        )

    def _refused(self, name: str, header: Header, kind: MethodKind) -> Serve:
        if kind in _CHANGE:
            why = "it would change something, and a replay is read-only"
        else:
            why = "such calls are never recorded"
        return self._error(name, header, READ_ONLY, f"{name} is refused: this is a replay of {self._path}; {why}")

    def _error(self, name: str, header: Header, reason: str, text: str) -> Serve:
        return Serve(refusal(name, header, text), name, "error", reason)


def _agreement(name: str, header: Header, message: bytes) -> bytes:
    """The reply to a successful session call: set_ugi returns the groups of its request, as in a metastore."""
    try:
        return agreement(name, header, message)
    except WireError:
        return message_header(header.name, MessageType.REPLY, header.seqid) + spec.encode(spec.result(name)(success=[]))
