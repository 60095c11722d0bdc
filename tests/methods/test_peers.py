"""What other proxies are told of calls, and when: before a write leaves, and before some replies are passed on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hive_metastore.ttypes import CheckLockRequest, LockComponent, LockLevel, LockRequest, LockType

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.consistency.notes import Note, NoteKind, notes_after
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward
from hms_cache_proxy.peers.requests import PeerAsk, PeerRequest
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import (
    ApplicationError,
    Header,
    MessageType,
    exception_message,
    message_header,
    parse_header,
)
from tests.cache.records import DATABASE, TABLE
from tests.methods.warm import Bench, Listening, opened
from tests.testbed.raw import encode_call

DROP = encode_call("drop_table", DATABASE[1].decode(), TABLE[2].decode(), True)
LOCKED = targets.table(*TABLE)


class Fleet:
    """The other proxies: notes what it is told, and which writes leave without a word of the process."""

    def __init__(self) -> None:
        self.told: list[PeerRequest] = []
        self.untold: set[int] = set()

    def tell(self, request: PeerRequest) -> None:
        self.told.append(request)

    def alone(self, number: int) -> bool:
        return number in self.untold


class Told:
    """A worker with peers, and what it has told them without asking."""

    def __init__(self, bench: Bench, fleet: Fleet) -> None:
        self.bench = bench
        self.told = fleet.told
        self.untold = fleet.untold
        bench.page[Slot.PEERS_SETTLED] = 1

    def forward(self, message: bytes) -> Forward:
        header = parse_header(message)
        assert isinstance(header, Header)
        forward = self.bench.dispatcher.decide(ClientCall.of(ClientSession(), header, message, time.monotonic_ns()))
        assert isinstance(forward, Forward)
        return forward

    def answered(self, forward: Forward, reply: bytes) -> PeerRequest | None:
        """What other proxies must know before the reply is passed on."""
        session = ClientSession()
        forward.pending.sending()
        forward.pending.reply_began(session, time.monotonic_ns())
        forward.pending.reply_done(session, reply, time.monotonic_ns())
        return session.passing

    def notes(self) -> list[Note]:
        """What is noted for other proxies."""
        with self.bench.fences._reading() as txn:
            return [note for _, note in notes_after(txn, 0)]

    def noted(self, asked: PeerRequest | None) -> Note:
        """The note that a question is about."""
        assert asked is not None and asked.kind is PeerAsk.NOTED
        with self.bench.fences._reading() as txn:
            return dict(notes_after(txn, 0))[asked.number]

    def call(self, message: bytes, method: str, **values: object) -> PeerRequest | None:
        result = spec.encode(spec.result(method)(**values))
        return self.answered(self.forward(message), message_header(method.encode(), MessageType.REPLY, 0) + result)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Told]:
    fleet = Fleet()
    with opened(tmp_path, Listening(fleet), peers="127.0.0.1:1", peer_listen="127.0.0.1:1") as bench:
        yield Told(bench, fleet)


def test_a_write(worker: Told) -> None:
    forward = worker.forward(DROP)
    asked = forward.pending.leaving()
    assert asked is not None and asked.kind is PeerAsk.WRITE and LOCKED in asked.targets
    assert worker.bench.fences.standing() == {asked.number: "infinite"}, "it is fenced here before others are told"
    empty = message_header(b"drop_table", MessageType.REPLY, 0) + b"\0"
    assert worker.answered(forward, empty) is None, "nobody is waited for after that"
    assert worker.told == [PeerRequest(PeerAsk.OVER, asked.number)]
    assert list(worker.bench.fences.standing().values()) == ["finite"], "before others are told"


def test_a_write_of_a_young_proxy(worker: Told) -> None:
    """Its reply waits until everybody requires its lease."""
    worker.bench.page[Slot.PEERS_SETTLED] = 0
    forward = worker.forward(DROP)
    forward.pending.leaving()
    empty = message_header(b"drop_table", MessageType.REPLY, 0) + b"\0"
    assert worker.answered(forward, empty) == PeerRequest(PeerAsk.PASS)


def test_a_write_that_is_not_executed(worker: Told) -> None:
    """Nobody need reload anything."""
    forward = worker.forward(DROP)
    asked = forward.pending.leaving()
    assert asked is not None
    unknown = exception_message(b"drop_table", 0, ApplicationError.UNKNOWN_METHOD, "Invalid method name: 'drop_table'")
    worker.answered(forward, unknown)
    again = worker.forward(DROP)
    other = again.pending.leaving()
    assert other is not None
    again.pending.failed(False)
    assert worker.told == [PeerRequest(PeerAsk.CANCELLED, one.number) for one in (asked, other)]


def test_a_write_that_has_left_without_a_word_of_the_process(worker: Told) -> None:
    """Once it is over its fence is not told of any more: a note is, before the next lease."""
    forward = worker.forward(DROP)
    asked = forward.pending.leaving()
    assert asked is not None
    worker.untold.add(asked.number)
    worker.answered(forward, message_header(b"drop_table", MessageType.REPLY, 0) + b"\0")
    assert worker.notes() == [Note(NoteKind.MISSED, asked.targets)]
    assert list(worker.bench.fences.standing().values()) == ["finite"]
    assert worker.told == [PeerRequest(PeerAsk.OVER, asked.number)]


def test_a_write_that_was_recorded_only_after_it_had_left(worker: Told) -> None:
    """As on a full disk. Peers get leases again as soon as it is recorded. If its reply comes before the next lease,
    its fence is not told of any more: a note is."""
    bench = worker.bench
    bench.page[Slot.FENCES_FILE] += 1
    forward = worker.forward(DROP)
    asked = forward.pending.leaving()
    assert asked is not None and not asked.recorded and bench.page[Slot.UNFENCED] & 1
    bench.page[Slot.FENCES_FILE] -= 1
    bench.dispatcher.settle()
    assert not bench.page[Slot.UNFENCED] & 1
    assert list(bench.fences.standing().values()) == ["infinite"]
    worker.answered(forward, message_header(b"drop_table", MessageType.REPLY, 0) + b"\0")
    assert worker.notes() == [Note(NoteKind.MISSED, asked.targets)]
    assert list(bench.fences.standing().values()) == ["finite"]


def test_a_write_of_unknown_outcome_is_not_over(worker: Told) -> None:
    forward = worker.forward(DROP)
    forward.pending.leaving()
    forward.pending.sending()
    forward.pending.failed(True)
    assert worker.told == []


def test_a_granted_lock(worker: Told) -> None:
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, DATABASE[1].decode(), TABLE[2].decode())
    message = encode_call("lock", LockRequest([component], user="u", hostname="h"))
    waiting = spec.struct("LockResponse")(lockid=5, state=2)
    assert worker.call(message, "lock", success=waiting) is None
    assert [(one.kind, one.number) for one in worker.told] == [(PeerAsk.LOCKED, 5)]
    granted = spec.struct("LockResponse")(lockid=5, state=1)
    for asked in (
        worker.call(message, "lock", success=granted),
        worker.call(encode_call("check_lock", CheckLockRequest(5)), "check_lock", success=granted),
    ):
        note = worker.noted(asked)
        assert note.kind is NoteKind.OWED and LOCKED in note.targets
    unknown = worker.call(encode_call("check_lock", CheckLockRequest(6)), "check_lock", success=granted)
    assert worker.noted(unknown) == Note(NoteKind.OWED, (targets.ALL,))


def test_an_event_id(worker: Told) -> None:
    current = spec.struct("CurrentNotificationEventId")(eventId=17)
    message = encode_call("get_current_notificationEventId")
    asked = worker.call(message, "get_current_notificationEventId", success=current)
    assert worker.noted(asked) == Note(NoteKind.EVENT, event=17)
    assert worker.call(message, "get_current_notificationEventId", success=current) == asked, "it is noted once"
    later = spec.struct("CurrentNotificationEventId")(eventId=18)
    assert worker.call(message, "get_current_notificationEventId", success=later) == PeerRequest(PeerAsk.NOTED, 2)


def test_what_cannot_be_noted(worker: Told) -> None:
    """Peers get no leases until they have been told of it."""
    bench = worker.bench
    bench.page[Slot.FENCES_FILE] += 1
    component = LockComponent(LockType.EXCLUSIVE, LockLevel.TABLE, DATABASE[1].decode(), TABLE[2].decode())
    message = encode_call("lock", LockRequest([component], user="u", hostname="h"))
    granted = spec.struct("LockResponse")(lockid=5, state=1)
    asked = worker.call(message, "lock", success=granted)
    assert asked == PeerRequest(PeerAsk.NOTED) and not asked.recorded
    assert bench.page[Slot.UNFENCED] & 1
    bench.page[Slot.FENCES_FILE] -= 1
    bench.dispatcher.settle()
    assert not bench.page[Slot.UNFENCED] & 1
    (note,) = worker.notes()
    assert note.kind is NoteKind.MISSED and LOCKED in note.targets


def test_without_peers_nothing_is_asked(tmp_path: Path) -> None:
    with opened(tmp_path) as bench:
        header = parse_header(DROP)
        assert isinstance(header, Header)
        forward = bench.dispatcher.decide(ClientCall.of(ClientSession(), header, DROP, time.monotonic_ns()))
        assert isinstance(forward, Forward)
        assert forward.pending.leaving() is None
        assert bench.fences.standing() == {}, "the fence is raised when it leaves"
