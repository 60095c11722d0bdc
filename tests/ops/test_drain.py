"""SIGTERM with many calls in flight on many connections: each is answered, and then the proxy ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hive_metastore.ttypes import Database

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import RawConnection, encode_call
from tests.testbed.untyped import decode_message

CONNECTIONS = 40
PIPELINED = 6  # calls that every second connection has sent, one behind the other
WRITERS = 5


def calls(number: int, prefix: str) -> list[bytes]:
    """What one connection has sent when the signal comes: a write first on some of them."""
    count = PIPELINED if number % 2 else 1
    reads = [encode_call("get_database", "default", seqid=seqid) for seqid in range(count)]
    if number >= WRITERS:
        return reads
    return [encode_call("create_database", Database(name=f"{prefix}_{number}"), seqid=100), *reads]


@pytest.mark.real
def test_calls_in_flight_and_behind_them_are_answered(
    new_proxy: Callable[..., Proxy],
    hms42: Metastore,
    fault_proxy: Callable[[str, int], FaultProxy],
    unique_name: str,
) -> None:
    slow = fault_proxy(*hms42.address)
    settings = {"STORE": "none", "WORKERS": "2", "DRAIN_TIMEOUT_S": "150"}
    proxy = new_proxy(hms42, upstream=f"thrift://127.0.0.1:{slow.port}", settings=settings, prewarmed=False)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(RawConnection(*proxy.address, framed=number % 3 == 0)) for number in range(CONNECTIONS)
        ]
        for connection in connections:
            connection.call(encode_call("getVersion"))  # each has its own connection to the metastore
        slow.stall()
        before, taken = slow.bytes_passed.copy(), slow.bytes_taken[Direction.UP]
        sent = [calls(number, unique_name) for number in range(CONNECTIONS)]
        for connection, messages in zip(connections, sent, strict=True):
            for message in messages:
                connection.send(message)
        with MetastoreClient(*hms42.address) as direct:
            assert direct.get_databases(unique_name + "*") == []
        first = sum(len(messages[0]) for messages in sent)
        assert wait_until(lambda: slow.bytes_taken[Direction.UP] == taken + first), "one call of each has left"
        assert slow.bytes_passed == before, "none of them has reached the metastore"
        assert proxy.process is not None
        proxy.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: proxy.get("/readyz") == (503, "draining\n"))
        assert wait_until(lambda: refused(proxy))
        slow.restore()
        for connection, messages in zip(connections, sent, strict=True):
            for message in messages:
                asked, answered = decode_message(message), decode_message(connection.receive())
                assert (answered.method, answered.seqid, answered.type) == (asked.method, asked.seqid, 2)
                assert answered.fields.keys() <= {0}, answered
            assert connection.at_end() and not connection._buffer
    assert proxy.process.wait(SOON_S) == 0, proxy.log_tail()
    with MetastoreClient(*hms42.address) as direct:
        assert direct.get_databases(unique_name + "*") == [f"{unique_name}_{number}" for number in range(WRITERS)]
    assert "closed at the end of the drain time" not in proxy.log.read_text()


def refused(proxy: Proxy) -> bool:
    """Is a new client turned away?"""
    try:
        with RawConnection(*proxy.address, timeout_s=SOON_S) as connection:
            return connection.at_end()
    except ConnectionError:
        return True
