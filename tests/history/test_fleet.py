"""Histories of three proxies with `peers`: no violation, and each planted bug is caught."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hive_metastore.ttypes import NoSuchObjectException

from hms_cache_proxy.consistency.fences import REQUEST_TIMEOUT_NS
from hms_cache_proxy.peers.protocol import FleetTimes
from tests.history.fleet import LEASES_S, Fleet, fleet, leased
from tests.history.registers import TableParameter
from tests.history.run import BOUND_S, SETTINGS, Outcome, run_history
from tests.history.test_history import told_hits
from tests.lengths import MOST, by_tier
from tests.peers.pair_replay import Replay, traced
from tests.proxy import PLANTED as PLANTED_BUGS
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

PROXIES = 3
FOR_RESTARTS_S = 60.0
"""So long a history has time for restarts of all proxies."""
SECONDS = float(os.environ.get("HISTORY_SECONDS", by_tier(test=4, all=20, every=120)))
CAUGHT_WITHIN_S = 180.0

SLOW = {"WORKERS": "1", "FOLLOWER_POLL_INTERVAL_MIN_MS": "500", "FOLLOWER_POLL_INTERVAL_MAX_MS": "1000"}
"""What a proxy is not told of by its peers, it sees late."""

PLANTED = ["peer_stores_no_fence", "write_waits_for_no_peer", "leases_for_ever", "lease_not_looked_at"]
BY_CHANCE = ["peer_stores_no_fence"]
"""Those that a history was seen to catch on a slow machine; test_planted_bug_shows catches each for certain."""


@pytest.fixture
def three() -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield fleet(stack, PROXIES)


@pytest.fixture
def of() -> Iterator[Fleet]:
    """Three, and in a long history a fourth one that leaves and joins."""
    with ExitStack() as stack:
        yield fleet(stack, PROXIES, spare=SECONDS >= FOR_RESTARTS_S)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * SECONDS + 400)
def test_no_violation(of: Fleet, new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    metastore = new_metastore("embedded")
    proxies = started(metastore, new_proxy, of)
    outcome = run_history(
        metastore.address,
        proxies,
        prefix="fleet",
        seconds=SECONDS,
        bound_s=BOUND_S,
        version=metastore.flavour.version,
        enough=lambda reads: reads > 10 * SECONDS and of.hits(proxies) > SECONDS,
        kind=of.kind,
    )
    print(outcome.summary())
    assert not outcome.violations and not outcome.errors, outcome.summary()
    assert outcome.reads > 10 * SECONDS and outcome.chaos, outcome.summary()
    assert of.hits(proxies) > SECONDS, "the history says nothing when nothing is served from a cache"


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("planted", BY_CHANCE)
def test_planted_bug_is_caught(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], three: Fleet, planted: str
) -> None:
    metastore = new_metastore("embedded")
    outcome = caught(metastore, started(metastore, new_proxy, three, planted), three)
    assert outcome.violations, f"{planted} was not caught: {outcome.summary()}"


def started(
    metastore: Metastore, new_proxy: Callable[..., Proxy], of: Fleet, planted: str | None = None
) -> list[Proxy]:
    """The proxies, with their leases."""
    settings = [{**SETTINGS, **SLOW, **one} for one in of.settings]
    proxies = [new_proxy(metastore, settings=one, planted=planted) for one in settings]
    leased(proxies)
    return proxies


def caught(metastore: Metastore, proxies: list[Proxy], of: Fleet) -> Outcome:
    return run_history(
        metastore.address,
        proxies,
        prefix="planted",
        seconds=CAUGHT_WITHIN_S,
        bound_s=BOUND_S,
        kill=False,
        settle_s=5.0,
        until_violation=True,
        version=metastore.flavour.version,
        kind=of.kind,
    )


PATIENT = {"WORKERS": "1", "MAX_UNCONFIRMED_MS": "120000"}


@pytest.mark.real
@pytest.mark.parametrize("planted", [*PLANTED, None])
def test_planted_bug_shows(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], planted: str | None
) -> None:
    """One write and one read, while the reader's follower is stopped: the cache has the old state, and only the rules
    between proxies say that it must not be shown."""
    with ExitStack() as stack:
        two, metastore = fleet(stack, 2), new_metastore("embedded")
        proxies = [new_proxy(metastore, settings={**PATIENT, **one}, planted=planted) for one in two.settings]
        leased(proxies)
        register = TableParameter("default", "shown")
        with MetastoreClient(*proxies[0].address) as writer:
            register.create(writer)
            proxies[1].wait(lambda: cached(register, proxies[1]), "answering from its cache", LEASES_S)
            followers = proxies[1].children()["follower"]
            for pid in followers:
                os.kill(pid, signal.SIGSTOP)
            try:
                if planted != "peer_stores_no_fence":
                    for way in two.between:
                        way.stall()
                register.write(writer, 1)
                assert by(register, proxies[1]) == (1 if planted is None else 0)
            finally:
                for pid in followers:
                    os.kill(pid, signal.SIGCONT)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_proxies_do_is_a_run_of_the_model(
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    three: Fleet,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Their messages, fences, leases and writes (tests/peers/pair.py), while connections break and are silent."""
    monkeypatch.setenv("FLEET_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("PYTHONPATH", str(PLANTED_BUGS))
    metastore = new_metastore("embedded")
    proxies = [new_proxy(metastore, settings={"WORKERS": "1", **one}) for one in three.settings]
    leased(proxies)
    register = TableParameter("default", "traced")
    with MetastoreClient(*proxies[0].address) as client:
        register.create(client)
    for version in range(1, 10):
        if version == 4:
            three.between[0].cut()
        elif version in (5, 7):
            (three.between[1].stall if version == 5 else three.between[1].restore)()
        with MetastoreClient(*proxies[version % PROXIES].address) as client:
            register.write(client, version)
    replay = Replay(
        hold=REQUEST_TIMEOUT_NS, write_age=FleetTimes(list_lag_ns=0).write_age_ns, outlasted=FleetTimes().outlasted
    )
    replay.run(traced(tmp_path / "trace"))
    print(replay.counts)
    assert len(replay.pairs) == PROXIES * (PROXIES - 1)
    assert replay.counts["goes"] >= 10 and replay.counts["holds"] >= 10 and replay.counts["serves"] >= 10


def cached(register: TableParameter, proxy: Proxy) -> bool:
    """Is it read here, and are there answers from the cache?"""
    try:
        return by(register, proxy) == 0 and told_hits([proxy]) > 0
    except NoSuchObjectException:  # a proxy that is not told of its creation sees it later
        return False


def by(register: TableParameter, proxy: Proxy) -> int:
    """What a new connection is shown."""
    with MetastoreClient(*proxy.address) as client:
        return register.by_get_table_req(client)
