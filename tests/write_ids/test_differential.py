"""The metastore's answers and the proxy's for transactional tables, over lists and table ids of every kind."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.chance import run_seed, told
from tests.differential.compare import compare
from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection
from tests.write_ids.reads import World, encode
from tests.write_ids.transactions import Transactions

READS = int(os.environ.get("WRITE_ID_READS", by_tier(test=300, all=500, every=1500)))
SEED = run_seed()
ROUNDS = 5
CHANGES = int(by_tier(test=30, all=60, every=60))
SETTINGS = {
    "strict without proof, sql": {},
    "strict, sql": {"CONSISTENCY": "strict"},
    "passthrough without proof, sql": {"TRANSACTIONAL_READS": "passthrough"},
    "eventual without lists, sql": {"TRANSACTIONAL_READS": "eventual"},
    "strict without proof, thrift": {"STORE": "thrift"},
    "passthrough without proof, thrift": {"STORE": "thrift", "TRANSACTIONAL_READS": "passthrough"},
}


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.covers("Generated reads of transactional tables compared", "hive42", cache="SQL")
@pytest.mark.covers("Generated reads of transactional tables compared", "hive42", cache="Thrift")
def test_reads_are_equal(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], name: str) -> None:
    metastore = new_metastore("hive42")
    settings = SETTINGS[name]
    differences: list[str] = []
    with Transactions(*metastore.address) as direct, RawConnection(*metastore.address) as raw:
        world = World(direct, "acid", SEED)
        proxy = new_proxy(metastore, settings=settings, store="STORE" not in settings, prewarmed=False)
        for number in range(ROUNDS):
            for _ in range(CHANGES if number else 20):
                world.change()
            proxy.wait_event(direct.event_id())
            if not number:
                proxy.wait_prewarmed()
            with RawConnection(*proxy.address) as proxied:
                report = compare(raw, proxied, world.reads(READS // ROUNDS), encoded=encode)
                differences += report.differences
    assert not differences, told("\n".join([f"{len(differences)} differences", *differences[:5]]))
    counts: Counter[tuple[str, str]] = Counter()
    for (_, outcome, reason), count in proxy.requests().items():
        counts[outcome, reason] += int(count)
    slow_steps = "STORE" in settings  # over Thrift a connection without pauses is often ahead of the follower
    assert (("hit", "strict") in counts) == ("strict without proof" in name), counts
    assert counts["hit", "write_id"] > READS / (50 if slow_steps else 6), counts
    assert min(counts["miss", "table_id"], counts["miss", "write_id"]) > READS / 200 or "strict" in name, counts
