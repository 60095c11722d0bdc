"""Clients that do not read: the worker's memory has a bound, those who read notice nothing."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

from tests.server.conftest import Worker
from tests.server.scripted import STOP, Call, ScriptedMetastore
from tests.testbed.processes import wait_until
from tests.testbed.raw import encode_call

MEGABYTE = 1 << 20
VERSION = encode_call("getVersion", seqid=4)
TABLE = encode_call("get_table", "d", "t", seqid=5)


def large(message: bytes, call: Call) -> Iterator[bytes]:
    """More than the buffers of the kernel take."""
    yield call.header() + struct.pack(">Bhi", 11, 0, 20 * MEGABYTE)
    for _ in range(20):
        yield b"x" * MEGABYTE
    yield STOP


def test_who_does_not_read_is_closed_when_memory_is_used_up(
    scripted: ScriptedMetastore, new_worker: Callable[..., Worker]
) -> None:
    worker = new_worker(scripted.address, limits={"memory_bytes": MEGABYTE})
    scripted.answers["get_table"] = large
    with worker.raw() as first:
        expected = first.call(TABLE)
        stuck = [worker.raw() for _ in range(10)]
        for connection in stuck:
            connection.send(TABLE)
        assert worker.counted(2, "hms_proxy_limits_broken_total", limit="memory_bytes")
        assert wait_until(lambda: worker.metric("hms_proxy_budget_bytes", budget="memory_bytes") <= MEGABYTE)
        began = time.monotonic()
        assert first.call(TABLE) == expected
        assert first.call(VERSION) and time.monotonic() - began < 30
    assert worker.logged("it does not read")
    assert worker.metric("hms_proxy_budget_limit_bytes", budget="memory_bytes") == MEGABYTE
    for connection in stuck:
        connection.close()
    assert wait_until(lambda: worker.metric("hms_proxy_budget_bytes", budget="memory_bytes") == 0)
