"""What the examination of the metastores finds counts from one moment on, for everything that is decided by it."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.follower import examiner as module
from hms_cache_proxy.follower.checks import Examination
from hms_cache_proxy.follower.examiner import Examiner
from hms_cache_proxy.follower.runner import WakeListener
from hms_cache_proxy.upstream.checks import examine
from hms_cache_proxy.upstream.service import ServiceConnection
from tests.server.scripted import STOP, ScriptedMetastore, string_field
from tests.testbed.processes import SOON_S

NO_TEXT = b"\x0f\0\1\x0b\0\0\0\1\0\0\0\1\xff" + STOP  # a list of strings for the message
ODD = (STOP, string_field(0, b"\xff\xfe") + STOP, b"\x0c\0\0" + STOP + STOP, b"\x0c\0\1\x0f\0\1\x08\0\0\0\0" + STOP * 2)
ASKED = ("getVersion", "get_current_notificationEventId", "get_metastore_db_uuid", "get_config_value")


def test_a_verdict_counts_once_it_is_taken() -> None:
    """Else the follower could serve by a verdict whose word on the metastores' settings it has not passed on yet."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nobody listens there
        told = threading.Event()
        examiner = Examiner(load(cli={"upstream": f"thrift://127.0.0.1:{port}"}), told.set)
        examiner.database_uuid("of some database")
        examiner.ensure()
        assert told.wait(30) and examiner.verdict is None
        taken = examiner.take()
        assert taken is not None
        assert examiner.verdict is taken and taken.unreachable
        assert examiner.take() is None
        examiner.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_does_not_end_the_examinations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a verdict nothing is served from the cache."""
    monkeypatch.setattr(module, "RETRY_INTERVAL_S", 0.01)
    told = threading.Event()
    examiner = Examiner(load(cli={"upstream": "thrift://127.0.0.1:1"}), told.set)
    with monkeypatch.context() as broken:
        broken.setattr(Examination, "examine", lambda *_: 1 // 0)
        examiner.database_uuid("of some database")
        examiner.ensure()
        assert examiner._thread is not None
        examiner._thread.join(SOON_S)
    examiner.ensure()
    assert told.wait(SOON_S)
    assert examiner.take() is not None
    examiner.stop()


@pytest.mark.parametrize(("method", "result"), [(name, body) for name in ASKED for body in ODD])
def test_odd_answers_of_a_metastore(method: str, result: bytes) -> None:
    """They are failures of that metastore, or say nothing; they do not end the thread that asks."""
    with ScriptedMetastore() as scripted:
        scripted.answers[method] = lambda _, call: iter([call.reply(result)])
        with ServiceConnection(*scripted.address, timeout_s=SOON_S) as connection:
            try:
                assert examine(connection).uri == connection.uri
            except UpstreamError as error:
                assert method in str(error)


def test_an_exception_that_cannot_be_understood() -> None:
    with ScriptedMetastore() as scripted:
        scripted.answers["getVersion"] = lambda _, call: iter([call.reply(NO_TEXT, kind=3)])
        with ServiceConnection(*scripted.address, timeout_s=SOON_S) as connection:
            with pytest.raises(UpstreamError, match="getVersion"):
                connection.call("getVersion")


@pytest.fixture
def wakes(tmp_path: Path) -> Iterator[WakeListener]:
    """It takes SIGTERM for itself, as it does in a follower's process."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with WakeListener(load(cli={"data_dir": str(tmp_path)})) as made:
            yield made
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_verdict_ends_the_pause(wakes: WakeListener) -> None:
    """The first one is what a follower waits for before it reads anything."""
    assert not wakes.wait(0.0)
    ringing = threading.Thread(target=wakes.ring)
    ringing.start()
    assert wakes.wait(30.0)
    ringing.join()
    assert not wakes.wait(0.0)
