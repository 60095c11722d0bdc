"""Mutated and random bytes at the port of a running proxy: no process dies, and no other connection notices."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hive_metastore.ttypes import GetTableRequest

from tests.chance import chance
from tests.lengths import by_tier
from tests.ops.attacks import attack
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, encode_call

ATTACKS = int(os.environ.get("FUZZ_ATTACKS", by_tier(test=250, all=1500, every=1500)))


class Neighbour(threading.Thread):
    """One connection that asks the same all the time: nobody else's bytes, no close, no other answer."""

    def __init__(self, proxy: Proxy, request: bytes, *, framed: bool) -> None:
        super().__init__(daemon=True)
        self._connection = RawConnection(*proxy.address, framed=framed, timeout_s=60)
        self._request = request
        self._expected = self._connection.call(request)
        self._ending = threading.Event()
        self.answers = 0
        self.trouble: str | None = None

    def run(self) -> None:
        try:
            while not self._ending.is_set() and self.trouble is None:
                answer = self._connection.call(self._request)
                self.answers += 1
                if answer != self._expected:
                    self.trouble = f"after {self.answers} answers: {answer!r:.300}, not {self._expected!r:.300}"
                self._ending.wait(0.005)
        except (OSError, ValueError) as error:
            self.trouble = f"after {self.answers} answers: {error!r}"

    def end(self) -> None:
        self._ending.set()
        self.join(60)
        self._connection.close()


@contextmanager
def neighbours(proxy: Proxy, requests: list[bytes]) -> Iterator[list[Neighbour]]:
    found = [Neighbour(proxy, request, framed=framed) for request in requests for framed in (False, True)]
    for one in found:
        one.start()
    yield found
    for one in found:
        one.end()


@pytest.mark.real
def test_no_worker_dies_and_no_neighbour_notices(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]
) -> None:
    metastore = new_metastore()
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, "calm")
        table = objects.create_table(client, objects.table("calm", "t", partition_keys=[("p", "string")]))
        objects.add_partitions(client, table, [[str(number)] for number in range(20)])
    # One worker: all connections are in one process. A mutated write of which nobody knows how it ended is fenced for
    # the request time.
    proxy = new_proxy(metastore, settings={"UPSTREAM_OPTIONS_REQUEST_TIMEOUT_S": "20"})
    processes = proxy.children()
    requests = [
        encode_call("get_table_req", GetTableRequest(dbName="calm", tblName="t"), seqid=11),
        encode_call("get_partition_names", "calm", "t", -1, seqid=12),
        encode_call("get_config_value", "metastore.no.such", "relayed", seqid=13),
    ]
    rng = chance("attacks")
    with neighbours(proxy, requests) as watching:
        for number in range(ATTACKS):
            with RawConnection(*proxy.address, timeout_s=30) as connection:
                try:
                    connection.send_bytes(attack(rng))
                    if rng.random() < 0.7:
                        connection.shutdown_write()
                        connection.drain()
                except ConnectionError:
                    pass  # closed before all of it was sent
            troubles = [one.trouble for one in watching if one.trouble]
            assert not troubles, (number, troubles, proxy.log_tail())
        assert wait_until(lambda: all(one.answers > 50 or one.trouble for one in watching)), proxy.peek()
    troubles = [one.trouble for one in watching if one.trouble]
    assert not troubles, (troubles, proxy.log_tail())
    assert proxy.children() == processes
    status = proxy.status()
    assert status["workers"]["restarts"] == status["follower"]["restarts"] == 0
    assert wait_until(lambda: metric(proxy, "hms_proxy_connections ") == 0)
    assert metric(proxy, "hms_proxy_internal_errors_total") == 0, proxy.log_tail()
    hits_before = hits(proxy.requests())
    with RawConnection(*proxy.address, timeout_s=30) as connection:

        def served() -> bool:
            for _ in range(11):
                connection.call(requests[0])
            return hits(proxy.told_requests()) > hits_before + 10

        assert wait_until(served), proxy.requests()


def hits(requests: dict[tuple[str, str, str], float]) -> float:
    """Of the cached read."""
    return sum(n for (method, how, _), n in requests.items() if (method, how) == ("get_table_req", "hit"))


def metric(proxy: Proxy, begin: str) -> float:
    """The sum of the lines that begin so."""
    lines = [line for line in proxy.get("/metrics")[1].splitlines() if line.startswith(begin)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
