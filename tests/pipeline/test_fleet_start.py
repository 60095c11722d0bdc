"""Proxies that start from a snapshot: what they read from the database, by its own counters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import in_process
from tests.pipeline.conftest import Follow
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import MetastoreDatabase
from tests.testbed.processes import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
MEMBERS = 20
AT_ONCE = 4
TABLES = 5
PARTITIONS = 40
STARTED_S = 120.0
NEEDED = {"NOTIFICATION_LOG", "NOTIFICATION_SEQUENCE", "VERSION", "METASTORE_DB_PROPERTIES", "DBS", "CTLGS", "FUNCS"}
"""The log, what identifies the database, and the marks of what changes without an event."""

READ = "SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables"
READERS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'hms_reader' AND datname = current_database()"


@pytest.fixture
def metastore(bed: Bed) -> Iterator[Metastore]:
    """An embedded one on PostgreSQL, with partitioned tables."""
    made = bed.private_metastore("embedded-postgresql")
    with MetastoreClient(*made.address) as client:
        client.get_metastore_db_uuid()
        objects.create_database(client, "sales")
        for number in range(TABLES):
            table = objects.table("sales", f"t{number}", (("id", "int"),), (("ds", "string"),))
            created = objects.create_table(client, table)
            client.add_partitions([objects.partition(created, [str(day)]) for day in range(PARTITIONS)])
    yield made
    bed.release(made)


def rows_read(database: MetastoreDatabase) -> dict[str, int]:
    """By table, since the beginning. PostgreSQL counts those of a connection when it ends, at the latest."""

    def nobody_reads() -> bool:
        return database.rows(READERS) == [(0,)]

    assert wait_until(nobody_reads, STARTED_S)
    return {name: int(number) for name, number in database.rows(READ)}


def read_by(members: int, metastore: Metastore, follow: Follow, **settings: object) -> dict[str, int]:
    """The rows that so many proxies read from when they start until they answer."""
    database = metastore.database
    assert database is not None
    before = rows_read(database)
    for start in range(0, members, AT_ONCE):
        started = [follow(metastore, **settings) for _ in range(min(AT_ONCE, members - start))]
        for one in started:
            one.loaded()
            assert one.page.prewarmed
        for one in started:
            one.kill()
    after = rows_read(database)
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}


@pytest.mark.timeout(1200)
def test_twenty_proxies(metastore: Metastore, follow: Follow, tmp_path: Path) -> None:
    """None of them reads a row of a table or a partition; one without a snapshot reads them all."""
    assert metastore.database is not None
    config = load(cli={"store_url": metastore.database.reader_url})
    uri, _ = publish.publish(in_process, config, (tmp_path / "p").as_uri(), 1, 2, LineReport(lambda line: None))
    alone = read_by(1, metastore, follow)
    assert alone["PARTITIONS"] >= TABLES * PARTITIONS and alone["TBLS"] >= TABLES
    found = read_by(MEMBERS, metastore, follow, bootstrap=uri)
    assert found.keys() <= NEEDED, found
