"""What an operator sees of a running proxy with an embedded metastore: `status`, /status, /history, the page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ops.test_cli import run
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import wait_until

pytestmark = pytest.mark.real
REASONS = "https://github.com/hms-cache-proxy/hms-cache-proxy/blob/main/docs/metrics.md#reason-"
SETTINGS = {"EMBEDDED": "true", "ADMIN_SHOW_USERS": "true"}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """With a table `sales.orders` that was read from the cache."""
    started = Proxy(tmp_path_factory.mktemp("status"), "", settings=SETTINGS).start(prewarmed=True)
    with MetastoreClient(*started.address) as client:
        client.set_ugi("etl", [])
        objects.create_database(client, "sales")
        objects.create_table(client, objects.table("sales", "orders"))
        started.wait(lambda: client.get_table("sales", "orders") and started.status()["calls"]["hits"] >= 15, "read")
    yield started
    started.close()


def test_calls_in_words_and_numbers(proxy: Proxy) -> None:
    counted = sum(proxy.requests().values())
    proxy.wait(lambda: proxy.status()["calls"]["total"] == counted, "told of all calls")  # it looks now and then
    status = proxy.status()
    calls = status["calls"]
    assert calls["total"] == sum(calls[kind] for kind in ("hits", "misses", "relays", "writes", "errors"))
    assert calls["writes"] == 2 and calls["hit_ratio"] == calls["hits"] / (calls["hits"] + calls["misses"])
    assert calls["upstream_seconds"] > 0
    assert status["banner"] == {
        "level": "good",
        "text": "All is well: reads are answered from the cache.",
        "advice": "",
    }
    assert status["cache_max_bytes"] == 8 << 30
    shown = run("status", "--url", f"http://127.0.0.1:{proxy.http_port}")
    assert shown.returncode == 0
    for words in ("All is well", f"{calls['hits']} hits", "of the cacheable reads are hits", "2 databases, 1 table"):
        assert words in shown.stdout, shown.stdout


def test_watch_shows_it_again(proxy: Proxy) -> None:
    url = f"http://127.0.0.1:{proxy.http_port}"
    command = [sys.executable, "-m", "hms_cache_proxy", "status", "--watch", "--url", url]
    watching = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    assert watching.stdout is not None
    seen = 0
    while seen < 2:
        seen += "hms-cache-proxy 0.1.0 at" in watching.stdout.readline()
    watching.kill()
    watching.communicate()


def tops(proxy: Proxy) -> Any:
    return json.loads(proxy.get("/history")[1])["tops"]


def read_often(proxy: Proxy) -> None:
    """As the user etl, until that has been seen: hits are counted by samples."""
    with MetastoreClient(*proxy.address) as client:
        client.set_ugi("etl", [])

        def seen() -> bool:
            for _ in range(10):
                client.get_table("sales", "orders")
            calls = tops(proxy).get("tables", {}).get("calls")
            return bool(calls) and calls[0]["number"] > 50

        assert wait_until(seen)


def test_tables_and_users_that_ask_most(proxy: Proxy) -> None:
    read_often(proxy)
    found = tops(proxy)
    assert [one["name"] for one in found["tables"]["calls"]] == ["hive.sales.orders"]
    reads = sum(number for (method, _, _), number in proxy.requests().items() if method == "get_table")
    assert found["tables"]["calls"][0]["number"] < 2 * reads + 100, "an estimate from samples"
    assert found["tables"]["seconds"][0]["name"] == "hive.sales.orders"  # it was created
    assert [one["name"] for one in found["users"]["calls"]] == ["etl"]


def test_history_and_what_went_wrong(proxy: Proxy) -> None:
    def history() -> Any:
        return json.loads(proxy.get("/history")[1])

    def well_known() -> bool:
        points = history()["minutes_5"]["points"]
        return any(point["hit_p50_s"] for point in points) and any(point["upstream_p99_s"] for point in points)

    assert wait_until(well_known), history()
    os.kill(proxy.children()["worker"][0], signal.SIGKILL)
    assert wait_until(lambda: "a process was restarted: worker-0" in [one["text"] for one in history()["incidents"]]), (
        history()["incidents"]
    )
    proxy.wait(proxy.ready, "ready again")


def test_time_at_the_metastore_is_a_part_of_the_whole(proxy: Proxy) -> None:
    with MetastoreClient(*proxy.address) as client:
        for _ in range(3):
            client.get_config_value("hive.metastore.uris", "")
    proxy.wait_counted()
    assert proxy.metric("hms_proxy_upstream_seconds_count", method="get_config_value") == 3
    there = proxy.metric("hms_proxy_upstream_seconds_sum", method="get_config_value")
    whole = proxy.metric("hms_proxy_request_seconds_sum", method="get_config_value")
    assert 0 < there <= whole
    assert proxy.metric("hms_proxy_mode", mode="cache") == 1 and proxy.metric("hms_proxy_ready") == 1

    def processes() -> set[str]:
        return {labels["process"] for labels, _ in proxy.samples("hms_proxy_process_cpu_seconds_total")}

    assert wait_until(lambda: processes() == {"supervisor", "worker-0", "follower", "metastore"}), processes()
    assert proxy.metric("hms_proxy_process_resident_bytes", process="worker-0", kind="private") > 1 << 20


def test_the_page_needs_nothing_else(proxy: Proxy) -> None:
    page = proxy.get("/")[1]
    beginning, script = page.split("<script>")
    named = set(re.findall(r"https?://[^\"']+", script))
    assert "http" not in beginning and named == {"http://www.w3.org/2000/svg", REASONS}, "nothing but a link's target"
    ids = set(re.findall(r'id="([\w-]+)"', page))
    used = set(re.findall(r'(?:\$|put|pill)\("([\w-]+)"', script))
    assert len(used) > 20 and used <= ids, used - ids


@pytest.mark.parametrize("size", ["1120,1600", "390,3000"], ids=["desk", "phone"])
def test_the_page_in_a_browser(proxy: Proxy, size: str) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no headless Chromium is installed")
    read_often(proxy)
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={size}", "--dump-dom"]
    url = f"http://127.0.0.1:{proxy.http_port}/"
    done = subprocess.run([*command, "--virtual-time-budget=4000", url], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    banner = re.search(r'<b id="banner-text">([^<]*)</b>', done.stdout)
    assert banner is not None and banner[1] == proxy.status()["banner"]["text"]
    for words in (
        "1 table",
        "get_table",
        "Hive 4.2.0",
        "hive.sales.orders",
        "<figcaption><b>Hit ratio</b>",
        '<path d="M',
        f'<a href="{REASONS}',
    ):
        assert words in done.stdout, words
    assert not re.search(r">(undefined|NaN|null)[ <]", done.stdout)
