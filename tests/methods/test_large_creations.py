"""A table with many columns is created with the capabilities that `bridge.capabilities` gives, as any other."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hms_cache_proxy.methods import large_requests
from hms_cache_proxy.methods.capabilities import CapableDispatcher
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Work
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE
from tests.methods.oracle import request
from tests.methods.structs import descriptor, struct
from tests.methods.warm import opened


@pytest.mark.parametrize("relocates", [False, True])
def test_a_call_that_is_read_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relocates: bool) -> None:
    """On a busy machine, each call of more than a few kilobytes may be."""
    monkeypatch.setattr(large_requests, "SLICE_NS", 0)
    columns = [struct("FieldSchema", name=b"column_%d" % number, type=b"string") for number in range(500)]
    sd = descriptor(cols=columns, location=b"file:/warehouse/wide")
    parameters = {b"transactional": b"true"}
    table = {"dbName": DATABASE[1], "tableName": b"wide", "tableType": b"MANAGED_TABLE", "parameters": parameters}
    message = request("create_table", {"tbl": struct("Table", sd=sd, **table)})
    header = parse_header(message)
    assert isinstance(header, Header) and len(message) > large_requests.WHOLE_BYTES
    with opened(tmp_path) as bench:
        dispatcher = CapableDispatcher(bench.dispatcher, {"*": ["HIVESQL"]}, relocates=relocates)
        call = ClientCall.of(ClientSession(), header, message, time.monotonic_ns())
        decision: Decision | None = dispatcher.decide(call)
        assert isinstance(decision, Work), "else this shows nothing"
        work, decision = decision, None
        while decision is None:
            decision = work.step()
    assert isinstance(decision, Forward) and decision.outcome == "write" and decision.ask is not None
    assert decision.ask.header.name == (b"get_database" if relocates else b"create_table_req")
