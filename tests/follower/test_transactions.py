"""Which table a transaction writes: nothing but the log tells, and tables are renamed meanwhile.

A commit can set a parameter of a table that has no transactions (a key-value commit), and logs only that it was made.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hive_metastore.ttypes import (  # type: ignore[import-untyped]  # generated
    AllocateTableWriteIdsRequest,
    CommitTxnKeyValue,
    CommitTxnRequest,
    GetTableRequest,
    OpenTxnRequest,
)

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.config import paths
from tests.follower.harness import CATALOG, Followed
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
Follow = Callable[..., Followed]
COMMITS = 20
FORGET = """
import sys
from pathlib import Path
from hms_cache_proxy.cache import environment, layout
opened = environment.open_for_writing(Path(sys.argv[1]), environment.UNBOUNDED_MAP)
with opened.env.begin(write=True) as txn:
    assert txn.delete(layout.TRANSACTIONS_KEY, db=opened.meta)
"""
"""In a process of its own, as this one has the cache open: takes the notes of open transactions away."""


@pytest.fixture(scope="module")
def embedded(bed: Bed) -> Iterator[Metastore]:
    metastore = bed.private_metastore("embedded")
    yield metastore
    bed.release(metastore)


@pytest.fixture(params=["hive42", "embedded"])
def metastore(request: pytest.FixtureRequest, hms42: Metastore) -> Metastore:
    """Hive 4.2, and the embedded one."""
    found: Metastore = hms42 if request.param == "hive42" else request.getfixturevalue("embedded")
    return found


@pytest.fixture(params=["sql", "thrift"])
def start(request: pytest.FixtureRequest, follow: Follow) -> Follow:
    """A follower that never sweeps: what it does not learn it never sees."""
    settings = {"store": "thrift"} if request.param == "thrift" else {}
    return partial(follow, follower__revalidate_interval_s=3600, **settings)


@pytest.fixture
def client(metastore: Metastore) -> Iterator[MetastoreClient]:
    with MetastoreClient(*metastore.address) as connection:
        yield connection


@pytest.fixture
def database(client: MetastoreClient, unique_name: str) -> Iterator[str]:
    """Two databases, this one and another of this name with `_2`."""
    for name in (unique_name, f"{unique_name}_2"):
        objects.create_database(client, name)
    yield unique_name
    for name in (unique_name, f"{unique_name}_2"):
        client.drop_database(name, True, True)


class Written:
    """A plain table, and a transaction that will set a parameter of it."""

    def __init__(self, client: MetastoreClient, database: str, name: str, **fields: Any) -> None:
        self._client = client
        self._fields = fields
        self.place = (database, name)
        self._make()
        self.table_id = client.get_table_req(GetTableRequest(dbName=database, tblName=name)).table.id
        self.version = 10
        self.transaction = 0

    def _make(self) -> None:
        objects.create_table(self._client, objects.table(*self.place, parameters={"_meta_k": "10"}, **self._fields))

    def begin(self) -> None:
        self.transaction = self._client.open_txns(OpenTxnRequest(1, "tests", "tests")).txn_ids[0]
        request = AllocateTableWriteIdsRequest(*self.place, txnIds=[self.transaction])
        self._client.allocate_table_write_ids(request)

    def rename(self, database: str, name: str) -> None:
        table = objects.read_table(self._client, *self.place)
        table.dbName, table.tableName = database, name
        self._client.alter_table(*self.place, table)
        self.place = (database, name)

    def replace(self) -> None:
        """Another table is made under this one's name, dropped and made again."""
        for _ in range(2):
            self._make()
            self._client.drop_table(*self.place, True)
        self._make()

    def commit(self) -> None:
        self.version += 1
        pair = CommitTxnKeyValue(self.table_id, "_meta_k", str(self.version))
        self._client.commit_txn(CommitTxnRequest(self.transaction, keyValue=pair))

    def is_seen(self, followed: Followed) -> bool:
        """Has the cache the table with what was committed?"""
        with followed.reader.snapshot() as cache:
            entry = cache.table(CATALOG, *(each.encode() for each in self.place))
            assert isinstance(entry, TableEntry) and entry.body is not None, self.place
            return b"_meta_k\x00\x00\x00\x02%d" % self.version in entry.body


def renamed(written: Written) -> None:
    """Once."""
    database, name = written.place
    written.rename(database, f"{name}_a")


def renamed_twice(written: Written) -> None:
    database, name = written.place
    written.rename(database, f"{name}_a")
    written.rename(database, f"{name}_b")


