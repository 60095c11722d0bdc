"""The metastore's answers and the proxy's, over generated contents and reads: cold, warm, and after random changes."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest
from thrift.Thrift import TException

from tests.chance import run_seed, told
from tests.differential.all_reads import ONE_TRY, AllReads
from tests.differential.changes import AllChanges, Changes
from tests.differential.compare import Report, compare
from tests.differential.contents import KINDS_23, fill
from tests.differential.mutations import Mutations
from tests.differential.reads import METHODS_23, OldReads, Reads, Reads31, Request
from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.mariadb import MariaDatabase
from tests.testbed.metastore import Metastore
from tests.testbed.postgres import Collation
from tests.testbed.raw import RawConnection

READS = int(os.environ.get("DIFFERENTIAL_READS", "20000"))
LENGTH = by_tier(test=0.06, all=0.3, every=1)
CHANGES = int(by_tier(test=25, all=100, every=100))
"""Between two rounds."""
MUTATED = by_tier(test=0.02, all=0.04, every=0.2)
"""The share of READS of requests that are changed in odd ways."""
SEED = run_seed()
ROUNDS = 6
TRAILING_S = 3.0  # the window of Hive 2.3's log that is read again


def check(report: Report) -> None:
    assert not report.differences, told("\n".join([report.summary(), *report.differences[:5]]))


def current_event(client: MetastoreClient) -> int:
    return int(client.get_current_notificationEventId().eventId)


def hit_share(proxy: Proxy) -> float:
    counts = proxy.requests()
    hits = sum(count for (_, outcome, _), count in counts.items() if outcome == "hit")
    return hits / sum(counts.values())


@dataclass(frozen=True)
class Setup:
    """`share` of READS, `hits` at least so many of all calls; `store` False: the cache is read over Thrift.

    `flavour`: of the metastore.
    """

    collation: Collation
    share: float
    hits: float
    store: bool = True
    flavour: str = "hive42"
    rounds: int = ROUNDS


SETUPS = {
    "sql": Setup(Collation.C, 1, 0.5),
    "sql, en_US": Setup(Collation.EN_US, 0.1, 0.2),
    "sql, MariaDB": Setup(Collation.C, 0.05, 0.4, flavour="hive42-mariadb", rounds=3),
    "thrift": Setup(Collation.C, 0.25, 0.3, store=False),
}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS.keys())
@pytest.mark.covers("Generated reads compared with the metastore's", "hive42", "hive42-mariadb", cache="SQL")
@pytest.mark.covers("Generated reads compared with the metastore's", "hive42", cache="Thrift")
def test_reads_are_equal(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], setup: Setup
) -> None:
    """20,000 reads times LENGTH: cold, warm, and after each of several rounds of changes has been followed."""
    metastore = new_metastore(setup.flavour, collation=setup.collation)
    on_mariadb = isinstance(metastore.database, MariaDatabase)
    if isinstance(metastore.database, MariaDatabase):
        metastore.database.widen()
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*metastore.address))
        direct = stack.enter_context(RawConnection(*metastore.address))
        world = fill(client, "df", SEED, latin1=on_mariadb)
        settings = {} if setup.store else {"STORE": "thrift"}
        proxy = new_proxy(metastore, store=setup.store, settings=settings, prewarmed=False)
        through = stack.enter_context(MetastoreClient(*proxy.address))
        changes = Changes(world, client, through)
        for number in range(setup.rounds):
            if number == 1:
                proxy.wait_prewarmed()
            if number > 1:
                for _ in range(CHANGES):
                    changes.one()
                proxy.wait_event(current_event(client))
            with RawConnection(*proxy.address) as proxied:
                count = int(READS * setup.share * LENGTH) // setup.rounds
                reads: itertools.islice[Request] = itertools.islice(Reads(world, SEED + number), count)
                check(compare(direct, proxied, reads))
        assert hit_share(proxy) > setup.hits, proxy.requests()


@pytest.mark.real
@pytest.mark.timeout(600)
def test_all_reads(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    """Every field and method, hostile filters and names; a short run, also right after changes through the proxy.
    `make differential` is the long one."""
    metastore = new_metastore("hive42", settings=ONE_TRY)
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*metastore.address))
        direct = stack.enter_context(RawConnection(*metastore.address))
        world = fill(client, "all", SEED, databases=2, tables=14, partitions=6, wide=True)
        proxy = new_proxy(metastore)
        through = stack.enter_context(MetastoreClient(*proxy.address))
        changes = AllChanges(world, client, through)
        for _ in range(40):
            changes.one()
        proxy.wait_event(current_event(client))
        proxied = stack.enter_context(RawConnection(*proxy.address))
        reads = AllReads(world, SEED)
        check(compare(direct, proxied, itertools.islice(reads, int(READS * 0.02))))
        changed = Mutations(world, SEED).encode
        some = itertools.islice(reads, int(READS * MUTATED))
        check(compare(direct, proxied, some, encoded=changed, well_formed=False))
        for _ in range(10):
            changes.one(through=True)
            check(compare(direct, proxied, itertools.islice(reads, int(READS * 0.0005))))
        assert hit_share(proxy) > 0.2, proxy.requests()


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sql", "thrift"])
@pytest.mark.covers("Generated reads compared with the metastore's", "hive23-postgresql", cache="SQL")
@pytest.mark.covers("Generated reads compared with the metastore's", "hive23", cache="Thrift")
def test_hive_23(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], store: str) -> None:
    """Its log comes late and out of order; some patterns cost it 20 s of retries, so those methods are left out."""
    over_sql = store == "sql"
    metastore = new_metastore("hive23-postgresql" if over_sql else "hive23")
    methods = METHODS_23 - {"get_databases", "get_tables", "get_tables_by_type"}
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*metastore.address))
        direct = stack.enter_context(RawConnection(*metastore.address))
        world = fill(client, "df", SEED, kinds=KINDS_23, databases=1, tables=10)
        proxy = new_proxy(metastore, store=over_sql, settings={} if over_sql else {"STORE": "thrift"}, prewarmed=False)
        proxy.wait_prewarmed()
        through = stack.enter_context(MetastoreClient(*proxy.address))
        changes = Changes(world, client, through, statistics_are_logged=False)
        for number in range(2):
            if number:
                for _ in range(20):
                    changes.one()
                proxy.wait_event(current_event(client))
                time.sleep(0.5 if over_sql else TRAILING_S)
            with RawConnection(*proxy.address) as proxied:
                reads = itertools.islice(OldReads(world, SEED + number, methods), int(READS * 0.01))
                check(compare(direct, proxied, reads, version="2.3.10"))
        # A relayed read is a floor until the follower's next turn; over Thrift a turn takes seconds on a busy machine.
        assert hit_share(proxy) > (0.2 if over_sql else 0.05), proxy.requests()


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["sql", "thrift"])
@pytest.mark.covers("Generated reads compared with the metastore's", "hive31", cache="SQL")
@pytest.mark.covers("Generated reads compared with the metastore's", "hive31", cache="Thrift")
def test_hive_31(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], store: str) -> None:
    """A short run; `make differential UPSTREAM=hive31` is the long one. Its log has no events of statistics."""
    metastore = new_metastore("hive31")
    with ExitStack() as stack:
        client = stack.enter_context(MetastoreClient(*metastore.address))
        direct = stack.enter_context(RawConnection(*metastore.address))
        world = fill(client, "df", SEED, databases=1, tables=10, partitions=5)
        settings = {} if store == "sql" else {"STORE": "thrift"}
        proxy = new_proxy(metastore, store=store == "sql", settings=settings, prewarmed=False)
        proxy.wait_prewarmed()
        through = stack.enter_context(MetastoreClient(*proxy.address))
        changes = Changes(world, client, through, statistics_are_logged=False)
        for number in range(2):
            if number:
                for _ in range(20):
                    changes.one()
                proxy.wait_event(current_event(client))
            with RawConnection(*proxy.address) as proxied:
                reads = itertools.islice(Reads31(world, SEED + number), int(READS * 0.01))
                check(compare(direct, proxied, reads, version="3.1.3"))
        assert hit_share(proxy) > 0.2, proxy.requests()


@pytest.mark.real
@pytest.mark.timeout(600)
def test_old_methods_are_equal_to_hive_40(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]
) -> None:
    """get_table and get_table_objects_by_name, which Hive 4.0.1 removed, against 4.0.0 over the same database."""
    metastore = new_metastore("hive42")
    with MetastoreClient(*metastore.address) as client:
        world = fill(client, "old", SEED, databases=2, partitions=2)
    proxy = new_proxy(metastore)
    assert metastore.database is not None
    oracle = new_metastore("hive40", database=metastore.database, settings={"metastore.schema.verification": "false"})
    makers = [OldReads.make_get_table, OldReads.make_get_table_objects_by_name]
    reads = OldReads(world, SEED)
    requests = (reads.rng.choice(makers)(reads) for _ in range(1500))
    with RawConnection(*oracle.address) as direct, RawConnection(*proxy.address) as proxied:
        check(compare(direct, proxied, requests))


@pytest.mark.real
@pytest.mark.parametrize(
    ("setting", "value", "maker"),
    [
        ("metastore.limit.partition.request", "3", Reads.make_get_partitions_ps),  # refuses long lists
        ("metastore.direct.sql.batch.size", "2", Reads.make_get_partitions_by_names),  # 4.2 lists once for each batch
        ("metastore.partition.order.expr", '"PART_NAME" desc', Reads.make_get_partitions_ps),  # a limit cuts off others
        ("metastore.try.direct.sql.ddl", "false", Reads.make_get_partitions_by_names),  # the ORM reads most lists
    ],
)
def test_a_metastore_that_answers_otherwise(
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    setting: str,
    value: str,
    maker: Callable[[Reads], Request],
) -> None:
    """It has a setting that changes lists of partitions: so does the proxy."""
    metastore = new_metastore("hive42", settings={setting: value})
    with MetastoreClient(*metastore.address) as client, RawConnection(*metastore.address) as direct:
        world = fill(client, "settings", SEED, databases=1, tables=3, partitions=8)
        proxy = new_proxy(metastore)
        reads = Reads(world, SEED)
        makers = [Reads.make_get_partitions, Reads.make_get_partitions_by_filter, maker]
        with RawConnection(*proxy.address) as proxied:
            check(compare(direct, proxied, (reads.rng.choice(makers)(reads) for _ in range(150))))
    assert any(reason == "settings" for _, _, reason in proxy.requests())


@pytest.mark.real
def test_a_metastore_that_shows_bit_vectors(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]
) -> None:
    """metastore.stats.fetch.bitvector and .kll show what is not read into the cache: statistics are the metastore's."""
    shown = {"metastore.stats.fetch.bitvector": "true", "metastore.stats.fetch.kll": "true"}
    metastore = new_metastore("hive42", settings=shown)
    with MetastoreClient(*metastore.address) as client, RawConnection(*metastore.address) as direct:
        world = fill(client, "vectors", SEED, databases=1, tables=6, partitions=4)
        changes = Changes(world, client)
        for change in [changes.change_table_statistics, changes.change_partition_statistics] * 20:
            with suppress(TException):  # a column that the table does not have
                change()
        proxy = new_proxy(metastore)
        reads = Reads(world, SEED)
        makers = [Reads.make_get_table_statistics_req, Reads.make_get_partitions_statistics_req]
        with RawConnection(*proxy.address) as proxied:
            check(compare(direct, proxied, (reads.rng.choice(makers)(reads) for _ in range(150))))
    assert any(reason == "settings" for _, _, reason in proxy.requests())
