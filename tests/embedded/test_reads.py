"""The embedded metastore over a database that Hive 4.2 has filled: both are asked the same, and say the same."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import pytest

from hms_cache_proxy.embedded.handlers import METHODS
from tests.chance import run_seed, told
from tests.differential.compare import compare
from tests.differential.contents import fill
from tests.differential.reads import Reads, Request
from tests.embedded import filters
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection

READS = int(os.environ.get("DIFFERENTIAL_READS", "150"))
SEEDS = (run_seed(), run_seed() + 1)
"""So many reads, and as many filters, of each seed."""


def cuts_an_unordered_list(request: Request) -> bool:
    """get_partition_names_ps has no order: which names a limit leaves is the choice of the database's plan."""
    method, arguments = request
    if not method.startswith("get_partition_names_ps"):
        return False
    limit = arguments["req"].maxParts if "req" in arguments else arguments["max_parts"]
    return limit is not None and limit > 0


@pytest.mark.real
@pytest.mark.timeout(600)
def test_reads_are_equal(new_metastore: Callable[..., Metastore]) -> None:
    metastore = new_metastore("hive42")
    with MetastoreClient(*metastore.address) as client:
        world = fill(client, "df", SEEDS[0], databases=2, tables=20, partitions=8)
        filters.make_tables(client, "filters")
    settings = {
        "METASTORE_FOREIGN_DATABASE": "true",
        "METASTORE_WAREHOUSE_DIR": metastore.warehouse.as_uri(),
        "METASTORE_EXTERNAL_DIR": metastore.external.as_uri(),
    }
    embedded = new_metastore("embedded-postgresql", database=metastore.database, settings=settings)
    with RawConnection(*metastore.address) as direct, RawConnection(*embedded.address) as answered:
        for seed in SEEDS:
            for stream in (Reads(world, seed, METHODS), filters.requests("filters", seed)):
                compared = itertools.islice(itertools.filterfalse(cuts_an_unordered_list, stream), READS)
                report = compare(direct, answered, compared)
                assert not report.differences, told("\n".join([report.summary(), *report.differences[:40]]))