def moved(written: Written) -> None:
    """To another database and another name."""
    database, name = written.place
    written.rename(f"{database}_2", f"{name}_a")


def replaced(written: Written) -> None:
    """Another table has its old name."""
    database, name = written.place
    written.rename(database, f"{name}_a")
    after, written.place = written.place, (database, name)
    written.replace()
    written.place = after


def there_and_back(written: Written) -> None:
    database, name = written.place
    written.rename(f"{database}_2", name)
    written.rename(database, name)


WAYS = (renamed, renamed_twice, moved, replaced, there_and_back)


def ways(client: MetastoreClient, database: str, prefix: str) -> dict[Callable[[Written], None], Written]:
    """A table for each way of renaming it."""
    return {way: Written(client, database, f"{prefix}_{way.__name__}") for way in WAYS}


def missed(followed: Followed, tables: list[dict[Callable[[Written], None], Written]]) -> list[tuple[str, str]]:
    """What is not in the cache after the next step."""
    followed.confirmed()
    return [written.place for some in tables for written in some.values() if not written.is_seen(followed)]


def test_every_key_value_commit_is_seen(
    start: Follow, metastore: Metastore, client: MetastoreClient, database: str
) -> None:
    """And no partition is read for a write id."""
    written, parted = Written(client, database, "t"), Written(client, database, "p", partition_keys=(("k", "string"),))
    objects.add_partitions(client, objects.read_table(client, *parted.place), [("1",), ("2",)])
    followed = start(metastore, include=f"{database}*.*")
    followed.loaded()

    def partition_set() -> int:
        with followed.reader.snapshot() as cache:
            entry = cache.table(CATALOG, *(each.encode() for each in parted.place))
            assert isinstance(entry, TableEntry) and entry.partitions_loaded
            return entry.set_number

    before = partition_set()
    parted.begin()
    seen = 0
    for _ in range(COMMITS):
        written.begin()
        written.commit()
        followed.confirmed()
        seen += written.is_seen(followed)
    assert seen == COMMITS
    assert partition_set() == before
    assert "event not understood" not in followed.log.read_text()


def test_renames_between_the_write_and_the_commit(
    start: Follow, metastore: Metastore, client: MetastoreClient, database: str
) -> None:
    """Followed in steps of their own, and all in one step."""
    steps, one = ways(client, database, "steps"), ways(client, database, "one")
    followed = start(metastore, include=f"{database}*.*")
    followed.loaded()
    for way, written in steps.items():
        written.begin()
        followed.confirmed()
        way(written)
        followed.confirmed()
        written.commit()
    assert not missed(followed, [steps])
    assert followed.process is not None
    followed.process.send_signal(signal.SIGSTOP)
    for way, written in one.items():
        written.begin()
        way(written)
        written.commit()
    followed.process.send_signal(signal.SIGCONT)
    assert not missed(followed, [one])


def test_renames_while_the_follower_is_away(
    start: Follow, metastore: Metastore, client: MetastoreClient, database: str
) -> None:
    """It stops before the rename, and after it; and one that begins with an empty cache after it."""
    before, after = (ways(client, database, prefix) for prefix in ("before", "after"))
    followed = start(metastore, include=f"{database}*.*")
    followed.loaded()
    for written in (*before.values(), *after.values()):
        written.begin()
    for way, written in after.items():
        way(written)
    followed.confirmed()
    followed.kill()
    for way, written in before.items():
        way(written)
    followed.start()
    other = start(metastore, include=f"{database}*.*")
    for one in (followed, other):
        one.loaded()
    for written in (*before.values(), *after.values()):
        written.commit()
    for one in (followed, other):
        assert not missed(one, [before, after])


@pytest.mark.parametrize("metastore", ["embedded"], indirect=True)
def test_a_cache_without_notes(start: Follow, metastore: Metastore, client: MetastoreClient, database: str) -> None:
    """It was filled from a snapshot, or by a version that made no notes: the rows before its event tell."""
    before, after = (ways(client, database, prefix) for prefix in ("before", "after"))
    followed = start(metastore, include=f"{database}*.*")
    followed.loaded()
    for written in (*before.values(), *after.values()):
        written.begin()
    for way, written in before.items():
        way(written)
    followed.confirmed()
    followed.kill()
    subprocess.run([sys.executable, "-c", FORGET, str(paths.cache(followed.config))], check=True)
    for way, written in after.items():
        way(written)
    for written in (*before.values(), *after.values()):
        written.commit()
    followed.start()
    followed.loaded()
    assert not missed(followed, [before, after])
