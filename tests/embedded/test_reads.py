"""The embedded metastore over a database that Hive 4.2 has filled: both are asked the same, and say the same."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hms_cache_proxy.embedded.handlers import METHODS
from tests.differential.compare import compare
from tests.differential.contents import fill
from tests.differential.reads import Reads
from tests.embedded.process import Embedded
from tests.testbed.client import MetastoreClient
from tests.testbed.hive import Metastore
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.raw import RawConnection

READS = int(os.environ.get("DIFFERENTIAL_READS", "500"))
DIFFERENT = 0.03
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "11"))


@pytest.mark.real
@pytest.mark.flaky(reruns=0)
@pytest.mark.timeout(600)
def test_reads_are_equal(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    metastore = new_metastore("hive42")
    assert isinstance(metastore.database, MetastoreDatabase)
    with MetastoreClient(*metastore.address) as client:
        world = fill(client, "df", SEED, databases=2, tables=20, partitions=8)
    settings = {
        "METASTORE_FOREIGN_DATABASE": "true",
        "METASTORE_WAREHOUSE_DIR": metastore.warehouse.as_uri(),
        "METASTORE_EXTERNAL_DIR": (metastore.directory / "external").as_uri(),
    }
    embedded = Embedded(tmp_path / "embedded", metastore.database.store_url, settings=settings).start()
    try:
        with RawConnection(*metastore.address) as direct, RawConnection(*embedded.address) as answered:
            reads = itertools.islice(Reads(world, SEED, METHODS), READS)
            report = compare(direct, answered, reads)
    finally:
        embedded.stop()
    # docs/metastore.md says what differs: texts of what is no filter, `|` as a pattern, the order of names
    assert len(report.differences) <= READS * DIFFERENT, "\n".join([report.summary(), *report.differences[:40]])
