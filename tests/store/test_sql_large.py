"""Many partitions, and databases that do not order text by bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.store.protocol import PartitionRecord, Snapshot, SomePartitions, TableRecord
from hms_cache_proxy.store.sql import partitions
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.store import bulk
from tests.store.stores import LIST, whole_partition
from tests.testbed.bed import Bed
from tests.testbed.postgres import Collation, MetastoreDatabase, Postgres, Schema
from tests.testbed.sqlite import SqliteDatabase

NAMES = [
    "p=a",
    "p=B",
    "p=_",
    "p=é",
    "p=z",
    "p=Z",
    "p=-",
    "p= ",
    "p=a b",
    "p=ab",
    "p=A-B",
    "p=😀",
    "p=\uffee",
    "p=10",
    "p=9",
]


def table(snapshot: Snapshot) -> TableRecord:
    return snapshot.tables(b"hive", bulk.DATABASE, [bulk.TABLE])[bulk.TABLE]


def chunks(snapshot: Snapshot, of: TableRecord, size: int) -> list[PartitionRecord]:
    found: list[PartitionRecord] = []
    while chunk := snapshot.partitions(of, after=found[-1].name if found else None, limit=size):
        found += chunk
    return found


@pytest.mark.parametrize("collation", Collation)
def test_order_is_bytewise_in_every_database(postgres: Postgres, unique_name: str, collation: Collation) -> None:
    database = postgres.create_metastore_database(unique_name, Schema.HIVE42, collation)
    bulk.fill(database, 30)
    bulk.add_names(database, NAMES)
    store = open_sql_store(database.reader_url)
    listed = [name for (name,) in database.rows('SELECT "PART_NAME" FROM "PARTITIONS" ORDER BY "PART_NAME"')]
    is_binary = listed == sorted(listed, key=str.encode)
    assert store.identity.binary_collation is is_binary is (collation is Collation.C)
    with store.snapshot() as snapshot:
        found = snapshot.partitions(table(snapshot))
        assert [record.name for record in found] == sorted(name.encode() for name in listed)
        assert chunks(snapshot, table(snapshot), 4) == found
        for record in found[::7]:
            after = snapshot.partitions(table(snapshot), after=record.name)
            assert after == [other for other in found if other.name > record.name]
        some = random.sample(found, 9)
        named = snapshot.partitions(table(snapshot), names=[record.name for record in some])
        assert named == sorted(some, key=lambda record: record.name)
    store.close()


@pytest.mark.parametrize("collation", Collation)
def test_chunks_of_a_table_that_changes(
    postgres: Postgres, unique_name: str, collation: Collation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In snapshots of their own, as prewarm reads them: partitions come, go and are renamed before and behind them, and
    the reader asks for them by name."""
    monkeypatch.setattr(partitions, "LISTED", 11)
    database = postgres.create_metastore_database(unique_name, Schema.HIVE42, collation)
    bulk.fill(database, 60)
    bulk.add_names(database, NAMES[2:])
    store = open_sql_store(database.reader_url)
    seen: dict[bytes, PartitionRecord] = {}
    last: bytes | None = None
    for number in range(100):
        with store.snapshot() as snapshot:
            of = table(snapshot)
            chunk = snapshot.partitions(of, after=last, limit=9)
            assert [record.name for record in chunk] == sorted(record.name for record in chunk)
            assert last is None or all(record.name > last for record in chunk)
            seen |= {record.name: record for record in chunk}
            if len(chunk) < 9:
                everything = {record.name: record for record in snapshot.partitions(of)}
                break
        last = chunk[-1].name
        named = change(database, number)
        with store.snapshot() as snapshot:
            (found,) = snapshot.partitions_of([SomePartitions(table(snapshot), named)])
            assert isinstance(found, list)
            for name in named:
                seen.pop(name, None)
            seen |= {record.name: record for record in found if record.name <= last}
    assert seen == everything and number > 60 // 9
    store.close()


