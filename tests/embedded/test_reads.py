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
from tests.differential.reads import Reads
from tests.embedded import filters
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection

READS = int(os.environ.get("DIFFERENTIAL_READS", "150"))
SEEDS = (run_seed(), run_seed() + 1)
"""So many reads, and as many filters, of each seed."""


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
                report = compare(direct, answered, itertools.islice(stream, READS))
                assert not report.differences, told("\n".join([report.summary(), *report.differences[:40]]))
