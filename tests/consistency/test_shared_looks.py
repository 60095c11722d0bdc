"""Strict reads through a whole proxy: they see what was written elsewhere before they were sent, and share looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

READERS, READS, WRITES = 8, 100, 20
MOST_LOOKS_PER_S = 300
BY_ITSELF_PER_S = 60
"""Steps that a busy follower begins by itself: after changes, and for the slow sweep."""


@pytest.mark.real
def test_strict_reads_share_looks(bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    """Two workers; a writer that goes past the proxy."""
    metastore = bed.shared("embedded")
    proxy = new_proxy(metastore, settings={"WORKERS": "2", "CONSISTENCY": "strict"})
    written, wrong = [0], list[tuple[int, int]]()

    def read() -> None:
        with MetastoreClient(*proxy.address) as client:
            for _ in range(READS):
                least = written[0]
                found = int(client.get_table(unique_name, "t").parameters["number"])
                if found < least:
                    wrong.append((found, least))

    with MetastoreClient(*metastore.address) as writer:
        objects.create_database(writer, unique_name)
        table = objects.table(unique_name, "t")
        table.parameters["number"] = "0"
        table = objects.create_table(writer, table)
        steps, began_s = proxy.metric("hms_proxy_follower_steps_total"), time.monotonic()
        readers = [threading.Thread(target=read) for _ in range(READERS)]
        for reader in readers:
            reader.start()
        for number in range(1, WRITES + 1):
            table.parameters["number"] = str(number)
            writer.alter_table(unique_name, "t", table)
            written[0] = number
            time.sleep(0.02)
        for reader in readers:
            reader.join()
        steps, took_s = proxy.metric("hms_proxy_follower_steps_total") - steps, time.monotonic() - began_s
    assert not wrong, wrong[:5]
    answered = {key: int(count) for key, count in proxy.requests().items() if key[0] == "get_table"}
    assert sum(answered.values()) >= READERS * READS
    assert {key[1:] for key in answered} <= {("hit", ""), ("miss", "strict"), ("miss", "unsettled")}, answered
    assert answered["get_table", "hit", ""] > READERS, answered
    assert steps < (MOST_LOOKS_PER_S + BY_ITSELF_PER_S) * took_s + READERS, (steps, took_s, answered)
