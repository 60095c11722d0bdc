"""`authorization = "learned"` while the cache cannot be read, as before there is one: the metastore answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Forward
from hms_cache_proxy.wire.message import Header, parse_header
from tests.methods.warm import opened
from tests.testbed.raw import encode_call


@pytest.mark.parametrize(
    "message",
    [
        encode_call("get_all_databases"),
        encode_call("get_databases", "*"),
        encode_call("get_database", "sales"),
        encode_call("get_all_tables", "sales"),
        encode_call("get_table", "sales", "orders"),
        encode_call("get_all_functions"),
    ],
    ids=lambda message: message[8 : 8 + message[7]].decode(),
)
def test_the_metastore_is_asked(message: bytes, tmp_path: Path) -> None:
    header = parse_header(message)
    assert isinstance(header, Header)
    with opened(tmp_path, authorization="learned") as bench:
        bench.page[Slot.CACHE_FILE] = 0
        decision = bench.dispatcher.decide(ClientCall.of(ClientSession(), header, message, time.monotonic_ns()))
    assert isinstance(decision, Forward) and decision.reason == "cache", decision
