"""The sentence about a proxy's state, the history of its calls, and what went wrong: without a proxy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.mmap_dict import MmapedDict

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.follower.step import ResetReason
from hms_cache_proxy.metrics import BOUNDS
from hms_cache_proxy.status import words
from hms_cache_proxy.status.banner import banner
from hms_cache_proxy.status.calls import CallTotals, quantile, read_totals
from hms_cache_proxy.status.history import LONG_S, POINTS, SHORT_S, _Row
from hms_cache_proxy.status.incidents import MOST, Incidents
from tests.ops.test_metrics import count

WELL: dict[str, Any] = {
    "not_ready": None,
    "mode": "cache",
    "mode_reason": "serving",
    "mode_text": "serving from cache",
    "listen": "0.0.0.0:9083",
    "workers": {"wanted": 2, "running": 2, "accepting": 2, "restarts": 0},
    "upstream": {"uri": "thrift://a:1", "reachable": True, "since_s": 5, "all": []},
    "fences": {"usable": True},
    "peers": None,
    "prewarm": {"done": True, "tables_done": 3, "tables_total": 10},
    "cache_bytes": 10,
    "cache_max_bytes": 100,
    "calls": {"total": 10, "hits": 10, "misses": 0, "hit_ratio": 1.0, "reasons": []},
}
DOWN = {"uri": "thrift://a:1", "reachable": False, "since_s": 300.0, "all": []}
ONE_DOWN = {**WELL["upstream"], "all": [{"uri": "thrift://b:1", "reachable": False}]}
GONE = [{"address": "p:9086", "state": "missing"}]
FEW = {
    "total": 1000,
    "hits": 10,
    "misses": 990,
    "hit_ratio": 0.01,
    "reasons": [{"outcome": "miss", "reason": "order", "words": words.reason("order"), "calls": 990}],
}


@pytest.mark.parametrize(
    ("changed", "level", "text"),
    [
        ({}, "good", "All is well"),
        ({"not_ready": "draining"}, "warn", "is stopping"),
        ({"workers": {**WELL["workers"], "accepting": 0}}, "bad", "No worker accepts connections."),
        ({"workers": {**WELL["workers"], "running": 1}}, "warn", "1 of 2 worker processes is not running."),
        ({"upstream": DOWN}, "bad", "for 5 min. Reads are still answered from the cache; everything else fails."),
        ({"upstream": DOWN, "mode": "relay"}, "bad", "for 5 min, so calls fail."),
        ({"fences": {"usable": False}}, "bad", "Writes cannot be recorded"),
        ({"mode": "relay", "mode_reason": "no_store", "mode_text": "store = none"}, "warn", "relayed: store = none."),
        ({"mode": "relay", "mode_reason": "starting"}, "warn", "The cache is being filled; until then"),
        ({"mode": "stale"}, "bad", "Answers are not confirmed"),
        ({"upstream": ONE_DOWN}, "warn", "thrift://b:1 does not answer; calls go to the others."),
        ({"peers": GONE}, "warn", "The other proxy p:9086 is missing"),
        ({"peers": [*GONE, *GONE]}, "warn", "The other proxies p:9086, p:9086 are missing"),
        ({"prewarm": {"done": False, "tables_done": 3, "tables_total": 10}}, "warn", "what is loaded is already"),
        ({"cache_bytes": 99}, "warn", "The cache is full"),
        ({"calls": FEW}, "warn", "Only 1% of the cacheable reads are answered from the cache. Most misses: a list in"),
        ({"calls": {"total": 0, "hits": 0, "misses": 0, "hit_ratio": None}}, "good", "no client has called yet."),
        ({"mode": "ttl"}, "good", "TTL mode"),
        ({"mode": "replay"}, "good", "A recording is replayed"),
    ],
)
def test_the_sentence(changed: dict[str, Any], level: str, text: str) -> None:
    said = banner({**WELL, **changed})
    assert said.level == level and text in said.text, said
    assert said.text.endswith(".") or said.text.endswith(".)"), said
    if said.level == "bad":
        assert said.advice


def test_every_key_has_words() -> None:
    assert {reason.value for reason in Reason} <= set(words.REASONS)
    resets = {label for metric, label in words.INCIDENTS if metric == "hms_proxy_resets_total"}
    assert resets == {reason.value for reason in ResetReason}
    assert words.objects({"databases": 1, "tables": 0, "partitions": 2, "tables_being_written": 0}) == (
        "1 database, 0 tables, 2 partitions"
    )
    assert words.reason("of_tomorrow") == "of tomorrow"
    assert words.incident("hms_proxy_limits_broken_total", "spool_bytes") == (
        "a client was closed: it exceeded spool_bytes"
    )


def test_totals_are_those_of_all_workers(tmp_path: Path) -> None:
    for role in ("worker-0", "worker-1"):
        count(tmp_path, role)
    totals = read_totals(tmp_path)
    assert totals.calls == {("get_table", "hit", ""): 2002, ("get_table", "miss", "fence"): 2}
    assert sum(totals.hit_buckets) == 2002 and totals.hit_buckets[BOUNDS.index(0.0001)] == 2000
    assert totals.incidents["hms_proxy_upstream_failures_total", "connect"] == 2
    facts = totals.facts()
    assert facts["hits"] == 2002 and facts["misses"] == 2 and facts["hit_ratio"] == 2002 / 2004
    assert facts["reasons"] == [
        {"outcome": "miss", "reason": "fence", "words": words.reason("fence"), "calls": 2},
    ]
    assert facts["seconds_saved"] == 0  # the metastore was not asked
    totals.upstream_calls["get_table"], totals.upstream_seconds["get_table"] = 2, 0.2
    assert totals.seconds_saved() == pytest.approx(2002 * 0.1 - totals.seconds["get_table", "hit"])


def test_what_nobody_can_have_counted_counts_as_nothing(tmp_path: Path) -> None:
    """It is of a damaged file. An error here would end the proxy."""
    count(tmp_path, "worker-0")
    file = str(tmp_path / "counter_worker-0.db")
    for wrong in (float("inf"), float("nan"), -5.0, 1e300):
        values = MmapedDict(file)  # type: ignore[no-untyped-call]
        for key, *_ in list(MmapedDict.read_all_values_from_file(file)):  # type: ignore[no-untyped-call]
            values.write_value(key, wrong, 0.0)  # type: ignore[no-untyped-call]
        values.close()  # type: ignore[no-untyped-call]
        assert not read_totals(tmp_path).calls


def test_quantiles() -> None:
    buckets = [0] * (len(BOUNDS) + 1)
    assert quantile(buckets, 0.5) is None
    buckets[3] = 100  # between BOUNDS[2] and BOUNDS[3]
    assert quantile(buckets, 0.5) == pytest.approx((BOUNDS[2] + BOUNDS[3]) / 2)
    buckets[-1] = 1000
    assert quantile(buckets, 0.99) == BOUNDS[-1]


def test_points_are_differences_and_are_bounded() -> None:
    short, long = _Row(SHORT_S), _Row(LONG_S)
    for number in range(3 * POINTS):
        totals = CallTotals(Counter({("m", "hit", ""): 100 * number, ("m", "miss", "order"): 25 * number}))
        for row in (short, long):
            row.add(totals, number % 12, number * SHORT_S)
    points = short.as_dict()["points"]
    assert isinstance(points, list) and len(points) == POINTS
    assert points[0]["calls_per_s"] == 25 and points[0]["hit_ratio"] == 0.8 and points[0]["hit_p50_s"] is None
    rare = long.as_dict()["points"]
    assert isinstance(rare, list) and len(rare) == 3 * POINTS // 12 - 1
    assert rare[0]["calls_per_s"] == 25 and rare[0]["unconfirmed_s"] == 11


def test_what_goes_on_is_one_incident() -> None:
    incidents, key = Incidents(), ("hms_proxy_upstream_failures_total", "connect")
    counters: Counter[tuple[str, str]] = Counter()
    for now_s in (1.0, 2.0, 3.0):
        counters = counters + Counter({key: 2})
        incidents.compare(counters, now_s)
    incidents.compare(counters, 4.0)
    assert incidents.as_list() == [
        {"at_s": 3.0, "since_s": 1.0, "count": 6, "text": "a connection to the metastore failed"}
    ]
    incidents.compare(counters + Counter({key: 1}), 5.0)
    assert [one["count"] for one in incidents.as_list()] == [1, 6]
    for number in range(2 * MOST):
        incidents.compare(Counter({("hms_proxy_restarts_total", str(number)): 1}), 6.0 + number)
    assert len(incidents.as_list()) == MOST
