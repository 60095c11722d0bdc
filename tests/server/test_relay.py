"""The relay before real metastores: the same bytes as straight from them, whatever the client does."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Iterator

import pytest
from hive_metastore.ttypes import GetTableRequest, GetTablesRequest

from tests.lengths import by_tier
from tests.server.conftest import Worker
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, encode_call

pytestmark = pytest.mark.real
MEGABYTE = 1 << 20
PARTS = int(by_tier(test=2, all=5, every=5))
"""Of a large reply: tables of 21 MB each."""


@pytest.fixture
def database(hms42: Metastore, unique_name: str) -> str:
    """A database with a partitioned table `t`."""
    with MetastoreClient(*hms42.address) as client:
        objects.create_database(client, unique_name)
        table = objects.create_table(client, objects.table(unique_name, "t", partition_keys=[("dt", "string")]))
        objects.add_partitions(client, table, [[f"2024-01-{day:02}"] for day in range(1, 29)])
    return unique_name


def calls(database: str) -> list[bytes]:
    """Calls of many shapes: found, not found, void, declared and undeclared exceptions, unknown methods."""
    request = GetTableRequest(dbName=database, tblName="t")
    return [
        encode_call("getVersion", seqid=1),
        encode_call("get_all_databases", seqid=2),
        encode_call("get_database", database, seqid=3),
        encode_call("get_database", "no_such_database", seqid=4),
        encode_call("get_table_req", request, seqid=5),
        encode_call("get_table_objects_by_name_req", GetTablesRequest(database, ["t"]), seqid=6),
        encode_call("get_partitions", database, "t", -1, seqid=7),
        encode_call("get_partition_names", database, "t", 5, seqid=8),
        encode_call("get_partitions_by_filter", database, "t", 'dt > "2024-01-20"', -1, seqid=9),
        encode_call("get_partitions_by_filter", database, "t", "dt >", -1, seqid=10),
        encode_call("get_fields", database, "t", seqid=11),
        encode_call("get_config_value", "metastore.filter.hook", "", seqid=12),
        encode_call("partition_name_to_spec", "dt=2024-01-01/hr=3", seqid=-1),
        encode_call("set_ugi", "somebody", ["a group", "another"], seqid=2**31 - 1),
        message("no_such_method_at_all", struct.pack(">Bhi", 8, 1, 7) + b"\0", seqid=15),
        message("get_all_databases", struct.pack(">Bhi", 8, 99, 7) + b"\0", seqid=16),
        message("no_such", b"\0", seqid=17).replace(b"su", b"\xbc\xe6"),
    ]


def message(name: str, body: bytes, *, seqid: int = 0, kind: int = 1) -> bytes:
    """A message of any method."""
    return struct.pack(">HBBi", 0x8001, 0, kind, len(name)) + name.encode() + struct.pack(">i", seqid) + body


def direct(metastore: Metastore, requests: list[bytes]) -> list[bytes]:
    """What the metastore itself says."""
    with RawConnection(*metastore.address) as connection:
        return [connection.call(request) for request in requests]


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_replies_are_the_metastores_bytes(own_relay: Worker, hms42: Metastore, database: str, framed: bool) -> None:
    requests = calls(database)
    expected = direct(hms42, requests)
    with own_relay.raw(framed=framed) as connection:
        assert [connection.call(request) for request in requests] == expected
    assert own_relay.counted(1, "hms_proxy_requests_total", method="other", outcome="relay")
    assert own_relay.counted(1, "hms_proxy_requests_total", method="get_partitions", outcome="relay")


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_requests_in_pieces_of_one_byte(relay: Worker, hms42: Metastore, database: str, framed: bool) -> None:
    requests = calls(database)[:6]
    expected = direct(hms42, requests)
    with relay.raw(framed=framed) as connection:
        for request, reply in zip(requests, expected, strict=True):
            wire = struct.pack(">I", len(request)) + request if framed else request
            for byte in wire:
                connection.send_bytes(bytes([byte]))
            assert connection.receive() == reply


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_many_requests_in_one_packet_are_answered_in_order(
    relay: Worker, hms42: Metastore, database: str, framed: bool
) -> None:
    requests = [one for one in calls(database) if b"set_ugi" not in one] * 8  # a second set_ugi is refused
    expected = direct(hms42, requests)
    with relay.raw(framed=framed) as connection:
        connection.send_bytes(b"".join(struct.pack(">I", len(one)) + one if framed else one for one in requests))
        assert [connection.receive() for _ in requests] == expected


def test_a_half_closed_client_gets_its_replies(relay: Worker, hms42: Metastore, database: str) -> None:
    requests = calls(database)
    expected = direct(hms42, requests)
    with relay.raw() as connection:
        connection.send_bytes(b"".join(requests))
        connection.socket.shutdown(socket.SHUT_WR)
        assert [connection.receive() for _ in requests] == expected
        assert connection.at_end()


def version_reply(metastore: Metastore, seqid: int) -> bytes:
    """The metastore's answer to getVersion."""
    return direct(metastore, [encode_call("getVersion", seqid=seqid)])[0]


