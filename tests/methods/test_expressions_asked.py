"""A running Hive 4.2.0 is asked what its planner asks by expression, and so is a dispatcher: what it answers from the
cache is what the metastore says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.methods.readers.filter_match import begins_of, values_in
from hms_cache_proxy.methods.readers.part_names import DEFAULT_PARTITION
from hms_cache_proxy.metrics import WorkerMetrics
from tests.expressions.captured import Captured, CapturedTable, tables, vectors
from tests.follower.harness import Followed
from tests.lengths import by_tier
from tests.methods.local import Local
from tests.methods.oracle import Oracle
from tests.methods.structs import descriptor, struct
from tests.methods.test_expressions import READERS
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
NO_LOCATION = {"location": None}
EXPRESSIONS = int(by_tier(test=40, all=200, every=1000))


def make(hms: Oracle, database: bytes, name: str, table: CapturedTable) -> None:
    """A captured table, with its partitions in directories of their own below the table's."""
    keys = [struct("FieldSchema", name=key, type=kind) for key, kind in table.keys]
    fields: dict[str, Any] = {"parameters": {b"EXTERNAL": b"TRUE"}, "tableType": b"EXTERNAL_TABLE"}
    made = {"dbName": database, "tableName": name.encode(), "sd": descriptor(**NO_LOCATION), "partitionKeys": keys}
    hms.do("create_table", tbl=struct("Table", **made, **fields))
    begins = begins_of(table.keys)
    where = {"dbName": database, "tableName": name.encode(), "sd": descriptor(**NO_LOCATION), "parameters": {}}
    rows = [struct("Partition", values=values_in(name_of, begins), **where) for name_of in table.names]
    hms.do("add_partitions", new_parts=rows)


@pytest.fixture
def local(hms42: Metastore, unique_name: str, tmp_path: Path) -> Iterator[Local]:
    """A dispatcher over a cache of the captured tables, in this database."""
    assert hms42.database is not None
    database = unique_name.encode()
    with Oracle("{}:{}".format(*hms42.address)) as hms:
        hms.do("create_database", database=struct("Database", name=database))
        for name, table in tables().items():
            make(hms, database, name, table)
        settings = {"store_url": hms42.database.reader_url, "include": [f"{unique_name}.*"]}
        with Followed(tmp_path / "data", upstream=hms42.uri, **settings) as followed:
            followed.loaded()
            address = hms42.uri.removeprefix("thrift://")
            with closing(Local.connect(followed, address, WorkerMetrics())) as connected:
                yield connected
        hms.do("drop_database", name=database, deleteData=True, cascade=True)


def test_hits_are_the_metastores(local: Local, unique_name: str) -> None:
    """486 of 585 are hits; the first of each route is relayed."""
    answered = [captured for captured in vectors() if not isinstance(captured.selected, str)]
    by: dict[str, Counter[str]] = {method: Counter() for method in READERS}
    for captured in random.sample(answered, min(EXPRESSIONS, len(answered))):
        for method in READERS:
            request = asked_for(captured, unique_name)
            asked = local.ask(method, req=request)
            by[method][asked.by] += 1
            if asked.by == "hit":
                own = local.oracle.read(method, req=request)
                assert (asked.reply.type, asked.reply.plain) == (own.type, own.plain), (method, captured.filter)
    for method, counts in by.items():
        assert counts["hit"] > counts.total() / 3, (method, counts)


def asked_for(captured: Captured, database: str) -> Any:
    """As Hive 4's planner does."""
    place = {"dbName": database.encode(), "tblName": captured.table.encode(), "expr": captured.expression}
    return struct("PartitionsByExprRequest", **place, defaultPartitionName=DEFAULT_PARTITION, maxParts=-1)
