"""What gets into a recording, and what does not: connection logic with a recorder before its dispatcher. No sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.methods.decision import ClientSession, Forward, Serve, Work
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.recording.allowed import ALLOWED, ALSO_ALLOWED
from hms_cache_proxy.recording.file import RecordingFile
from hms_cache_proxy.recording.format import Record
from hms_cache_proxy.recording.recorder import HOLD_BYTES, Recorder
from hms_cache_proxy.recording.writer import Writer
from hms_cache_proxy.wire.message import Header, parse_header
from tests.recording.test_file import content
from tests.server import playbook
from tests.server.playbook import RELAY, Playbook, exception, framed, reply_to, sent
from tests.testbed.raw import encode_call

READ = encode_call("get_table", "d", "t", seqid=5)
REPLY = reply_to(READ)


class Recording:
    """A connection whose dispatcher is recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        file, _ = RecordingFile.begin(str(path), now_ms=1, until_ms=0)
        file.close()
        self.writer = Writer(str(path), 1 << 30, WorkerMetrics())
        self.book = Playbook()
        self.inner = self.book.dispatcher
        self.recorder = Recorder(self.inner, self.writer)
        self.book.core._dispatcher = self.recorder

    def records(self) -> list[Record]:
        self.writer.write(self.writer.take())
        return content(self.path)[0]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "r")


def result_of(reply: bytes) -> bytes:
    header = parse_header(reply)
    assert isinstance(header, Header)
    return reply[header.body :]


def test_a_relayed_reply(recording: Recording) -> None:
    book = recording.book
    book.relaying(READ)
    assert sent(book.upstream(REPLY[:20])) == b""
    assert sent(book.upstream(REPLY[20:])) == REPLY
    (record,) = recording.records()
    assert (record.method, record.arguments, record.result) == (b"get_table", result_of(READ), result_of(REPLY))
    assert record.type == 2
    assert ("done", None) in recording.inner.hooks, "the dispatcher is shown what it asked for: nothing"


def test_what_the_dispatcher_asked_for(recording: Recording) -> None:
    recording.inner.decision = Forward("get_table", "miss", hold_bytes=1000, retry=True)
    recording.book.relaying(READ)
    recording.book.upstream(REPLY)
    assert ("done", REPLY) in recording.inner.hooks
    longer = reply_to(READ, size=2000)
    recording.book.relaying(READ)
    assert sent(recording.book.upstream(longer)) == longer
    assert recording.inner.hooks[-1] == ("done", None)
    assert [one.result for one in recording.records()] == [result_of(REPLY), result_of(longer)]


def test_framed(recording: Recording) -> None:
    recording.book.relaying(framed(READ))
    assert sent(recording.book.upstream(REPLY)) == framed(REPLY)
    assert [one.result for one in recording.records()] == [result_of(REPLY)]


@pytest.mark.parametrize(
    "decide",
    [
        lambda: Serve(REPLY, "get_table"),
        lambda: Serve(iter([REPLY[:9], REPLY[9:]]), "get_table"),
        lambda: Work(iter([None, Serve(REPLY, "get_table")]).__next__),
        lambda: Work(iter([None, Serve(iter([REPLY]), "get_table")]).__next__),
    ],
    ids=["whole", "slices", "work", "work and slices"],
)
def test_an_answer_of_the_cache(recording: Recording, decide: Callable[[], Any]) -> None:
    recording.inner.decision = decide()
    answer = sent(recording.book.received(READ))
    for _ in range(4):
        answer += sent(recording.book.core.turn(recording.book.now))
    assert answer == REPLY
    assert [one.result for one in recording.records()] == [result_of(REPLY)]


def test_an_answer_known_by_heart(recording: Recording) -> None:
    recording.recorder._hot = lambda session, data, now_ns: REPLY
    for _ in range(3):
        assert recording.recorder.hot(ClientSession(), READ, 0) == REPLY
    assert [(one.arguments, one.result) for one in recording.records()] == [(result_of(READ), result_of(REPLY))]


def test_what_is_no_result(recording: Recording) -> None:
    book = recording.book
    for reply in (exception(READ, 6, b"broken"), exception(READ, 0, b"?")):
        book.relaying(READ)
        assert sent(book.upstream(reply)) == reply
    book.relaying(READ)
    book.core.upstream_lost("gone", book.now)
    recording.inner.decision = Serve(REPLY, "get_table", "error", "no_write_id")
    assert sent(book.received(READ)) == REPLY
    assert recording.records() == []


def test_that_a_method_is_not_known(recording: Recording) -> None:
    request = encode_call("get_catalogs")
    reply = exception(request, 1, b"Invalid method name")
    recording.book.relaying(request)
    recording.book.upstream(reply)
    (record,) = recording.records()
    assert (record.type, record.result) == (3, result_of(reply))


@pytest.mark.parametrize(
    "request_bytes",
    [
        encode_call("set_ugi", "u", ["g"]),
        encode_call("get_delegation_token", "owner", "k"),
        encode_call("get_token", "identifier"),
        encode_call("get_master_keys"),
        encode_call("get_config_value", "hive.server2.keystore.password", ""),
        encode_call("create_database"),
        encode_call("lock"),
        encode_call("get_next_notification"),
    ],
    ids=lambda data: data[8 : 8 + data[7]].decode(),
)
def test_what_stays_out(recording: Recording, request_bytes: bytes) -> None:
    reply = reply_to(request_bytes)
    recording.book.relaying(request_bytes)
    assert sent(recording.book.upstream(reply)) == reply
    assert recording.records() == []


def test_a_connection_with_settings_of_its_own_stays_out(recording: Recording) -> None:
    request = encode_call("setMetaConf", "metastore.try.direct.sql", "false")
    recording.book.relaying(request)
    recording.book.upstream(reply_to(request))
    recording.book.relaying(READ)
    recording.book.upstream(REPLY)
    assert recording.records() == []


def test_a_result_that_is_too_large(recording: Recording) -> None:
    large = reply_to(READ, size=HOLD_BYTES)
    recording.book.relaying(READ)
    received = b""
    for at in range(0, len(large), 1 << 22):
        received += sent(recording.book.upstream(large[at : at + (1 << 22)]))
    assert received == large and recording.inner.hooks.count(("done", None)) == 1
    recording.inner.decision = Serve(iter([large[: 1 << 20], large[1 << 20 :]]), "get_table")
    recording.book.received(READ)
    recording.book.core.turn(recording.book.now)
    assert recording.records() == []


def test_nothing_is_held_when_it_is_over(recording: Recording) -> None:
    recording.writer.active = False
    recording.book.relaying(READ)
    assert sent(recording.book.upstream(REPLY[:25])) == REPLY[:25]
    assert recording.inner.decision is RELAY and playbook.RELAY.hold_bytes == 0


def test_what_is_allowed() -> None:
    """A list of reads: no kind of call that writes, and no name that speaks of secrets."""
    assert ALSO_ALLOWED <= METHODS.keys()
    kinds = {METHODS[name.decode()].kind for name in ALLOWED}
    assert kinds == {MethodKind.READ, MethodKind.NEUTRAL, MethodKind.TRANSACTION}
    for name in ALLOWED:
        row = METHODS[name.decode()]
        assert not row.rules or row.kind is MethodKind.READ, "what names objects and is no read changes them"
        for word in (b"token", b"key", b"ugi", b"Conf", b"config", b"connector", b"propert", b"user"):
            assert word not in name or name == b"get_primary_keys" or name == b"get_foreign_keys", name