def test_a_oneway_call_has_no_reply_and_the_next_call_has(relay: Worker, hms42: Metastore) -> None:
    with relay.raw() as connection:
        for seqid in range(3):
            version = encode_call("getVersion", seqid=seqid)
            connection.send_bytes(encode_call("shutdown", seqid=7, oneway=True) + version)
            assert connection.receive() == version_reply(hms42, seqid)
        connection.send_bytes(message("no_such_oneway", b"\0", kind=4))
        assert connection.call(encode_call("getVersion", seqid=9)) == version_reply(hms42, 9)


def test_a_oneway_goodbye_opens_no_upstream_connection(own_relay: Worker) -> None:
    with own_relay.raw() as connection:
        connection.send(encode_call("shutdown", oneway=True))
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.at_end()
    assert own_relay.counted(1, "hms_proxy_requests_total", method="shutdown")
    assert own_relay.metric("hms_proxy_upstream_connections") == 0


def test_no_upstream_connection_before_the_first_need(own_relay: Worker) -> None:
    with own_relay.raw() as connection:
        assert own_relay.counted(1, "hms_proxy_accepted_total")
        assert own_relay.metric("hms_proxy_upstream_connections") == 0
        connection.call(encode_call("getVersion"))
        assert own_relay.counted(1, "hms_proxy_upstream_connections")
    assert wait_zero(own_relay, "hms_proxy_upstream_connections")


def wait_zero(worker: Worker, name: str) -> bool:
    """Does the gauge fall to zero soon?"""
    return wait_until(lambda: worker.metric(name) == 0)


@pytest.fixture(scope="module")
def large(bed: Bed) -> Iterator[tuple[bytes, bytes]]:
    """A request and its large reply; the tables go with the module: what is huge slows every later follower."""
    name, metastore = f"large_{uuid.uuid4().hex[:8]}", bed.shared("hive42")
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, name)
        for number in range(PARTS):
            client.create_table(
                objects.table(name, f"t{number}", parameters={"big": chr(97 + number) * (21 * MEGABYTE)})
            )
    tables = GetTablesRequest(name, [f"t{number}" for number in range(PARTS)])
    request = encode_call("get_table_objects_by_name_req", tables, seqid=3)
    (expected,) = direct(metastore, [request])
    assert len(expected) > 20 * PARTS * MEGABYTE
    yield request, expected
    with MetastoreClient(*metastore.address) as client:
        client.drop_database(name, False, True)


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_a_large_reply_to_a_slow_client_stays_out_of_memory(
    own_relay: Worker, large: tuple[bytes, bytes], framed: bool
) -> None:
    request, expected = large
    with own_relay.raw(framed=framed, timeout_s=120) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.call(encode_call("getVersion"))
        before = own_relay.memory_bytes()
        connection.send(request)
        time.sleep(2)  # the client takes nothing: the reply has to wait somewhere
        assert own_relay.memory_bytes() - before < 16 * MEGABYTE
        assert connection.receive() == expected
        assert own_relay.memory_bytes("VmHWM") - before < 24 * MEGABYTE
