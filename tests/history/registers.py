"""Objects of a metastore as registers: `write(client, version)` makes a real change, `read(client)` finds the version.

One class per kind of object and change. A register's writes are serialised by its lock; reads are free, by any
of the `ways` to see the object; `read` picks one.
Must not know: proxies, checking.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from hive_metastore.ttypes import (
    AllocateTableWriteIdsRequest,
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    CommitTxnKeyValue,
    CommitTxnRequest,
    Database,
    FieldSchema,
    GetDatabaseRequest,
    GetPartitionNamesPsRequest,
    GetPartitionsByNamesRequest,
    GetTableRequest,
    GetTablesRequest,
    LongColumnStatsData,
    NoSuchObjectException,
    OpenTxnRequest,
    Partition,
    PartitionsRequest,
    SerDeInfo,
    StorageDescriptor,
    Table,
    TableStatsRequest,
)

from tests.testbed.client import MetastoreClient

Way = Callable[[MetastoreClient], int]
ABSENT = -1


class Torn(Exception):
    """The answer shows no version at all: Hive reads some objects by several statements (READ COMMITTED)."""


def newest(numbers: Iterable[int]) -> int:
    """The largest; Torn when there is none."""
    try:
        return max(numbers)
    except ValueError:
        raise Torn from None


def moment() -> int:
    """A number that is the same for all threads, and another one three times a second. Readers put it into requests
    whose replies are learned: each is then asked for the first time, and again by others, while writes are made. What
    is learned is kept beside objects that are followed, and must never be ahead of them.
    """
    return int(time.monotonic() * 3)


def descriptor() -> StorageDescriptor:
    return StorageDescriptor(
        cols=[FieldSchema("id", "bigint", None)],
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=SerDeInfo(None, "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
        numBuckets=-1,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def table(database: str, name: str, parameters: dict[str, str], *, partitioned: bool = False) -> Table:
    keys = [FieldSchema("n", "string", None)] if partitioned else []
    sd = descriptor()
    sd.location = f"file:/tmp/hms-history/{database}/{name}"  # alter_table wants one
    return Table(
        tableName=name,
        dbName=database,
        owner="history",
        sd=sd,
        partitionKeys=keys,
        parameters={"EXTERNAL": "TRUE", **parameters},
        tableType="EXTERNAL_TABLE",
    )


class Register:
    """One object. Subclasses give `create`, `write` and `ways`."""

    def __init__(self, database: str, name: str) -> None:
        self.database, self.name = database, name
        self.key = f"{type(self).__name__} {database}.{name}"
        self.lock = threading.Lock()
        self.version = 0
        self.old = False  # a Hive before 4

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {"v": "0"}))

    def write(self, client: MetastoreClient, version: int) -> None:
        raise NotImplementedError

    def ways(self) -> list[Way]:
        raise NotImplementedError

    def usable(self) -> list[Way]:
        """The ways that this release has."""
        return [way for way in self.ways() if not self.old or way.__name__ not in SINCE_4]

    def read(self, client: MetastoreClient) -> int:
        return random.choice(self.usable())(client)

    def _table(self, client: MetastoreClient) -> Any:
        return client.get_table_req(GetTableRequest(dbName=self.database, tblName=self.name)).table


class TableParameter(Register):
    """alter_table of a parameter, and of a column's comment."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(self._altered(0))

    def _altered(self, version: int) -> Table:
        altered = table(self.database, self.name, {"v": str(version)})
        altered.sd.cols[0].comment = str(version)
        return altered

    def write(self, client: MetastoreClient, version: int) -> None:
        client.alter_table(self.database, self.name, self._altered(version))

    def by_get_table_req(self, client: MetastoreClient) -> int:
        return int(self._table(client).parameters["v"])

    def by_capabilities(self, client: MetastoreClient) -> int:
        """The answer depends on what the client can do, and every request is new: never answered from the cache."""
        request = GetTableRequest(dbName=self.database, tblName=self.name)
        request.processorCapabilities = ["EXTREAD", "EXTWRITE"]
        request.processorIdentifier = f"history{random.random()}"
        return int(client.get_table_req(request).table.parameters["v"])

    def by_get_table_objects_by_name_req(self, client: MetastoreClient) -> int:
        answer = client.get_table_objects_by_name_req(GetTablesRequest(dbName=self.database, tblNames=[self.name]))
        if not answer.tables:
            raise LookupError(f"a table that is never dropped is not in {answer}")
        return int(answer.tables[0].parameters["v"])

    def by_get_fields(self, client: MetastoreClient) -> int:
        """Learned, each spelling for itself."""
        bits = random.Random(moment()).getrandbits(len(self.name))
        spelling = "".join(c.upper() if bits >> n & 1 else c for n, c in enumerate(self.name))
        return newest(int(field.comment) for field in client.get_fields(self.database, spelling))

    def ways(self) -> list[Way]:
        return [
            self.by_get_table_req,
            self.by_get_table_objects_by_name_req,
            self.by_get_fields,
            self.by_capabilities,
        ]


