"""Snapshots while clients create, rename and drop tables and partitions: each is the state of its last event.

Job: read the log and the rows in one snapshot after another, and make from the log alone what the rows have to be.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from hms_cache_proxy.follower.messages import decode, list_field, string_field, thrift
from hms_cache_proxy.store.protocol import EventRow
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.chance import chance
from tests.lengths import by_tier
from tests.store.content import column, descriptor
from tests.store.oracle import Oracle, hms
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

CLIENTS = int(by_tier(test=3, all=5, every=5))
CHANGES = int(by_tier(test=12, all=24, every=24))  # of each, and further ones until enough was seen, on a busy machine
MOST_CHANGES, STATES = 400, int(by_tier(test=10, all=20, every=20))
KINDS = "CREATE_TABLE DROP_TABLE ALTER_TABLE ADD_PARTITION DROP_PARTITION ALTER_PARTITION".split()


@pytest.fixture(params=["embedded", "embedded-postgresql", "hive42", "hive42-mariadb"])
def metastore(request: pytest.FixtureRequest, bed: Bed) -> Metastore:
    return bed.shared(request.param)


@pytest.fixture
def store(metastore: Metastore) -> Iterator[SqlStore]:
    assert metastore.database is not None
    opened = open_sql_store(metastore.database.reader_url)
    yield opened
    opened.close()


@dataclass
class Told:
    """What the events up to one of them say that there is: (database, table) to the names of its partitions."""

    tables: dict[tuple[bytes, bytes], set[bytes]] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def tell(self, event: EventRow) -> None:
        """One more event."""
        if event.type not in KINDS or event.database is None or event.table is None:
            return
        self.kinds.add(event.type)
        key = event.database, event.table
        message = decode(event.message or "", event.message_format)
        names = {_name(values) for values in message.get("partitions", ())}
        if event.type == "CREATE_TABLE":
            assert key not in self.tables
            self.tables[key] = set()
        elif event.type == "DROP_TABLE":
            del self.tables[key]
        elif event.type == "ADD_PARTITION":
            assert not names & self.tables[key]
            self.tables[key] |= names
        elif event.type == "DROP_PARTITION":
            assert names <= self.tables[key]
            self.tables[key] -= names
        elif event.type == "ALTER_PARTITION":
            self._partition(key, message)
        else:
            old, new = (string_field(thrift(message, f"tableObj{when}Json"), 1) or b"" for when in ("Before", "After"))
            self.tables[event.database, new] = self.tables.pop((event.database, old))

    def _partition(self, key: tuple[bytes, bytes], message: dict[str, Any]) -> None:
        after = list_field(thrift(message, "partitionObjAfterJson"), 1) or []
        self.tables[key].remove(_name(message["keyValues"]))
        self.tables[key].add(b"p=" + after[0].encode())


def _name(values: dict[str, str]) -> bytes:
    return b"/".join(f"{key}={value}".encode() for key, value in values.items())


def test_each_snapshot_is_one_state(metastore: Metastore, store: SqlStore, unique_name: str) -> None:
    names = [f"{unique_name}_{number}" for number in range(CLIENTS)]
    with store.snapshot() as snapshot:
        start = snapshot.event_id
    failures: list[BaseException] = []
    told, cursor, ids = Told(), start, set[int]()

    def enough() -> bool:
        return len(ids) > STATES

    clients = [threading.Thread(target=_client, args=(metastore, name, failures, enough)) for name in names]
    for client in clients:
        client.start()
    while any(client.is_alive() for client in clients):
        cursor = _look(store, told, cursor, names)
        ids.add(cursor)
    for client in clients:
        client.join()
    assert not failures, failures
    cursor = _look(store, told, cursor, names)
    assert told.kinds == set(KINDS)
    assert enough() and cursor - start >= CLIENTS * (CHANGES // 2), (
        f"{len(ids)} states, {cursor - start} events: too little was seen"
    )


def _look(store: SqlStore, told: Told, cursor: int, names: list[str]) -> int:
    """Compare one snapshot with the log; the id of its last event."""
    with store.snapshot() as snapshot:
        events = snapshot.events(cursor, 100_000)
        last = snapshot.event_id
        assert [event.event_id for event in events] == list(range(cursor + 1, last + 1)), "a gap, or an event too many"
        databases = {name.encode() for name in names}
        for event in events:
            if event.database in databases:
                told.tell(event)
        for database in databases:
            listed = [name for name, _, _ in snapshot.table_names(b"hive", database)]
            assert set(listed) == {table for of, table in told.tables if of == database}, (last, database)
            for table, record in snapshot.tables(b"hive", database, listed).items():
                found = {partition.name for partition in snapshot.partitions(record)}
                assert found == told.tables[database, table], (last, database, table)
                assert snapshot.partition_counts([record.table_id]) == {record.table_id: len(found)}
        return last


def _client(metastore: Metastore, database: str, failures: list[BaseException], enough: Callable[[], bool]) -> None:
    try:
        with Oracle(*metastore.address) as oracle:
            _Changes(oracle, database).run(enough)
    except BaseException as failure:
        failures.append(failure)


class _Changes:
    """One client's own database, and what it does there."""

    def __init__(self, oracle: Oracle, database: str) -> None:
        self.oracle = oracle
        self.database = database
        self.random = chance("client", database.rpartition("_")[2])
        self.numbers = itertools.count()
        self.tables: dict[str, list[str]] = {}
        oracle.create_database(hms.Database(name=database))

    def run(self, enough: Callable[[], bool]) -> None:
        """Every kind of change, then any: CHANGES of them, and further ones until it is enough."""
        steps = [self.create, self.add, self.rename_partition, self.rename, self.drop_partition, self.create, self.drop]
        for step in steps:
            step()
        for number in range(len(steps), MOST_CHANGES):
            if number >= CHANGES and enough():
                return
            self.random.choice([self.create, self.add, self.add, *steps])()

    def some(self) -> str:
        """A table that there is."""
        if not self.tables:
            self.create()
        return self.random.choice(sorted(self.tables))

    def with_partition(self) -> tuple[str, str]:
        """A table, and one of its partitions."""
        name = self.some()
        if not self.tables[name]:
            self.add(name)
        return name, self.random.choice(self.tables[name])

    def create(self) -> None:
        """A table."""
        if len(self.tables) < 5:
            name = f"t{next(self.numbers)}"
            self.oracle.create_table(self.table(name))
            self.tables[name] = []

    def table(self, name: str, location: str | None = None) -> Any:
        """A Table."""
        return hms.Table(
            tableName=name, dbName=self.database, sd=descriptor(location=location), partitionKeys=[column("p")],
            parameters={"EXTERNAL": "TRUE"}, tableType="EXTERNAL_TABLE",
        )  # fmt: skip

    def rename(self) -> None:
        """alter_table."""
        old, new = self.some(), f"t{next(self.numbers)}"
        self.oracle.alter_table(self.database, old, self.table(new, f"file:/nowhere/{self.database}/{new}"))
        self.tables[new] = self.tables.pop(old)

    def drop(self) -> None:
        """drop_table."""
        name = self.some()
        self.oracle.drop_table(self.database, name, False)
        del self.tables[name]

    def partition(self, table: str, value: str) -> Any:
        """A Partition."""
        sd = descriptor(location=f"file:/nowhere/{self.database}/{table}/{value}")
        return hms.Partition(values=[value], dbName=self.database, tableName=table, sd=sd, parameters={})

    def add(self, name: str | None = None) -> None:
        """add_partition."""
        name, value = name or self.some(), f"v{next(self.numbers)}"
        self.oracle.add_partition(self.partition(name, value))
        self.tables[name].append(value)

    def rename_partition(self) -> None:
        """rename_partition."""
        name, old = self.with_partition()
        new = f"v{next(self.numbers)}"
        self.oracle.rename_partition(self.database, name, [old], self.partition(name, new))
        self.tables[name].remove(old)
        self.tables[name].append(new)

    def drop_partition(self) -> None:
        """drop_partition."""
        name, value = self.with_partition()
        self.oracle.drop_partition(self.database, name, [value], False)
        self.tables[name].remove(value)
