"""The dashboard and the alerts, on a real Prometheus: each panel shows data of a real fleet, each alert can fire."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.queries import DASHBOARD, ROOT, check_names, expressions, panels
from tests.ops.test_peers import fleet
from tests.proxy import Proxy
from tests.testbed import ledger, objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.prometheus import Prometheus, program

RULES = ROOT / "conf" / "prometheus-rules.yml"
BLOB = "https://github.com/hms-cache-proxy/hms-cache-proxy/blob/main/"
PROMTOOL_S = 120
TRAFFIC_S = 8.0
DATA_S = 30.0


def test_every_query_is_of_metrics_that_exist() -> None:
    for _, query in expressions():
        check_names(query)


def test_panels_are_explained_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["title"] and panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        squares = {(x + place["x"], y + place["y"]) for x in range(place["w"]) for y in range(place["h"])}
        assert not squares & taken and max(x for x, _ in squares) < 24, panel["title"]
        taken |= squares
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert "$datasource" not in DASHBOARD.read_text("utf-8"), "it is written ${datasource}"


def test_links_lead_to_documents() -> None:
    links = json.loads(DASHBOARD.read_text("utf-8"))["links"]
    assert [link["title"] for link in links] == ["Reasons of misses", "Runbook"]
    for link in links:
        assert link["url"].startswith(BLOB), link
        assert (ROOT / link["url"].removeprefix(BLOB).partition("#")[0]).is_file(), link


@pytest.fixture
def scraped(bed: Bed, new_proxy: Callable[..., Proxy], tmp_path: Path, unique_name: str) -> Iterator[Prometheus]:
    """Two peers of which each wrote, read from the cache and from the metastore, while Prometheus looked."""
    proxies = fleet(new_proxy, bed.shared("embedded"), 2)
    prometheus = Prometheus(tmp_path / "prometheus", [f"127.0.0.1:{proxy.http_port}" for proxy in proxies])
    prometheus.start()
    try:
        prometheus.wait_scraped(len(proxies))
        until = time.monotonic() + TRAFFIC_S
        for number, proxy in enumerate(proxies):
            with MetastoreClient(*proxy.address) as client:
                objects.create_database(client, f"{unique_name}_{number}")
        number = 0
        while time.monotonic() < until or number < 20:
            number += 1
            proxy = proxies[number % 2]
            with MetastoreClient(*proxy.address) as client:
                database = f"{unique_name}_{number % 2}"
                objects.create_table(client, objects.table(database, f"t{number}"))
                for _ in range(5):
                    client.get_table(database, f"t{number}")
                client.get_all_tables(database)
                client.get_role_names()
            time.sleep(0.1)
        yield prometheus
    finally:
        prometheus.close()


@pytest.mark.real
def test_every_panel_shows_data(scraped: Prometheus) -> None:
    empty = {title: query for title, query in expressions() if not shown(scraped, query)}
    assert empty == {}


def shown(prometheus: Prometheus, query: str) -> list[dict[str, Any]]:
    """What a panel has, as Grafana asks for it; NaN is nothing. A counter that began later is waited for."""
    query = query.replace("$__rate_interval", "1m").replace("$instance", ".*")
    deadline = time.monotonic() + DATA_S
    while True:
        found = [sample for sample in prometheus.ask(query) if sample["value"][1] != "NaN"]
        if found or time.monotonic() > deadline:
            return found
        time.sleep(1.0)


def promtool(*arguments: str) -> str:
    """What it prints. AssertionError if it fails."""
    with ledger.starting(ledger.PROMETHEUS):
        done = subprocess.run(
            [str(program("promtool")), *arguments], capture_output=True, text=True, timeout=PROMTOOL_S
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.real
def test_promtool_accepts_the_rules_and_the_settings() -> None:
    promtool("check", "rules", str(RULES))
    promtool("check", "config", str(ROOT / "conf" / "prometheus.yml"))


CALLS = 'hms_proxy_requests_total{method="get_table",instance="p",'
FIRING: dict[str, dict[str, str]] = {
    "MetastoreProxyDown": {'up{job="hms-cache-proxy",instance="p"}': "0x120"},
    "MetastoreProxyNoWorkers": {'hms_proxy_children{child="worker"}': "0x120"},
    "MetastoreProxyErrors": {f'{CALLS}outcome="error"}}': "0+1x120", f'{CALLS}outcome="hit"}}': "0+9x120"},
    "MetastoreProxyServesStale": {f'{CALLS}outcome="hit",reason="stale"}}': "0+1x120"},
    "MetastoreProxyUnfenced": {f'{CALLS}outcome="miss",reason="unfenced"}}': "0+1x120"},
    "MetastoreUpstreamFailures": {'hms_proxy_upstream_failures_total{kind="connect"}': "0+1x120"},
    "MetastoreUpstreamCircuitOpen": {'hms_proxy_upstream_circuit{uri="thrift://h:1"}': "1x120"},
    "MetastoreCacheBehind": {"hms_proxy_upstream_event_id": "10+1x120", "hms_proxy_cursor_event_id": "9x120"},
    "MetastoreCacheUnconfirmed": {f'{CALLS}outcome="miss",reason="unconfirmed"}}': "0+1x120"},
    "MetastoreFollowerFails": {'hms_proxy_follower_steps_total{result="failed"}': "0+1x120"},
    "MetastoreCacheReset": {'hms_proxy_resets_total{reason="gap_in_log"}': "0x50 1x70"},
    "MetastoreFenceOld": {"hms_proxy_oldest_fence_seconds": "0+60x120"},
    "MetastoreProxyChildRestarts": {'hms_proxy_restarts_total{child="worker"}': "0x50 1x70"},
    "MetastoreProxyInternalErrors": {'hms_proxy_internal_errors_total{where="connection"}': "0x50 1x70"},
    "MetastoreProxyLimits": {'hms_proxy_limits_broken_total{limit="max_connections"}': "0x50 1x70"},
    "MetastoreProxyBudgetUsed": {
        'hms_proxy_budget_bytes{budget="memory"}': "80x120",
        'hms_proxy_budget_limit_bytes{budget="memory"}': "100x120",
    },
    "MetastoreCacheEvicts": {
        'hms_proxy_evictions_total{kind="table",instance="p"}': "0+1x120",
        f'{CALLS}outcome="miss",reason="full"}}': "0+1x120",
    },
    "MetastoreCacheHitsLow": {f'{CALLS}outcome="hit"}}': "0+4x120", f'{CALLS}outcome="miss"}}': "0+6x120"},
    "MetastoreProxyCertificateExpires": {'hms_proxy_tls_expiry_timestamp_seconds{certificate="c"}': "1000000x120"},
    "MetastoreProxyReloadFails": {'hms_proxy_reloads_total{what="certificate",result="failed"}': "0+1x120"},
    "MetastoreProxyPeerMissing": {'hms_proxy_peers{state="missing"}': "1x120"},
    "MetastoreProxyWritesWait": {
        'hms_proxy_peer_ack_seconds_bucket{le="0.5"}': "0x120",
        'hms_proxy_peer_ack_seconds_bucket{le="1"}': "0+1x120",
        'hms_proxy_peer_ack_seconds_bucket{le="+Inf"}': "0+1x120",
    },
}
"""For each alert what makes it fire: series, with a value every minute, as promtool writes them."""

AT_ITS_START = {'hms_proxy_resets_total{reason="log_purged"}': "_x50 1x70"}
"""What makes MetastoreCacheReset fire, too: Prometheus has nothing from before."""

UNDER_ANOTHER_JOB = {
    'up{job="kubernetes-pods",instance="p"}': "1x30 0x90",
    'hms_proxy_info{job="kubernetes-pods",instance="p",version="1"}': "1x30 _x90",
}
"""What makes MetastoreProxyDown fire, too: a target that Prometheus has found by the pod's annotations."""

