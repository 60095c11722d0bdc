"""Transactional tables as registers: a change under a write id raises the version, every way to look shows it.

Job: what such tables share, and the kinds of change to a table itself; partitions: history_partitions.py, names and
existence: history_names.py. `write` makes a version; each of `ways()` asks with a list and a table id, and finds the
version in the answer. A shared table is written by many transactions at once (their changes one after the other, under
`lock`), as inserts do; any other by one transaction at a time, from its begin to its end, as under Hive's exclusive
lock.
Must not know: proxies, checking.
"""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hive_metastore.ttypes import (
    AlterTableRequest,
    ClientCapabilities,
    ClientCapability,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    EnvironmentContext,
    GetFieldsRequest,
    GetTableRequest,
    LongColumnStatsData,
    SetPartitionsStatsRequest,
    Table,
    TableStatsRequest,
)

from tests.history.registers import Torn, moment, newest
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_transactional_table
from tests.write_ids import history_hive as hive
from tests.write_ids.history_hive import NONE_OPEN, Scope, Valid

CAPABLE = ClientCapabilities([ClientCapability.INSERT_ONLY_TABLES])
KEYS = (("n", "string"),)
EVERY = 10**12  # a write id over all that there will be


class Hidden(Exception):
    """The metastore does not show this state to a reader in whose list its writer is not valid."""


@dataclass(frozen=True, slots=True)
class Under:
    """A transaction's write id on a table, and its list, in which that is valid."""

    transaction: int
    write_id: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class Way:
    """How to look: what is asked, and the version that an answer shows."""

    ask: Callable[[MetastoreClient, Scope], Any]
    shown: Callable[[Any], int]

    @property
    def name(self) -> str:
        return self.ask.__name__


class Written:
    """One transactional table. Subclasses give `write` and `ways`."""

    shared = True
    ends = False
    """`write` commits its transaction."""
    partitioned = False

    def __init__(self, database: str, name: str, *, insert_only: bool = False) -> None:
        self.database, self.name, self.insert_only = database, name, insert_only
        self.key = f"{type(self).__name__} {database}.{name}"
        self.lock = threading.Lock()
        self.version = 0
        self.born: dict[int, int] = {}
        """Table id -> the version as which that table was created."""

    def create(self, client: MetastoreClient) -> None:
        keys = KEYS if self.partitioned else ()
        created = create_transactional_table(
            client, self.database, self.current, partition_keys=keys, insert_only=self.insert_only
        )
        self.created: Table = created
        self.born[created.id] = 0
        with_transaction(client, self.database, self.current, created.id, self.fill)

    def fill(self, client: MetastoreClient, under: Under) -> None:
        """Version 0."""
        self.write(client, 0, under)

    @property
    def current(self) -> str:
        """The table's name now."""
        return self.name

    @property
    def table_id(self) -> int:
        return max(self.born)

    def scope(self, client: MetastoreClient, transactions: str) -> Scope:
        """What a reader of this ValidTxnList brings."""
        name, table_id = self.current, self.table_id
        return Scope(name, table_id, hive.valid_writes(client, self.database, name, transactions))

    def required(self, scope: Scope) -> int:
        """The version that whoever brings this may expect, writes apart."""
        return self.born[scope.table_id]

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        raise NotImplementedError

    def ways(self) -> list[Way]:
        raise NotImplementedError

    def absent(self, scope: Scope, required: int) -> int:
        """The least version from `required` on in which this scope's table is not there."""
        raise AssertionError(f"{self.key} is always there")

    def state(self, client: MetastoreClient) -> int:
        """The version, shown to a reader to whom every write is valid; ABSENT."""
        every = Valid(f"{self.database}.{self.current}:{EVERY}:{NONE_OPEN}::", EVERY)
        way, scope = self.ways()[0], Scope(self.current, self.table_id, every)
        while True:
            try:
                return way.shown(way.ask(client, scope))
            except Torn:
                continue

    def get_table_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = GetTableRequest(dbName=self.database, tblName=scope.name, capabilities=CAPABLE, **scope.proof)
        return client.get_table_req(request).table

    def alter(self, client: MetastoreClient, altered: Table, under: Under, **context: str) -> None:
        altered.writeId = under.write_id
        request = AlterTableRequest(
            dbName=self.database,
            tableName=under.scope.name,
            table=altered,
            writeId=under.write_id,
            validWriteIdList=under.scope.valid.text,
            environmentContext=EnvironmentContext(context) if context else None,
        )
        client.alter_table_req(request)