class TransactionParameter(TableParameter):
    """commit_txn with a key-value: changes a table parameter and logs only the commit."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {"_meta_v": "0"}))
        self.table_id = self._table(client).id

    def write(self, client: MetastoreClient, version: int) -> None:
        opened = client.open_txns(OpenTxnRequest(num_txns=1, user="history", hostname="localhost"))
        (txn,) = opened.txn_ids
        client.allocate_table_write_ids(
            AllocateTableWriteIdsRequest(dbName=self.database, tableName=self.name, txnIds=[txn])
        )
        client.commit_txn(
            CommitTxnRequest(txnid=txn, keyValue=CommitTxnKeyValue(self.table_id, "_meta_v", str(version)))
        )

    def by_get_table_req(self, client: MetastoreClient) -> int:
        return int(self._table(client).parameters["_meta_v"])

    def ways(self) -> list[Way]:
        return [self.by_get_table_req]


class DatabaseParameter(Register):
    """alter_database of a parameter."""

    def create(self, client: MetastoreClient) -> None:
        client.create_database(Database(name=self.name, parameters={"v": "0"}))

    def write(self, client: MetastoreClient, version: int) -> None:
        database = Database(
            name=self.name, parameters={"v": str(version)}, catalogName="hive", ownerName="me", ownerType=1
        )
        client.alter_database(self.name, database)

    def by_get_database(self, client: MetastoreClient) -> int:
        return int(client.get_database(self.name).parameters["v"])

    def by_get_database_req(self, client: MetastoreClient) -> int:
        request = GetDatabaseRequest(name=self.name, catalogName="hive")
        return int(client.get_database_req(request).parameters["v"])

    def ways(self) -> list[Way]:
        return [self.by_get_database, self.by_get_database_req]


class PartitionParameter(Register):
    """alter_partition of a parameter."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {}, partitioned=True))
        client.add_partition(self._partition(client, 0))

    def _partition(self, client: MetastoreClient, version: int) -> Partition:
        sd = descriptor()
        sd.location = f"file:/nowhere/{self.database}/{self.name}/n=x"
        return Partition(["x"], self.database, self.name, 1, 0, sd, {"v": str(version)})

    def write(self, client: MetastoreClient, version: int) -> None:
        client.alter_partition(self.database, self.name, self._partition(client, version))

    def by_get_partition(self, client: MetastoreClient) -> int:
        return int(client.get_partition(self.database, self.name, ["x"]).parameters["v"])

    def by_get_partition_by_name(self, client: MetastoreClient) -> int:
        return int(client.get_partition_by_name(self.database, self.name, "n=x").parameters["v"])

    def by_get_partitions(self, client: MetastoreClient) -> int:
        return int(client.get_partitions(self.database, self.name, -1)[0].parameters["v"])

    def by_get_partitions_by_names_req(self, client: MetastoreClient) -> int:
        request = GetPartitionsByNamesRequest(db_name=self.database, tbl_name=self.name, names=["n=x"])
        return int(client.get_partitions_by_names_req(request).partitions[0].parameters["v"])

    def by_auth(self, client: MetastoreClient) -> int:
        """Learned, each user's for itself."""
        answer = client.get_partitions_with_auth(self.database, self.name, -1, f"user{moment()}", [])
        return int(answer[0].parameters["v"])

    def by_filter(self, client: MetastoreClient) -> int:
        return int(client.get_partitions_by_filter(self.database, self.name, 'n = "x"', -1)[0].parameters["v"])

    def ways(self) -> list[Way]:
        return [
            self.by_get_partition,
            self.by_get_partition_by_name,
            self.by_get_partitions,
            self.by_get_partitions_by_names_req,
            self.by_auth,
            self.by_filter,
        ]


class PartitionSet(Register):
    """Partitions come and go: the newest is the version."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {}, partitioned=True))
        self._add(client, 0)

    def _add(self, client: MetastoreClient, version: int) -> None:
        sd = descriptor()
        sd.location = f"file:/nowhere/{self.database}/{self.name}/n={version}"
        client.add_partition(Partition([str(version)], self.database, self.name, 1, 0, sd, {}))

    def write(self, client: MetastoreClient, version: int) -> None:
        self._add(client, version)
        client.drop_partition(self.database, self.name, [str(version - 1)], False)

    @staticmethod
    def _newest(names: list[str]) -> int:
        return newest(int(name.removeprefix("n=")) for name in names)

    def by_names(self, client: MetastoreClient) -> int:
        return self._newest(client.get_partition_names(self.database, self.name, -1))

    def by_names_ps(self, client: MetastoreClient) -> int:
        request = GetPartitionNamesPsRequest(dbName=self.database, tblName=self.name, partValues=[""], maxParts=-1)
        return self._newest(client.get_partition_names_ps_req(request).names)

    def by_old_names_ps(self, client: MetastoreClient) -> int:
        return self._newest(client.get_partition_names_ps(self.database, self.name, [""], -1))

    def by_auth(self, client: MetastoreClient) -> int:
        """Learned, each user's for itself."""
        answer = client.get_partitions_with_auth(self.database, self.name, -1, f"user{moment()}", [])
        return self._newest([one.values[0] for one in answer if one.values])

    def by_partitions_req(self, client: MetastoreClient) -> int:
        answer = client.get_partitions_req(PartitionsRequest(dbName=self.database, tblName=self.name, maxParts=-1))
        # The metastore reads a partition by several statements: one that is dropped meanwhile may lack its values.
        return self._newest([one.values[0] for one in answer.partitions if one.values])

    def ways(self) -> list[Way]:
        return [self.by_names, self.by_names_ps, self.by_old_names_ps, self.by_auth, self.by_partitions_req]