HEALTHY = {
    'up{job="hms-cache-proxy",instance="p"}': "1x120",
    'up{job="kubernetes-pods",instance="p"}': "1x120",
    'hms_proxy_info{job="kubernetes-pods",instance="p",version="1"}': "1x120",
    'up{job="kubernetes-pods",instance="something else"}': "0x120",
    'hms_proxy_children{child="worker"}': "2x120",
    f'{CALLS}outcome="hit"}}': "0+90x120",
    f'{CALLS}outcome="miss",reason="fence"}}': "0+1x120",
    "hms_proxy_upstream_event_id": "10+1x120",
    "hms_proxy_cursor_event_id": "10+1x120",
    'hms_proxy_follower_steps_total{result="idle"}': "0+50x120",
    "hms_proxy_oldest_fence_seconds": "0x120",
    'hms_proxy_tls_expiry_timestamp_seconds{certificate="c"}': "99999999x120",
    'hms_proxy_peers{state="leased"}': "1x120",
    'hms_proxy_peers{state="missing"}': "0x120",
    'hms_proxy_resets_total{reason="first_start"}': "_x90 1x30",
    'hms_proxy_resets_total{reason="gap_in_log"}': "1x120",
}
ASKED = {"MetastoreCacheEvicts": "100m", "MetastoreCacheHitsLow": "90m"}
USUALLY_ASKED = "60m"


def unit_test(series: dict[str, str], query: str, at: str, value: float | None) -> dict[str, Any]:
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": at, "exp_samples": samples}],
    }


def test_each_alert_has_a_case() -> None:
    rules = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    assert FIRING.keys() == {rule["alert"] for rule in rules}


@pytest.mark.real
def test_each_alert_can_fire_and_none_does_without_a_reason(tmp_path: Path) -> None:
    tests = [unit_test(HEALTHY, "count(ALERTS)", "100m", None)]
    more = ("MetastoreCacheReset", AT_ITS_START), ("MetastoreProxyDown", UNDER_ANOTHER_JOB)
    for name, series in (*FIRING.items(), *more):
        query = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
        at = ASKED.get(name, "55m" if any(" " in values for values in series.values()) else USUALLY_ASKED)
        tests.append(unit_test(series, query, at, 1))
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yml"))
