"""Generated reads give what the metastore says, cold, warm, and after changes that went through the proxy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.chance import run_seed, told
from tests.differential.changes import Changes
from tests.differential.compare import compare
from tests.differential.contents import fill
from tests.differential.reads import Reads
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection
from tests.ttl.conftest import ALWAYS

SEED = run_seed()


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.covers("Generated reads compared with the metastore's", "hive42", cache="TTL mode")
def test_reads_are_equal(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    """A short run; `make differential STORE=ttl` is the long one."""
    metastore = new_metastore("hive42")
    proxy = new_proxy(metastore, store=False, settings={**ALWAYS, "TTL_CACHE_MISSING": "true"})
    with (
        MetastoreClient(*metastore.address) as client,
        MetastoreClient(*proxy.address) as through,
        RawConnection(*metastore.address) as direct,
    ):
        world = fill(client, "df", SEED, databases=2, tables=12, partitions=6)
        changes = Changes(world, through, through)
        for number in range(4):
            for _ in range(15 * (number // 2)):
                changes.one()
            with RawConnection(*proxy.address) as proxied:
                report = compare(direct, proxied, itertools.islice(Reads(world, SEED + number // 2), 150))
            assert not report.differences, told("\n".join([report.summary(), *report.differences[:5]]))
    counts = proxy.requests()
    hits = sum(count for (_, outcome, _), count in counts.items() if outcome == "hit")
    assert hits > 150, counts
