"""The tables and users that are asked for most: bounded summaries, samples, generations, files."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter, deque
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.hot import SAMPLED_EVERY, Sampled
from hms_cache_proxy.metrics import Outcome
from hms_cache_proxy.server import most_asked
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.most_asked import GENERATIONS, SAMPLES, MostAsked
from hms_cache_proxy.server.space_saving import COUNTERS, SpaceSaving
from hms_cache_proxy.status.most_asked import added_up
from tests.chance import chance
from tests.server.test_access_log import header_of
from tests.testbed.raw import encode_call

ORDERS = targets.table(b"hive", b"sales", b"orders")
ETL = encode_call("set_ugi", "etl", [])[header_of(encode_call("set_ugi")).body :]


def observe(name: str, outcome: Outcome = "miss", upstream_s: float = 0.0) -> Observe:
    message = encode_call("get_table", "sales", name)
    request = Request(header_of(message), message)
    return Observe("get_table", outcome, "", 0, 10, request, upstream_ns=int(upstream_s * 1e9))


def test_a_summary_is_bounded_and_keeps_what_is_frequent() -> None:
    """No count is too low, none is too high by more than all calls by the counters, and no frequent name is missing."""
    drawn = chance("names")
    summary, exact = SpaceSaving(20), Counter[str]()
    for _ in range(5000):
        name = f"t{int(drawn.paretovariate(0.7))}"
        summary.add(name, 1)
        exact[name] += 1
    assert len(summary.counts) == 20
    for name, number in summary.counts.items():
        assert exact[name] <= number <= exact[name] + 5000 / 20
    assert {name for name, number in exact.items() if number > 5000 / 20} <= set(summary.counts)


def test_hits_misses_and_time(tmp_path: Path) -> None:
    hits: deque[Sampled] = deque()
    counted = MostAsked(tmp_path / "tops-0.json", hits, users=True)
    hits.extend([((ORDERS,), ETL)] * 3)
    hits.append(((targets.databases(b"hive"),), None))
    session = ClientSession(identity=ETL)
    counted.observed(session, observe("orders", "miss", 0.5))
    counted.observed(session, observe("visits", "write", 0.25))
    asyncio.run(counted.count())
    found = counted.highest()
    assert found["tables"]["calls"] == {"hive.sales.orders": 3 * SAMPLED_EVERY + 1, "hive.sales.visits": 1}
    assert found["tables"]["misses"] == {"hive.sales.orders": 1}
    assert found["tables"]["seconds"] == {"hive.sales.orders": 0.5, "hive.sales.visits": 0.25}
    assert found["users"]["calls"] == {"etl": 3 * SAMPLED_EVERY + 2}
    assert not hits


def test_requests_are_not_kept(tmp_path: Path) -> None:
    """They may have megabytes, which are free again when the call is over."""
    counted = MostAsked(tmp_path / "tops-0.json", deque(), users=False)
    message = encode_call("get_table", "sales", "orders" * 1000)
    before = sys.getrefcount(message)
    request = Request(header_of(message), message)
    counted.observed(ClientSession(), Observe("get_table", "miss", "", 0, 10, request))
    del request
    assert sys.getrefcount(message) == before
    asyncio.run(counted.count())


def test_users_are_not_even_counted_unless_they_are_shown(tmp_path: Path) -> None:
    counted = MostAsked(tmp_path / "tops-0.json", deque([((ORDERS,), ETL)]), users=False)
    asyncio.run(counted.count())
    assert set(counted.highest()) == {"tables"}


def test_beyond_a_number_of_calls_each_sample_stands_for_several(tmp_path: Path) -> None:
    counted = MostAsked(tmp_path / "tops-0.json", deque(), users=False)
    for _ in range(4 * SAMPLES):
        counted.observed(ClientSession(), observe("orders"))
    asyncio.run(counted.count())
    assert counted.highest()["tables"]["misses"] == {"hive.sales.orders": 4 * SAMPLES}


def test_an_hour_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(most_asked, "GENERATION_S", 0.0)
    counted = MostAsked(tmp_path / "tops-0.json", deque(), users=False)
    counted.observed(ClientSession(), observe("orders"))
    asyncio.run(counted.count())
    for _ in range(GENERATIONS - 1):
        asyncio.run(counted.count())
        assert counted.highest()["tables"]["calls"]
    asyncio.run(counted.count())
    assert not counted.highest()["tables"]["calls"]


def test_memory_is_bounded(tmp_path: Path) -> None:
    hits: deque[Sampled] = deque()
    counted = MostAsked(tmp_path / "tops-0.json", hits, users=False)
    hits.extend(((targets.table(b"hive", b"d", b"t%d" % number),), None) for number in range(10 * COUNTERS))
    asyncio.run(counted.count())
    assert all(len(one.counts) <= COUNTERS for one in counted._tables._generations[-1].values())


def test_workers_are_added_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(most_asked, "WRITE_INTERVAL_S", 0.0)
    files = [tmp_path / f"tops-{number}.json" for number in range(3)]
    for file in files[:2]:
        counted = MostAsked(file, deque(), users=False)
        counted.observed(ClientSession(), observe("orders"))
        asyncio.run(counted.count())
    assert json.loads(files[0].read_text())["tables"]["calls"] == {"hive.sales.orders": 1}
    assert added_up(files)["tables"]["calls"] == [{"name": "hive.sales.orders", "number": 2}]
