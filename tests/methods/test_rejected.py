"""transactional_reads = "reject": reads of transactional tables without a ValidWriteIdList are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.methods.decision import Forward, Serve, Work
from hms_cache_proxy.methods.readers import tables
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.methods.test_transactional_looks import LIST, SALES, asked, filled, old_call, served, without_proof
from tests.methods.warm import Bench
from tests.write_ids.reads import encode
from tests.write_ids.transactions import struct

TEXT = b"table hive.sales.acid is transactional: hms-cache-proxy answers reads of it only with a ValidWriteIdList"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with filled(tmp_path, transactional_reads="reject", list_order="name") as made:
        yield made


def refused(decision: object) -> None:
    assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes), decision
    assert (decision.outcome, decision.reason) == ("error", "no_write_id")
    header = parse_header(decision.chunks)
    assert isinstance(header, Header) and header.seqid == 5
    result, _ = spec.decode(spec.result(header.name.decode()), decision.chunks, header.body)
    assert result.success is None and result.o1.message.startswith(TEXT)


def by_names(*names: bytes) -> bytes:
    request = struct("GetTablesRequest", dbName=SALES, tblNames=list(names))
    return encode("get_table_objects_by_name_req", {"req": request}, 5)


def values() -> bytes:
    request = struct("PartitionValuesRequest", dbName=SALES, tblName="acid", partitionKeys=[])
    return encode("get_partition_values", {"request": request}, 5)


@pytest.mark.parametrize("message", [old_call(), without_proof(), by_names(b"acid"), values()])
def test_without_a_list(bench: Bench, message: bytes) -> None:
    for _ in range(2):
        refused(asked(bench, message))


def test_among_many_tables(bench: Bench) -> None:
    """It is found in a later slice of the answer."""
    work = asked(bench, by_names(*[b"none"] * tables.AT_ONCE, b"acid"))
    assert isinstance(work, Work)
    refused(work.step())


def test_a_list_is_never_refused(bench: Bench) -> None:
    served(asked(bench, without_proof(validWriteIdList=LIST, id=90)))
    relayed = asked(bench, without_proof(validWriteIdList=LIST))
    assert isinstance(relayed, Forward) and relayed.reason == "table_id"
