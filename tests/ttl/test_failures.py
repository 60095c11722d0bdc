"""A cache that cannot be written, and a metastore that refuses to know a user: readers lose time, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic_ns

import pytest

from hms_cache_proxy.budget import Budgets
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.config.security import TlsSection
from hms_cache_proxy.consistency.guards import WriteEnding
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.methods.decision import NOTHING, Ask, ClientCall, Forward, Serve
from hms_cache_proxy.methods.ttl.looking import Reload
from hms_cache_proxy.methods.ttl.pending import HoldBarrier
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.security.metastore_security import MetastoreSecurity
from hms_cache_proxy.security.tls import ClientSide
from hms_cache_proxy.server.refresher import Refresher
from hms_cache_proxy.upstream.endpoints import Endpoints
from hms_cache_proxy.wire import spec
from tests.methods.world import struct
from tests.server.scripted import STOP, Call, Hangup, ScriptedMetastore, string_field
from tests.testbed.certificates import Authority
from tests.ttl.bench import Bench, call, listing, opened, reply


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        yield made


def test_a_reply_that_cannot_be_kept_is_passed_on(bench: Bench) -> None:
    forward = bench.decide()
    assert isinstance(forward, Forward) and forward.pending is not NOTHING
    bench.fill_the_disk()
    forward.pending.reply_done(bench.session, listing([b"t" * 100] * 10_000), monotonic_ns())
    assert bench.errors == 1
    forward = bench.decide()
    assert isinstance(forward, Forward) and forward.ask is None, "the metastore answers"


def test_what_was_used_is_told_in_pieces_and_may_fail(bench: Bench) -> None:
    forward = bench.decide()
    assert isinstance(forward, Forward)
    forward.pending.reply_done(bench.session, listing([b"t"]), monotonic_ns())
    assert isinstance(bench.decide(), Serve)
    assert [len(piece) for piece in bench.dispatcher.used()] == [1]
    assert not list(bench.dispatcher.used()), "once"
    bench.cache.close()
    bench.dispatcher.touch([b"k" * 16])
    assert bench.errors == 1


def test_a_cache_that_cannot_be_read_is_looked_after_all_the_same(bench: Bench) -> None:
    """Else nothing is refreshed any more in this worker."""
    bench.cache.close()
    bench.dispatcher.tell()
    bench.dispatcher.forget_dead_readers()
    assert bench.errors == 2


@pytest.mark.parametrize("method", ["get_partition_by_name", "get_partitions"])
def test_a_reply_is_passed_on_though_the_cache_cannot_be_read_for_it(bench: Bench, method: str) -> None:
    """The names of partition keys are looked up there, when the reply has arrived."""
    partition = struct("Partition", values=[b"1", b"1"], dbName=b"d", tableName=b"t")
    many = method == "get_partitions"
    forward = bench.asked(
        bench.session,
        method,
        db_name=b"d",
        tbl_name=b"t",
        **({"max_parts": -1} if many else {"part_name": b"p=1/q=1"}),
    )
    assert isinstance(forward, Forward)
    bench.cache.close()
    forward.pending.reply_done(bench.session, reply(method, [partition] if many else partition), monotonic_ns())
    assert bench.errors > 0


@pytest.mark.parametrize(("name", "outcome"), [("get_vendor_facts", "relay"), ("set_vendor_facts", "write")])
def test_an_operator_says_which_unknown_methods_are_reads(bench: Bench, name: str, outcome: str) -> None:
    header, message = call("get_all_tables", db_name=b"d")
    forward = bench.dispatcher.decide(
        ClientCall.of(bench.session, header._replace(name=name.encode()), message, monotonic_ns())
    )
    assert isinstance(forward, Forward)
    assert (forward.label, forward.outcome, forward.reason) == ("other", outcome, "unknown_method")


def drops(bench: Bench) -> Iterator[Forward]:
    """Writes without end."""
    while True:
        header, message = call("drop_table", dbname=b"d", name=b"t", deleteData=True)
        forward = bench.dispatcher.decide(ClientCall.of(bench.session, header, message, monotonic_ns()))
        assert isinstance(forward, Forward)
        yield forward


def learned(bench: Bench) -> None:
    forward = bench.decide()
    assert isinstance(forward, Forward)
    forward.pending.reply_done(bench.session, listing([b"t"]), monotonic_ns())
    assert isinstance(bench.decide(), Serve)


@pytest.mark.parametrize("moment", ["before it leaves", "when its reply is here"])
def test_a_write_whose_hold_cannot_be_written_stops_all_hits(bench: Bench, moment: str) -> None:
    learned(bench)
    writes = drops(bench)
    if moment == "before it leaves":
        bench.fill_the_disk()
        under_way = []
        while not bench.suspension.active:
            under_way.append(next(writes))
            under_way[-1].pending.sending()
    else:
        under_way = [next(writes) for _ in range(100)]
        for forward in under_way:
            forward.pending.sending()
        bench.fill_the_disk()
        for forward in under_way:
            forward.pending.reply_began(bench.session, monotonic_ns())
    assert bench.suspension.active
    relayed = bench.decide()
    assert isinstance(relayed, Forward) and (relayed.outcome, relayed.reason) == ("miss", "unfenced")
    for forward in under_way:
        forward.pending.reply_began(bench.session, monotonic_ns())
    bench.dispatcher.settle()
    assert bench.suspension.active, "there is still no room"
    bench.make_room()
    bench.dispatcher.settle()
    assert not bench.suspension.active
    again = bench.decide()
    assert isinstance(again, Forward) and again.ask is None, "what was kept before the write is not shown"
    learned(bench)


def test_a_write_of_unknown_outcome_is_held_from_its_end_on(bench: Bench) -> None:
    """It was given up after the longest time of a request: then a hold of that time from its beginning is over."""
    cache, request_timeout_ns = bench.cache, 600 * 10**9
    barrier = HoldBarrier(cache, request_timeout_ns)
    record_id = barrier.begin((ALL,))
    ended_ns = monotonic_ns()
    barrier.end(record_id, (ALL,), WriteEnding.UNKNOWN)
    with cache._env.begin() as txn, txn.cursor(cache._dbs[b"holds"]) as cursor:
        until_ns = max(int.from_bytes(value, "big") for _, value in cursor)
    assert until_ns >= ended_ns + request_timeout_ns


def refresher(endpoints: Endpoints, metrics: WorkerMetrics) -> Refresher:
    return Refresher(
        endpoints, metrics, connect_timeout_s=5, request_timeout_s=5, memory=Budgets(1 << 20, 1 << 20).memory
    )


@pytest.mark.parametrize("known", [True, False])
def test_nothing_is_asked_as_somebody_else(known: bool) -> None:
    learned: list[bytes] = []
    released: list[None] = []
    metrics = WorkerMetrics()

    def set_ugi(message: bytes, call: Call) -> Iterator[bytes]:
        yield call.reply(STOP) if known else call.reply(b"\x0c\x00\x01" + string_field(1, b"who?") + STOP + STOP)

    async def reload(refresher: Refresher) -> None:
        header, message = call("get_all_tables", db_name=b"d")
        identity = spec.encode(spec.args("set_ugi")(user_name=b"anna", group_names=[]))
        ask = Ask(header, message, 1 << 20)
        asked = Reload(EntryKind.TABLE_NAMES, identity, ask, learned.append, lambda: released.append(None))
        await refresher._reload(identity, [asked])

    with ScriptedMetastore() as metastore:
        metastore.answers["set_ugi"] = set_ugi
        metastore.answers["get_all_tables"] = lambda message, call: iter([listing([b"t"])])
        endpoints = Endpoints([metastore.address])
        asyncio.run(reload(refresher(endpoints, metrics)))
        assert [call.name for _, call in metastore.calls] == ["set_ugi", "get_all_tables"][: 1 + known]
    failures = metrics.registry.get_sample_value("hms_proxy_upstream_failures_total", {"kind": "protocol"})
    assert (len(learned), len(released), failures or 0) == ((1, 0, 0) if known else (0, 1, 1))


def test_a_reload_that_fails_costs_the_others_only_a_connection() -> None:
    """Else whatever is due with it would never be refreshed."""
    ends: list[str] = []
    metrics = WorkerMetrics()

    def hang_up(message: bytes, call: Call) -> Iterator[bytes]:
        raise Hangup

    def damaged(reply: bytes) -> None:
        raise CacheError("the cache cannot be read")

    def asked(name: str, learn: Callable[[bytes], None]) -> Reload:
        header, message = call(name, db_name=b"d")
        release = partial(ends.append, f"{name} released")
        return Reload(EntryKind.TABLE_NAMES, b"", Ask(header, message, 1 << 20), learn, release)

    async def reload(refresher: Refresher) -> None:
        learned = lambda reply: ends.append("learned")  # noqa: E731
        reloads = [asked("get_all_tables", learned) for _ in range(4)]
        reloads[1:1] = [asked("get_tables", learned)]
        reloads[3] = asked("get_all_tables", damaged)
        await refresher._reload(b"", reloads)

    with ScriptedMetastore() as metastore:
        metastore.answers["get_all_tables"] = lambda message, call: iter([listing([b"t"])])
        metastore.answers["get_tables"] = hang_up
        asyncio.run(reload(refresher(Endpoints([metastore.address]), metrics)))
        assert [number for number, _ in metastore.calls] == [1, 1, 2, 2, 2]
    assert ends == ["learned", "get_tables released", "learned", "get_all_tables released", "learned"]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_metastore_with_tls(tmp_path: Path, trusted: bool) -> None:
    learned: list[bytes] = []
    metrics = WorkerMetrics()
    authority, foreign = Authority(tmp_path / "tls"), Authority(tmp_path / "foreign", "foreign")
    side = ClientSide(TlsSection(upstream=True, upstream_ca=str((authority if trusted else foreign).file)))

    async def reload(refresher: Refresher) -> None:
        header, message = call("get_all_tables", db_name=b"d")
        asked = Reload(EntryKind.TABLE_NAMES, b"", Ask(header, message, 1 << 20), learned.append, lambda: None)
        await refresher._reload(b"", [asked])
        await asyncio.sleep(0.1)  # the end of TLS is said, too

    with ScriptedMetastore(tls=authority.signed("server").server()) as metastore:
        metastore.answers["get_all_tables"] = lambda message, call: iter([listing([b"t"])])
        endpoints = Endpoints([metastore.address], MetastoreSecurity(side))
        asyncio.run(reload(refresher(endpoints, metrics)))
    failures = metrics.registry.get_sample_value("hms_proxy_upstream_failures_total", {"kind": "connect"})
    assert (len(learned), failures or 0) == ((1, 0) if trusted else (0, 1))
    assert trusted or "TLS: unable to get local issuer certificate" in endpoints.problems


def test_a_reply_to_another_call_is_not_learned() -> None:
    learned: list[bytes] = []
    metrics = WorkerMetrics()

    async def reload(refresher: Refresher) -> None:
        header, message = call("get_all_tables", db_name=b"d")
        asked = Reload(EntryKind.TABLE_NAMES, b"", Ask(header, message, 1 << 20), learned.append, lambda: None)
        await refresher._reload(b"", [asked])

    with ScriptedMetastore() as metastore:
        metastore.answers["get_all_tables"] = lambda message, call: iter([call.reply(STOP, seqid=8)])
        endpoints = Endpoints([metastore.address])
        asyncio.run(reload(refresher(endpoints, metrics)))
    assert not learned
    assert metrics.registry.get_sample_value("hms_proxy_upstream_failures_total", {"kind": "protocol"}) == 1