def with_transaction(
    client: MetastoreClient, database: str, table: str, table_id: int, work: Callable[[MetastoreClient, Under], None]
) -> None:
    """Do this in a transaction of its own."""
    transaction = hive.open_transaction(client)
    transactions = hive.valid_transactions(client, transaction)
    write_id = hive.allocate(client, database, table, transaction)
    scope = Scope(table, table_id, hive.valid_writes(client, database, table, transactions))
    work(client, Under(transaction, write_id, scope))
    hive.commit(client, transaction)


class Altered(Written):
    """alter_table_req of a parameter and of a column's comment."""

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        altered = copy.deepcopy(self.created)
        altered.parameters["v"] = altered.sd.cols[0].comment = str(version)
        self.alter(client, altered, under)

    def get_fields_req(self, client: MetastoreClient, scope: Scope) -> Any:
        """Learned, each spelling for itself."""
        bits = random.Random(moment()).getrandbits(len(scope.name))
        name = "".join(c.upper() if bits >> n & 1 else c for n, c in enumerate(scope.name))
        return client.get_fields_req(GetFieldsRequest(dbName=self.database, tblName=name, **scope.proof)).fields

    def ways(self) -> list[Way]:
        return [
            Way(self.get_table_req, lambda table: int(table.parameters["v"])),
            Way(self.get_fields_req, lambda fields: newest(int(one.comment) for one in fields if one.name == "id")),
        ]


class Committed(Written):
    """commit_txn with a key-value, which changes a parameter and logs nothing but the commit."""

    shared = False
    ends = True

    def fill(self, client: MetastoreClient, under: Under) -> None:
        altered = copy.deepcopy(self.created)
        altered.parameters["_meta_v"] = "0"
        self.alter(client, altered, under)

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        hive.commit(client, under.transaction, (under.scope.table_id, "_meta_v", str(version)))

    def ways(self) -> list[Way]:
        return [Way(self.get_table_req, lambda table: int(table.parameters["_meta_v"]))]


class Statistics(Written):
    """update_table_column_statistics_req: read by a method whose replies are learned. By one transaction at a time: of
    two, the metastore does not take the later one's for accurate."""

    shared = False

    def fill(self, client: MetastoreClient, under: Under) -> None:
        altered = copy.deepcopy(self.created)
        altered.parameters["COLUMN_STATS_ACCURATE"] = '{"BASIC_STATS":"true"}'
        self.alter(client, altered, under, STATS_GENERATED="TASK")
        self.write(client, 0, under)

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        data = ColumnStatisticsData(longStats=LongColumnStatsData(0, version, 0, 1))
        describe = ColumnStatisticsDesc(isTblLevel=True, dbName=self.database, tableName=under.scope.name)
        statistics = ColumnStatistics(describe, [ColumnStatisticsObj("id", "bigint", data)], engine="hive")
        valid = under.scope.valid.text
        request = SetPartitionsStatsRequest(
            [statistics], needMerge=False, writeId=under.write_id, validWriteIdList=valid, engine="hive"
        )
        client.update_table_column_statistics_req(request)

    def get_table_statistics_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = TableStatsRequest(
            dbName=self.database, tblName=scope.name, colNames=["id"], engine="hive", **scope.proof
        )
        return client.get_table_statistics_req(request).tableStats

    @staticmethod
    def _shown(answer: list[Any]) -> int:
        if not answer:
            raise Hidden
        return int(answer[0].statsData.longStats.highValue)

    def ways(self) -> list[Way]:
        return [Way(self.get_table_statistics_req, self._shown)]
