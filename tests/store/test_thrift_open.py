"""A store over Thrift is opened while metastores are down: the next is tried, and the follower shows that it lives."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.thrift.store import open_thrift_store

SHORT_S = 0.2


@pytest.fixture
def deaf() -> Iterator[list[tuple[str, int]]]:
    """Two addresses where connections are accepted, and nothing is answered."""
    with ExitStack() as opened:
        listeners = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        yield [listener.getsockname() for listener in listeners]


@pytest.fixture
def unreachable() -> Iterator[tuple[str, int]]:
    """An address that accepts no connection and refuses none, as one whose machine is off: its queue is full."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def test_each_metastore_that_gives_no_answer_is_a_sign_of_life(deaf: list[tuple[str, int]]) -> None:
    """A follower that waited for two of three was taken for one that hangs, and its successor began with the same two:
    the third one was never tried."""
    signs: list[str] = []
    with pytest.raises(StoreError, match="timed out"):
        open_thrift_store(deaf, timeout_s=SHORT_S, answered=lambda: signs.append("alive"))
    assert len(signs) == len(deaf)


def test_a_machine_that_is_off_does_not_take_the_time_of_a_call(unreachable: tuple[str, int]) -> None:
    with pytest.raises(StoreError, match="timed out"):
        open_thrift_store([unreachable], timeout_s=3600, connect_timeout_s=SHORT_S)
