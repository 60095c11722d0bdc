"""A database of which every answer takes seconds: slow is not hung."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

import pytest

from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore

HUNG_AFTER_S = 5
ONE_WAY_S = by_tier(test=0.3, all=0.6, every=0.6)  # twice that for a statement: within half of HUNG_AFTER_S
EVENTS = int(by_tier(test=1, all=2, every=2))


@pytest.mark.real
def test_a_follower_that_waits_for_single_answers_is_not_killed(
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    fault_proxy: Callable[[str, int], FaultProxy],
) -> None:
    metastore = new_metastore()
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, "d")
        table = objects.create_table(client, objects.table("d", "t", partition_keys=[("p", "string")]))
        objects.add_partitions(client, table, [["1"], ["2"]])
        assert metastore.database is not None
        slow = fault_proxy(metastore.database.host, metastore.database.port)
        settings = {"FOLLOWER_HUNG_AFTER_S": str(HUNG_AFTER_S)}
        through = metastore.database.behind(*slow.address).reader_url
        proxy = new_proxy(metastore, store_url=through, settings=settings)
        (follower,) = proxy.children()["follower"]
        restarts = proxy.status()["follower"]["restarts"]  # a busy machine may take long to start one
        slow.delay(ONE_WAY_S)
        began = time.monotonic()
        flush_everything(proxy)
        proxy.wait(lambda: "everything_changed" in report(proxy), "reloading everything")
        proxy.wait_prewarmed()
        assert time.monotonic() - began > 2 * HUNG_AFTER_S, "far longer than what counts as hung"
        for number in range(3, 3 + EVENTS):
            objects.add_partitions(client, table, [[str(number)]])
            proxy.wait_event(client.get_current_notificationEventId().eventId, 60)
        with MetastoreClient(*proxy.address) as reader:
            assert len(reader.get_partition_names("d", "t", -1)) == 2 + EVENTS
    assert proxy.children()["follower"] == [follower]
    assert proxy.status()["follower"]["restarts"] == restarts


def flush_everything(proxy: Proxy) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{proxy.admin_port}/admin/flush", method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def report(proxy: Proxy) -> str:
    """What the follower tells of itself."""
    return (proxy.directory / "data" / "follower.json").read_text()
