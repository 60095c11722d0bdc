"""The workers' one listening socket: who gets a new connection, and what becomes of it when processes die or stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.proxy import Proxy
from tests.server.scripted import ScriptedMetastore
from tests.testbed.processes import SOON_S
from tests.testbed.raw import RawConnection, encode_call

WORKERS = 3
STAY = 100
VERSION = encode_call("getVersion", seqid=4)


@contextmanager
def started(directory: Path, **settings: str) -> Iterator[Proxy]:
    """A proxy that relays."""
    with ScriptedMetastore() as metastore:
        upstream = "thrift://{}:{}".format(*metastore.address)
        proxy = Proxy(directory, upstream, settings={"STORE": "none", **settings})
        try:
            yield proxy.start()
        finally:
            proxy.close()


@pytest.fixture(scope="module")
def one_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    limits = {"LIMITS_MAX_CONNECTIONS": str(STAY)}
    with started(tmp_path_factory.mktemp("sockets"), WORKERS=str(WORKERS), **limits) as proxy:
        yield proxy


@pytest.fixture
def proxy(one_proxy: Proxy) -> Proxy:
    """All workers accept, and no connection of another test is left."""
    complete(one_proxy, WORKERS)
    one_proxy.wait(lambda: sum(connections(one_proxy)) == 0, "without connections")
    return one_proxy


def complete(proxy: Proxy, workers: int) -> None:
    proxy.wait(lambda: proxy.status()["workers"]["accepting"] == workers, "complete")


def connections(proxy: Proxy) -> list[int]:
    """Of each worker."""
    found: list[int] = proxy.status()["workers"]["connections"]
    return found


def opened(stack: ExitStack, proxy: Proxy, number: int) -> list[RawConnection]:
    """New connections, on which a call waits for its answer."""
    found = []
    for _ in range(number):
        connection = stack.enter_context(RawConnection(*proxy.address, timeout_s=SOON_S))
        connection.send(VERSION)
        found.append(connection)
    return found


def test_connections_are_spread_and_counted_for_the_whole_proxy(proxy: Proxy) -> None:
    with ExitStack() as stack:
        for connection in opened(stack, proxy, STAY):
            connection.receive()
        share = STAY / WORKERS
        assert sum(connections(proxy)) == STAY
        assert all(0.8 * share <= number <= 1.2 * share for number in connections(proxy)), connections(proxy)
        with RawConnection(*proxy.address) as one_more:
            assert one_more.at_end()


def test_clients_come_and_go_while_the_supervisor_is_stopped(proxy: Proxy) -> None:
    assert proxy.process is not None
    with ExitStack() as stack:
        (before,) = opened(stack, proxy, 1)
        before.receive()
        proxy.process.send_signal(signal.SIGSTOP)
        stack.callback(proxy.process.send_signal, signal.SIGCONT)
        before.call(VERSION)
        for connection in opened(stack, proxy, 10):
            connection.receive()


def test_who_comes_while_no_worker_lives_waits_for_the_next(proxy: Proxy) -> None:
    workers = proxy.children()["worker"]
    with ExitStack() as stack:
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        queued = opened(stack, proxy, 10)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        queued += opened(stack, proxy, 10)
        for connection in queued:
            connection.receive()


def test_a_worker_that_dies_ends_its_own_connections_only(proxy: Proxy) -> None:
    workers = proxy.children()["worker"]
    with ExitStack() as stack:
        clients = opened(stack, proxy, 3 * WORKERS)
        for connection in clients:
            connection.receive()
        counted = connections(proxy)
        assert sum(counted) == len(clients)
        os.kill(workers[0], signal.SIGSTOP)
        queued = opened(stack, proxy, 10)
        os.kill(workers[0], signal.SIGKILL)
        for connection in queued:
            connection.receive()
        ended = 0
        for connection in clients:
            try:
                connection.call(VERSION)
            except (ConnectionError, EOFError):
                ended += 1
        assert ended in counted and ended < len(clients), (ended, counted)


def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    with started(tmp_path / "hung", WORKERS="2", WORKER_HUNG_AFTER_S="3") as proxy, ExitStack() as stack:
        complete(proxy, 2)
        hung = proxy.children()["worker"][0]
        os.kill(hung, signal.SIGSTOP)
        for connection in opened(stack, proxy, 5):
            connection.receive()
        proxy.wait(lambda: hung not in proxy.children()["worker"], "rid of it")
        assert "worker hangs, killing it" in proxy.log.read_text()
        proxy.wait(lambda: proxy.metric("hms_proxy_restarts_total", child="worker") >= 1, "counted")
        complete(proxy, 2)
