"""A client that does what Hive does with transactional tables, call by call, at any port.

Job: transactions, write ids, lists of other readers, reads that bring a list and a table id, writes under a write id.
Must not know: hms_cache_proxy's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hms_cache_proxy.upstream.service import ServiceConnection
from hms_cache_proxy.wire import spec
from tests.testbed.objects import ORC, PROCESSOR_CAPABILITIES, PROCESSOR_IDENTIFIER

NONE_OPEN = 2**63 - 1
CAPABLE = [2]  # ClientCapability.INSERT_ONLY_TABLES
COLUMNS = ((b"id", b"bigint"), (b"name", b"string"))


def struct(kind: str, /, **values: Any) -> Any:
    """A Thrift struct; text becomes UTF-8 when it is sent."""
    return spec.struct(kind)(**values)


def given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


class Transactions:
    """One connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = ServiceConnection(host, port, timeout_s=60)
        self.call: Callable[..., Any] = self._connection.call

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- transactions

    def open(self, **more: Any) -> int:
        """A transaction's id."""
        request = struct("OpenTxnRequest", num_txns=1, user="hive", hostname="tests", **more)
        (number,) = self.call("open_txns", rqst=request).txn_ids
        return int(number)

    def allocate(self, transaction: int, database: str, table: str) -> int:
        """The transaction's write id on the table."""
        request = struct("AllocateTableWriteIdsRequest", dbName=database, tableName=table, txnIds=[transaction])
        return int(self.call("allocate_table_write_ids", rqst=request).txnToWriteIds[0].writeId)

    def commit(self, transaction: int, **more: Any) -> None:
        self.call("commit_txn", rqst=struct("CommitTxnRequest", txnid=transaction, **more))

    def abort(self, transaction: int) -> None:
        self.call("abort_txn", rqst=struct("AbortTxnRequest", txnid=transaction))

    def snapshot(self, transaction: int = 0) -> str:
        """The ValidTxnList of now, as a reader inside this transaction has it."""
        found = self.call("get_open_txns")
        bits = found.abortedBits
        aborted = {
            id_ for n, id_ in enumerate(found.open_txns) if bits[n // 8 : n // 8 + 1] and bits[n // 8] >> n % 8 & 1
        }
        invalid = [id_ for id_ in found.open_txns if id_ != transaction]
        opened = [id_ for id_ in invalid if id_ not in aborted]
        parts = (
            found.txn_high_water_mark,
            min(opened, default=NONE_OPEN),
            ",".join(map(str, opened)),
            ",".join(str(id_) for id_ in invalid if id_ in aborted),
        )
        return ":".join(map(str, parts))

    def valid(self, database: str, table: str, transaction: int = 0) -> bytes:
        """The ValidWriteIdList of a reader of now, built from the metastore's answer as Hive's client builds it."""
        request = struct(
            "GetValidWriteIdsRequest", fullTableNames=[f"{database}.{table}"], validTxnList=self.snapshot(transaction)
        )
        (found,) = self.call("get_valid_write_ids", rqst=request).tblValidWriteIds
        invalid, bits = found.invalidWriteIds or [], found.abortedBits
        aborted = [id_ for n, id_ in enumerate(invalid) if bits[n // 8 : n // 8 + 1] and bits[n // 8] >> n % 8 & 1]
        opened = [id_ for id_ in invalid if id_ not in aborted]
        low = found.minOpenWriteId if invalid and found.minOpenWriteId is not None else NONE_OPEN
        ids = (",".join(map(str, part)) for part in (opened, aborted))
        text = f"{database}.{table}:{found.writeIdHighWaterMark}:{low}:{':'.join(ids)}"
        return text.encode()

    # -- objects

    def create_database(self, name: str) -> None:
        self.call("create_database", database=struct("Database", name=name, description="", locationUri=None))

    def create(self, database: str, name: str, *, partitioned: bool = False, insert_only: bool = False) -> int:
        """A managed transactional table; its id."""
        parameters = {
            b"transactional": b"true",
            **({b"transactional_properties": b"insert_only"} if insert_only else {}),
        }
        formats = [one.encode() for one in ORC]
        columns = [struct("FieldSchema", name=column, type=kind) for column, kind in COLUMNS]
        serde = struct("SerDeInfo", serializationLib=formats[2], parameters={})
        sd = struct(
            "StorageDescriptor",
            cols=columns,
            inputFormat=formats[0],
            outputFormat=formats[1],
            compressed=False,
            numBuckets=-1,
            serdeInfo=serde,
            bucketCols=[],
            sortCols=[],
            parameters={},
        )
        keys = [struct("FieldSchema", name="p", type="string")] if partitioned else []
        table = struct(
            "Table",
            tableName=name,
            dbName=database,
            owner="hive",
            createTime=0,
            lastAccessTime=0,
            retention=0,
            sd=sd,
            partitionKeys=keys,
            parameters=parameters,
            tableType="MANAGED_TABLE",
        )
        request = struct(
            "CreateTableRequest",
            table=table,
            processorCapabilities=PROCESSOR_CAPABILITIES,
            processorIdentifier=PROCESSOR_IDENTIFIER,
        )
        self.call("create_table_req", request=request)
        return int(self.table(database, name).id)

    def table(
        self, database: str, name: str, valid: bytes | None = None, table_id: int | None = None, **more: Any
    ) -> Any:
        """get_table_req, with a list and an id if they are given."""
        capable = struct("ClientCapabilities", values=CAPABLE)
        more = {"capabilities": capable, **given(validWriteIdList=valid, id=table_id), **more}
        return self.call("get_table_req", req=struct("GetTableRequest", dbName=database, tblName=name, **more)).table

    def fields(self, database: str, name: str, valid: bytes | None = None, table_id: int | None = None) -> list[bytes]:
        """get_fields_req: the columns' names."""
        more = given(validWriteIdList=valid, id=table_id)
        request = struct("GetFieldsRequest", dbName=database, tblName=name, **more)
        return [field.name for field in self.call("get_fields_req", req=request).fields]

    def partitions(
        self, database: str, name: str, names: Sequence[str], valid: bytes | None = None, table_id: int | None = None
    ) -> list[Any]:
        """get_partitions_by_names_req."""
        more = given(validWriteIdList=valid, id=table_id)
        request = struct("GetPartitionsByNamesRequest", db_name=database, tbl_name=name, names=list(names), **more)
        return list(self.call("get_partitions_by_names_req", req=request).partitions)

    def partition_names(
        self, database: str, name: str, valid: bytes | None = None, table_id: int | None = None
    ) -> list[str]:
        """get_partition_names_ps_req of all."""
        more = given(validWriteIdList=valid, id=table_id)
        request = struct(
            "GetPartitionNamesPsRequest", dbName=database, tblName=name, partValues=[""], maxParts=-1, **more
        )
        return sorted(one.decode() for one in self.call("get_partition_names_ps_req", req=request).names)

    def alter(
        self, database: str, name: str, parameters: Mapping[str, str], write_id: int = -1, valid: bytes | None = None
    ) -> None:
        """alter_table_req that sets parameters."""
        table = self.table(database, name)
        table.parameters = {**table.parameters, **{key.encode(): value.encode() for key, value in parameters.items()}}
        if write_id > 0:
            table.writeId = write_id  # the event tells this one
        more = given(validWriteIdList=valid)
        request = struct("AlterTableRequest", dbName=database, tableName=name, table=table, writeId=write_id, **more)
        self.call("alter_table_req", req=request)

    def rename(self, database: str, name: str, new: str, write_id: int = -1) -> None:
        table = self.table(database, name)
        table.tableName = new.encode()
        request = struct("AlterTableRequest", dbName=database, tableName=name, table=table, writeId=write_id)
        self.call("alter_table_req", req=request)

    def add_partition(self, database: str, name: str, value: str, write_id: int = -1) -> None:
        sd = self.table(database, name).sd
        sd.location = b"%b/p=%b" % (sd.location, value.encode())
        partition = struct(
            "Partition",
            values=[value],
            dbName=database,
            tableName=name,
            createTime=0,
            lastAccessTime=0,
            sd=sd,
            parameters={},
            writeId=write_id,
        )
        self.call("add_partitions", new_parts=[partition])

    def alter_partition(
        self, database: str, name: str, value: str, parameters: Mapping[str, str], write_id: int
    ) -> None:
        """alter_partitions_req that sets parameters."""
        (partition,) = self.partitions(database, name, [f"p={value}"])
        partition.parameters = {**partition.parameters, **{k.encode(): v.encode() for k, v in parameters.items()}}
        partition.writeId = write_id
        request = struct(
            "AlterPartitionsRequest", dbName=database, tableName=name, partitions=[partition], writeId=write_id
        )
        self.call("alter_partitions_req", req=request)

    def set_statistics(self, database: str, name: str, partition: str | None, write_id: int, valid: bytes) -> None:
        """set_aggr_stats_for, as an INSERT gathers them: of the table, or of a partition by its name."""
        numbers = struct("LongColumnStatsData", lowValue=write_id, highValue=write_id + 7, numNulls=1, numDVs=5)
        of_id = struct(
            "ColumnStatisticsObj",
            colName="id",
            colType="bigint",
            statsData=struct("ColumnStatisticsData", longStats=numbers),
        )
        whose = struct(
            "ColumnStatisticsDesc", isTblLevel=partition is None, dbName=database, tableName=name, partName=partition
        )
        told = struct("ColumnStatistics", statsDesc=whose, statsObj=[of_id], engine="hive")
        request = struct(
            "SetPartitionsStatsRequest", colStats=[told], writeId=write_id, validWriteIdList=valid, engine="hive"
        )
        self.call("set_aggr_stats_for", request=request)

    def drop(self, database: str, name: str) -> None:
        self.call("drop_table", dbname=database, name=name, deleteData=False)

    def event_id(self) -> int:
        return int(self.call("get_current_notificationEventId").eventId)