class Renamed(Register):
    """A table renamed from name_k to name_k+1: the listing and the names must follow."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, f"{self.name}_0", {}))

    def write(self, client: MetastoreClient, version: int) -> None:
        renamed = table(self.database, f"{self.name}_{version}", {})
        client.alter_table(self.database, f"{self.name}_{version - 1}", renamed)

    def _newest(self, names: list[str]) -> int:
        return newest(int(name.rpartition("_")[2]) for name in names if name.startswith(f"{self.name}_"))

    def by_all_tables(self, client: MetastoreClient) -> int:
        return self._newest(client.get_all_tables(self.database))

    def by_tables(self, client: MetastoreClient) -> int:
        return self._newest(client.get_tables(self.database, f"{self.name}_*"))

    def by_type(self, client: MetastoreClient) -> int:
        """Learned, each pattern for itself."""
        pattern = f"{self.name}_*|none{moment()}"
        return self._newest(client.get_tables_by_type(self.database, pattern, "EXTERNAL_TABLE"))

    def by_guess(self, client: MetastoreClient) -> int:
        """Ask for the names around the version known to the writer: exactly one of them exists."""
        around = self.version
        names = [f"{self.name}_{number}" for number in range(max(0, around - 60), around + 60)]
        return self._newest([one.tableName for one in self._objects(client, names)])

    def _objects(self, client: MetastoreClient, names: list[str]) -> list[Any]:
        request = GetTablesRequest(dbName=self.database, tblNames=names)
        return list(client.get_table_objects_by_name_req(request).tables)

    def ways(self) -> list[Way]:
        return [self.by_all_tables, self.by_tables, self.by_type, self.by_guess]


class Recreated(Register):
    """Dropped (odd versions) and created again (even versions)."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {"v": "0"}))

    def write(self, client: MetastoreClient, version: int) -> None:
        if version % 2:
            client.drop_table(self.database, self.name, False)
        else:
            client.create_table(table(self.database, self.name, {"v": str(version)}))

    def by_get_table_req(self, client: MetastoreClient) -> int:
        try:
            return int(self._table(client).parameters["v"])
        except NoSuchObjectException:
            return ABSENT

    def by_objects(self, client: MetastoreClient) -> int:
        found = client.get_table_objects_by_name_req(GetTablesRequest(dbName=self.database, tblNames=[self.name]))
        return int(found.tables[0].parameters["v"]) if found.tables else ABSENT

    def ways(self) -> list[Way]:
        return [self.by_get_table_req, self.by_objects]


class TableStatistics(Register):
    """Column statistics of a table: read by a method whose replies are learned."""

    def create(self, client: MetastoreClient) -> None:
        client.create_table(table(self.database, self.name, {}))
        self.write(client, 0)

    def write(self, client: MetastoreClient, version: int) -> None:
        data = ColumnStatisticsData(longStats=LongColumnStatsData(0, version, 0, 1))
        describe = ColumnStatisticsDesc(isTblLevel=True, dbName=self.database, tableName=self.name)
        statistics = ColumnStatistics(describe, [ColumnStatisticsObj("id", "bigint", data)], engine="hive")
        client.update_table_column_statistics(statistics)

    def by_statistics_req(self, client: MetastoreClient) -> int:
        request = TableStatsRequest(dbName=self.database, tblName=self.name, colNames=["id"], engine="hive")
        found = client.get_table_statistics_req(request).tableStats
        # None: from before version 0, which a cache may be for a moment after the start; later that is a violation.
        return int(found[0].statsData.longStats.highValue) if found else 0

    def ways(self) -> list[Way]:
        return [self.by_statistics_req]


SINCE_4 = frozenset(("by_get_database_req", "by_get_partitions_by_names_req", "by_names_ps", "by_partitions_req"))
"""Ways by methods that came with Hive 4."""

KINDS: list[type[Register]] = [
    TableParameter,
    TransactionParameter,
    PartitionParameter,
    PartitionSet,
    Renamed,
    Recreated,
    TableStatistics,
]


def build(client: MetastoreClient, prefix: str, *, copies: int = 2, version: str = "4.2.0") -> list[Register]:
    """Create the objects of every kind that this version of Hive has."""
    database = f"{prefix}_db"
    client.create_database(Database(name=database))
    registers: list[Register] = [DatabaseParameter("", f"{prefix}_p{number}") for number in range(copies)]
    old = not version.startswith("4.")
    for kind in KINDS:
        if not (old and kind is TransactionParameter):
            registers += [kind(database, f"{kind.__name__.lower()}{number}") for number in range(copies)]
    for register in registers:
        register.old = old
        register.create(client)
    return registers
