"""Histories over a metastore and two proxies: no violation, and each planted bug is caught."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.history.run import BOUND_S, SETTINGS, run_history
from tests.lengths import MOST, by_tier
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

SECONDS = float(os.environ.get("HISTORY_SECONDS", by_tier(test=4, all=30, every=180)))
ELSEWHERE_SECONDS = float(os.environ.get("HISTORY_SECONDS", by_tier(test=4, all=12, every=20)))
ELSEWHERE = [("hive31", "sql"), ("hive23-postgresql", "sql"), ("hive42-mariadb", "sql"), ("hive42", "thrift")]
CAUGHT_WITHIN_S = 180.0

PLANTED = [
    "fence_dropped",
    "fence_finite_after_reply",
    "ticket_after_snapshot",
    "floor_ignored",
    "cursor_before_objects",
    "lock_not_fenced",
    "learned_early",
]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * SECONDS + 400)
@pytest.mark.covers("A history under writes, stops and kills", "hive42", cache="SQL")
def test_no_violation(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    metastore = new_metastore("hive42")
    proxies = [new_proxy(metastore, settings=SETTINGS) for _ in range(2)]

    def enough(reads: int) -> bool:
        return reads > 50 * SECONDS and told_hits(proxies) > 6 * SECONDS

    outcome = run_history(metastore.address, proxies, prefix="history", seconds=SECONDS, bound_s=BOUND_S, enough=enough)
    assert not outcome.violations and not outcome.errors, outcome.summary()
    assert outcome.reads > 50 * SECONDS and outcome.chaos, outcome.summary()
    assert hits(proxies) > 6 * SECONDS, "the history says nothing when nothing is served from the cache"


def hits(proxies: list[Proxy]) -> float:
    """All that there were until now."""
    return sum(map(hits_in, Proxy.requests_of(proxies)))


def told_hits(proxies: list[Proxy]) -> float:
    """Those that workers have told of: nothing is waited for while a history goes on."""
    return sum(hits_in(proxy.told_requests()) for proxy in proxies)


def hits_in(requests: dict[tuple[str, str, str], float]) -> float:
    return sum(count for (_, how, _), count in requests.items() if how == "hit")


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * ELSEWHERE_SECONDS + 400)
@pytest.mark.parametrize(("flavour", "store"), ELSEWHERE)
@pytest.mark.covers("A history under writes, stops and kills", "hive31", "hive23-postgresql", cache="SQL")
@pytest.mark.covers("A history under writes, stops and kills", "hive42-mariadb", cache="SQL")
@pytest.mark.covers("A history under writes, stops and kills", "hive42", cache="Thrift")
def test_no_violation_elsewhere(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], flavour: str, store: str
) -> None:
    """Shorter ones over every other kind of Hive's metastore and store."""
    shorter(new_metastore(flavour), new_proxy, store)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MOST * ELSEWHERE_SECONDS + 400)
@pytest.mark.parametrize("store", ["sql", "thrift"])
def test_no_violation_before_the_embedded_metastore(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], store: str
) -> None:
    """Two proxies that read its SQLite file, and two that only ask it."""
    shorter(new_metastore("embedded"), new_proxy, store)


def shorter(metastore: Metastore, new_proxy: Callable[..., Proxy], store: str) -> None:
    over_sql = store == "sql"
    settings = SETTINGS if over_sql else {**SETTINGS, "STORE": "thrift"}
    proxies = [new_proxy(metastore, store=over_sql, settings=settings) for _ in range(2)]
    outcome = run_history(
        metastore.address,
        proxies,
        prefix="history",
        seconds=ELSEWHERE_SECONDS,
        bound_s=BOUND_S,
        version=metastore.flavour.version,
        enough=lambda reads: reads > 10 * ELSEWHERE_SECONDS and told_hits(proxies) > ELSEWHERE_SECONDS / 4,
    )
    print(outcome.summary())
    assert not outcome.violations and not outcome.errors, outcome.summary()
    assert outcome.reads > 10 * ELSEWHERE_SECONDS, outcome.summary()
    assert hits(proxies) > ELSEWHERE_SECONDS / 4, "the history says nothing when nothing is served from the cache"


@pytest.fixture(scope="module")
def metastore(bed: Bed) -> Iterator[Metastore]:
    """One for all planted bugs, whose histories have databases of their own and stop nothing but proxies."""
    started = bed.private_metastore("hive42")
    yield started
    bed.release(started)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_planted_bug_is_caught(metastore: Metastore, new_proxy: Callable[..., Proxy], planted: str) -> None:
    proxies = [new_proxy(metastore, settings=SETTINGS, planted=planted)]
    outcome = run_history(
        metastore.address,
        proxies,
        prefix=f"planted_{planted}",
        seconds=CAUGHT_WITHIN_S,
        bound_s=BOUND_S,
        kill=False,
        settle_s=5.0,
        until_violation=True,
    )
    assert outcome.violations, f"{planted} was not caught: {outcome.summary()}"
