"""Which calls are sent again when the metastore died before it replied: the same in every mode."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward
from hms_cache_proxy.methods.relay import RelayDispatcher
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.wire.message import Header, parse_header
from tests.methods import warm
from tests.methods.oracle import request
from tests.ttl import bench as ttl

READS = (
    "fetch_partition_names_req isPartitionMarkedForEvent get_next_notification get_open_txns get_valid_write_ids "
    "get_role_names show_locks getStatus"
)
"""Of each kind that has some. What they are called says nothing about them."""

CHANGES = (
    "get_lock_materialization_rebuild get_delegation_token scheduled_query_poll heartbeat open_txns commit_txn "
    "create_table create_resource_plan lock check_lock unlock shutdown"
)


@pytest.mark.parametrize(
    ("method", "again"), [(name, True) for name in READS.split()] + [(name, False) for name in CHANGES.split()]
)
def test_reads_are_sent_again_in_every_mode(tmp_path: Path, method: str, again: bool) -> None:
    message = request(method, {})
    header = parse_header(message)
    assert isinstance(header, Header)
    (tmp_path / "ttl").mkdir()
    with warm.opened(tmp_path) as cached, ttl.opened(tmp_path / "ttl") as loading:
        for dispatcher in (RelayDispatcher("no_store"), cached.dispatcher, loading.dispatcher):
            found = dispatcher.decide(ClientCall.of(ClientSession(), header, message, time.monotonic_ns()))
            assert isinstance(found, Forward) and found.retry == again, type(dispatcher)


def test_no_write_is_sent_again() -> None:
    changing = (MethodKind.WRITE, MethodKind.LOCK, MethodKind.SESSION)
    assert not [name for name, method in METHODS.items() if method.retry and method.kind in changing]
