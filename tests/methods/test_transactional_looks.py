"""transactional_reads = "strict", the default: reads without a proof are answered by a look that began after they
arrived, never by an earlier one, in whatever way the answer is made or kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, TableWriteIds
from hms_cache_proxy.methods.decision import ClientCall, Decision, Forward, Serve, Wait
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, parse_header
from tests.cache.records import DATABASE, TABLE, flat_table
from tests.methods.warm import Bench, opened
from tests.server.scripted import Call
from tests.testbed.raw import encode_call
from tests.write_ids.reads import encode
from tests.write_ids.transactions import struct

SALES = DATABASE[1].decode()
ACID = (*DATABASE, b"acid")
LIST = b"sales.acid:5:9223372036854775807::"
BODY = spec.encode(struct("Table", tableName="acid", dbName="sales", writeId=3, parameters={}))
CHANGED = spec.encode(struct("Table", tableName="acid", dbName="sales", writeId=4, parameters={}))


@contextmanager
def filled(directory: Path, **settings: object) -> Iterator[Bench]:
    """A bench with a transactional table."""
    with opened(directory, **settings) as bench:
        bench.step(changed(11, BODY))
        yield bench


def changed(cursor: int, body: bytes) -> Changes:
    table = replace(flat_table(ACID[2], 90, body), transactional=True, full_acid=True)
    write_ids = {90: TableWriteIds(ACID, LIST)}
    return Changes(cursor=cursor, tables={ACID: table}, touched={targets.table(*ACID)}, write_ids=write_ids)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with filled(tmp_path) as made:
        yield made


def without_proof(**more: Any) -> bytes:
    request = struct("GetTableRequest", dbName=SALES, tblName="acid", **more)
    return encode("get_table_req", {"req": request}, 5)


def old_call(table: str = "acid") -> bytes:
    return encode_call("get_table", SALES, table, seqid=5)


def asked(bench: Bench, message: bytes, arrived_ns: int | None = None, *, patient: bool = True) -> Decision:
    """As a server asks: the hot path first."""
    arrived_ns = time.monotonic_ns() if arrived_ns is None else arrived_ns
    reply = bench.dispatcher.hot(bench.session, message, arrived_ns)
    if reply is not None:
        return Serve(reply, "hot")
    header = parse_header(message)
    assert isinstance(header, Header)
    return bench.dispatcher.decide(ClientCall.of(bench.session, header, message, arrived_ns, patient=patient))


def served(decision: Decision, body: bytes = BODY) -> None:
    assert isinstance(decision, Serve) and isinstance(decision.chunks, bytes) and body[:-1] in decision.chunks, decision


@pytest.mark.parametrize("message", [old_call(), without_proof(), without_proof(validWriteIdList=LIST)])
def test_by_a_look_of_its_own_time(bench: Bench, message: bytes) -> None:
    """No list, and a list without an id: also what is kept waits for a look."""
    for _ in range(3):
        arrived_ns = time.monotonic_ns()
        assert isinstance(asked(bench, message, arrived_ns), Wait)
        bench.step()
        decision = asked(bench, message, arrived_ns)
        served(decision)
        assert isinstance(decision, Serve) and (decision.label == "hot" or decision.reason == "strict")
        assert isinstance(asked(bench, message), Wait)
    arrived_ns = time.monotonic_ns()
    bench.step(changed(12, CHANGED))
    served(asked(bench, message, arrived_ns), CHANGED)


def test_one_look_for_all_that_wait(bench: Bench) -> None:
    arrived = [time.monotonic_ns() for _ in range(50)]
    for arrived_ns in arrived:
        assert isinstance(asked(bench, old_call(), arrived_ns), Wait)
    assert len(bench.woken) == 1
    bench.step()
    for arrived_ns in arrived:
        served(asked(bench, old_call(), arrived_ns))


def test_in_vain(bench: Bench) -> None:
    relayed = asked(bench, old_call(), patient=False)
    assert isinstance(relayed, Forward) and (relayed.outcome, relayed.reason) == ("miss", "strict")
    assert isinstance(asked(bench, old_call()), Forward), "no other waits until there is a look"
    bench.step()
    assert isinstance(asked(bench, old_call()), Wait)


def test_other_reads_do_not_wait(bench: Bench) -> None:
    served(asked(bench, old_call(TABLE[2].decode())), b"table body")


OTHER_LIST = b"sales.acid:6:9223372036854775807::"
NO_PROOF = (
    {"validWriteIdList": LIST, "id": 91},  # a table that was created again, or one that the client remembers
    {"id": 91},
    {"validWriteIdList": OTHER_LIST, "id": 90},  # a reader that has written, or one that is ahead or behind
)


@pytest.mark.parametrize("proof", NO_PROOF)
def test_another_id_or_another_list(bench: Bench, proof: dict[str, Any]) -> None:
    """To every request a metastore shows the rows of the moment."""
    message, arrived_ns = without_proof(**proof), time.monotonic_ns()
    assert isinstance(asked(bench, message, arrived_ns), Wait)
    bench.step()
    decision = asked(bench, message, arrived_ns)
    served(decision)
    assert isinstance(decision, Serve) and decision.reason == "strict"
    assert isinstance(asked(bench, message), Wait)


@pytest.mark.parametrize("proof", NO_PROOF)
def test_passthrough_relays_another_id_and_another_list(tmp_path: Path, proof: dict[str, Any]) -> None:
    with filled(tmp_path, transactional_reads="passthrough") as bench:
        relayed = asked(bench, without_proof(**proof))
        assert isinstance(relayed, Forward) and relayed.reason == ("write_id" if proof.get("id") == 90 else "table_id")


def test_a_table_that_does_not_exist(bench: Bench) -> None:
    """A list or an id says that there is one, unless a look finds none."""
    message = encode("get_table_req", {"req": struct("GetTableRequest", dbName=SALES, tblName="no", id=3)}, 5)
    for _ in range(2):
        arrived_ns = time.monotonic_ns()
        assert isinstance(asked(bench, message, arrived_ns), Wait)
        bench.step()
        served(asked(bench, message, arrived_ns), b"hive.sales.no table not found\0")


def test_a_list_that_differs_after_a_look_reloads_the_table(bench: Bench) -> None:
    """Aborted ids leave a list without an event."""
    for proof, reloaded in ((LIST, set()), (OTHER_LIST, {targets.table(*ACID)}), (OTHER_LIST, set())):
        arrived_ns = time.monotonic_ns()
        bench.step()
        served(asked(bench, without_proof(validWriteIdList=proof, id=90), arrived_ns))
        assert bench.fences.pending_tickets()[1] == reloaded


def test_a_kept_reply_waits_too(bench: Bench) -> None:
    """The metastore's own reply is given again after a look, and never shared with a read that came later."""
    message = encode("get_table_column_statistics", {"db_name": SALES, "tbl_name": "acid", "col_name": "c"}, 5)
    arrived_ns = time.monotonic_ns()
    assert isinstance(asked(bench, message, arrived_ns), Wait)
    bench.step()
    first, second = asked(bench, message, arrived_ns), asked(bench, message, arrived_ns)
    assert isinstance(first, Forward) and isinstance(second, Forward), "the second may owe more than the first is told"
    statistics = struct("ColumnStatistics", statsObj=[])
    reply = Call(message).reply(spec.encode(spec.result("get_table_column_statistics")(success=statistics)))
    first.pending.sending()
    first.pending.reply_began(bench.session, time.monotonic_ns())
    first.pending.reply_done(bench.session, reply, time.monotonic_ns())
    for _ in range(2):
        arrived_ns = time.monotonic_ns()
        assert isinstance(asked(bench, message, arrived_ns), Wait)
        bench.step()
        again = asked(bench, message, arrived_ns)
        assert isinstance(again, Serve) and again.chunks == reply
    arrived_ns = time.monotonic_ns()
    bench.step(changed(12, CHANGED))
    assert isinstance(asked(bench, message, arrived_ns), Forward)


def test_with_strict_consistency_one_look_is_enough(tmp_path: Path) -> None:
    with filled(tmp_path, consistency="strict") as bench:
        arrived_ns = time.monotonic_ns()
        assert isinstance(asked(bench, old_call(), arrived_ns), Wait)
        bench.step()
        served(asked(bench, old_call(), arrived_ns))


def test_passthrough_relays_whatever_was_looked_at(tmp_path: Path) -> None:
    with filled(tmp_path, transactional_reads="passthrough") as bench:
        arrived_ns = time.monotonic_ns()
        bench.step()
        relayed = asked(bench, old_call(), arrived_ns)
        assert isinstance(relayed, Forward) and relayed.reason == "no_write_id"