def change(database: MetastoreDatabase, number: int) -> list[bytes]:
    """A name more, one less and one renamed somewhere; gives their names."""
    names = sorted(name for (name,) in database.rows('SELECT "PART_NAME" FROM "PARTITIONS"'))
    gone, renamed = names[number * 17 % len(names)], names[(number * 31 + 5) % len(names)]
    if gone == renamed:
        return []
    new, called = f"{names[number * 13 % len(names)]}+{number}", f"{names[number * 7 % len(names)]}!{number}"
    with database.connect() as connection, connection.cursor() as cursor:
        for table_name in ("PARTITION_KEY_VALS", "PARTITION_PARAMS"):
            cursor.execute(
                f'DELETE FROM "{table_name}" WHERE "PART_ID" = (SELECT "PART_ID" FROM "PARTITIONS"'
                ' WHERE "PART_NAME" = %s)',
                (gone,),
            )
        cursor.execute('DELETE FROM "PARTITIONS" WHERE "PART_NAME" = %s', (gone,))
        cursor.execute('UPDATE "PARTITIONS" SET "PART_NAME" = %s WHERE "PART_NAME" = %s', (called, renamed))
        cursor.execute('UPDATE "PARTITIONS" SET "CREATE_TIME" = %s WHERE "PART_NAME" = %s', (number, called))
    bulk.add_names(database, [new], first=20_000_000 + number)
    return [name.encode() for name in (gone, renamed, called, new)]


def sqlite_database(path: Path) -> SqliteDatabase:
    """As the embedded metastore makes one."""
    made = SqliteDatabase.at(path)
    database = Database(made.store_url)
    database.prepare(warehouse="file:/w", external="file:/e")
    database.close()
    return made


@pytest.mark.parametrize(
    ("on", "shuffled"),
    [("postgres", False), ("postgres", True), ("mariadb", True), ("sqlite", False), ("sqlite", True)],
)
def test_every_partition_of_a_large_table(bed: Bed, unique_name: str, tmp_path: Path, on: str, shuffled: bool) -> None:
    count = 25_000 if on == "postgres" else 8_000
    if on == "sqlite":
        database: MetastoreDatabase = sqlite_database(tmp_path / "metastore.db")
    else:
        database = (bed.mariadb if on == "mariadb" else bed.postgres).create_metastore_database(unique_name)
    bulk.fill(database, count, shuffled=shuffled)
    store = open_sql_store(database.reader_url)
    with store.snapshot() as snapshot:
        record = table(snapshot)
        assert snapshot.partition_counts([record.table_id]) == {record.table_id: count}
        found = snapshot.partitions(record)
        assert len({partition.name for partition in found}) == len(found) == count
        assert chunks(snapshot, record, 7_001) == found
    store.close()
    assert (
        len({id(partition.sd_tail) for partition in found}) == len({id(partition.sd_head) for partition in found}) == 1
    )
    for partition in random.sample(found, 50):
        ds, hour = (part.split(b"=")[1] for part in partition.name.split(b"/"))
        whole = whole_partition(record, partition, LIST)
        assert whole[1][1] == [ds, hour]
        assert whole[6][1][2][1] == b"hdfs://ns/wh/external/big.db/parts/" + partition.name
        assert len(whole[7][1]) == 6 and whole[7][1][b"transient_lastDdlTime"] == str(whole[4][1]).encode()
        assert len(whole[6][1][1][1]) == bulk.COLUMNS


def test_more_names_than_a_statement_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_MAX_NAMES", 7)
    monkeypatch.setattr(partitions, "_MAX_NAME_BYTES", 100)
    database = sqlite_database(tmp_path / "metastore.db")
    bulk.fill(database, 60)
    answers: list[None] = []
    store = open_sql_store(database.reader_url, answered=lambda: answers.append(None))
    with store.snapshot() as snapshot:
        record = table(snapshot)
        found = snapshot.partitions(record)
        names = [b"ds=none", *(partition.name for partition in found)]
        answers.clear()
        assert snapshot.partitions(record, names=names) == found and len(answers) > sum(map(len, names)) / 100
    store.close()
