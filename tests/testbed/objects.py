"""Databases, tables and partitions for tests: plain, wide, nested, partitioned, transactional.

Job: build Thrift objects as real engines write them, and create them on a metastore of any version.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hive_metastore.ttypes import (  # type: ignore[import-untyped]  # generated
    AllocateTableWriteIdsRequest,
    ClientCapabilities,
    ClientCapability,
    CommitTxnRequest,
    CreateTableRequest,
    Database,
    FieldSchema,
    GetTableRequest,
    OpenTxnRequest,
    Partition,
    PrincipalType,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from thrift.Thrift import TApplicationException

from tests.testbed.client import MetastoreClient

Columns = Sequence[tuple[str, str]]

PROCESSOR_CAPABILITIES = (
    "HIVEFULLACIDWRITE HIVEFULLACIDREAD HIVECACHEINVALIDATE HIVEMANAGESTATS HIVEMANAGEDINSERTWRITE"
    " HIVEMANAGEDINSERTREAD HIVESQL HIVEMQT HIVEONLYMQTWRITE EXTWRITE EXTREAD"
).split()
PROCESSOR_IDENTIFIER = "HiveServer2#hms-testbed"
NESTED_COLUMNS: Columns = (
    ("id", "bigint"),
    ("tags", "array<string>"),
    ("attributes", "map<string,array<int>>"),
    ("address", "struct<street:string,geo:struct<lat:double,lon:double>>"),
    ("either", "uniontype<int,string>"),
    ("price", "decimal(38,18)"),
    ("letter", "char(3)"),
)
PARQUET = (
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)
ORC = (
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
)
BATCH = 1000  # partitions a call


def wide_columns(count: int) -> Columns:
    """`count` columns of the common types."""
    types = ("bigint", "string", "double", "timestamp", "decimal(18,4)", "boolean", "int", "date")
    return [(f"c{number:04d}", types[number % len(types)]) for number in range(count)]


def fields(columns: Columns) -> list[FieldSchema]:
    """Columns as Hive's FieldSchema, every second one with a comment."""
    return [
        FieldSchema(name=name, type=kind, comment=f"about {name}" if number % 2 else None)
        for number, (name, kind) in enumerate(columns)
    ]


def storage(columns: Columns, location: str | None, formats: tuple[str, str, str]) -> StorageDescriptor:
    """A storage descriptor without buckets or skew."""
    return StorageDescriptor(
        cols=fields(columns),
        location=location,
        inputFormat=formats[0],
        outputFormat=formats[1],
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(serializationLib=formats[2], parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def database(name: str, parameters: Mapping[str, str] | None = None, description: str | None = None) -> Database:
    """A database without a location: the server chooses."""
    return Database(
        name=name,
        description=description,
        parameters=dict(parameters or {}),
        ownerName="hive",
        ownerType=PrincipalType.USER,
    )


def table(
    db_name: str,
    name: str,
    columns: Columns = (("id", "bigint"), ("name", "string")),
    partition_keys: Columns = (),
    *,
    parameters: Mapping[str, str] | None = None,
    formats: tuple[str, str, str] = PARQUET,
    kind: str = "EXTERNAL_TABLE",
) -> Table:
    """A table without a location: the server chooses."""
    external = {"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {}
    return Table(
        dbName=db_name,
        tableName=name,
        owner="hive",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=storage(columns, None, formats),
        partitionKeys=fields(partition_keys),
        parameters={**external, **(parameters or {})},
        tableType=kind,
    )


def partition(of: Table, values: Sequence[str], parameters: Mapping[str, str] | None = None) -> Partition:
    """A partition of a table that the server has told the location of."""
    keys = [key.name for key in of.partitionKeys]
    path = "/".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
    columns = [(column.name, column.type) for column in of.sd.cols]
    formats = (of.sd.inputFormat, of.sd.outputFormat, of.sd.serdeInfo.serializationLib)
    return Partition(
        values=list(values),
        dbName=of.dbName,
        tableName=of.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=storage(columns, f"{of.sd.location}/{path}", formats),
        parameters=dict(parameters or {}),
    )


def create_database(client: MetastoreClient, name: str, parameters: Mapping[str, str] | None = None) -> Database:
    """Create it and return what the server made of it."""
    client.create_database(database(name, parameters))
    return client.get_database(name)


def create_table(client: MetastoreClient, new: Table) -> Table:
    """Create it and return what the server made of it. ACID tables: create_transactional_table."""
    client.create_table(new)
    return read_table(client, new.dbName, new.tableName)


def read_table(client: MetastoreClient, db_name: str, name: str) -> Table:
    """The table by whatever method this version has: get_table_req came with 3.0."""

    every = ClientCapabilities(values=[ClientCapability.INSERT_ONLY_TABLES])
    try:
        return client.get_table_req(GetTableRequest(dbName=db_name, tblName=name, capabilities=every)).table
    except TApplicationException as error:
        if error.type != TApplicationException.UNKNOWN_METHOD:
            raise
        return client.get_table(db_name, name)


def create_transactional_table(
    client: MetastoreClient,
    db_name: str,
    name: str,
    columns: Columns = (("id", "bigint"), ("name", "string")),
    partition_keys: Columns = (),
    *,
    insert_only: bool = False,
    parameters: Mapping[str, str] | None = None,
) -> Table:
    """Create a managed ORC table, full ACID or insert-only (Hive 3.1 and 4); what the server made of it."""
    parameters = {"transactional": "true", **(parameters or {})}
    if insert_only:
        parameters["transactional_properties"] = "insert_only"
    new = table(db_name, name, columns, partition_keys, parameters=parameters, formats=ORC, kind="MANAGED_TABLE")
    request = CreateTableRequest(
        table=new, processorCapabilities=PROCESSOR_CAPABILITIES, processorIdentifier=PROCESSOR_IDENTIFIER
    )
    try:
        client.create_table_req(request)
    except TApplicationException as error:  # 3.1 has no such method, and asks for no capabilities
        if error.type != TApplicationException.UNKNOWN_METHOD:
            raise
        client.create_table(new)
    return read_table(client, db_name, name)


def add_partitions(client: MetastoreClient, of: Table, values: Iterable[Sequence[str]]) -> int:
    """Add partitions, a thousand a call; their number."""
    added = 0
    batch: list[Partition] = []
    for one in values:
        batch.append(partition(of, one))
        if len(batch) == BATCH:
            added += client.add_partitions(batch)
            batch = []
    return added + (client.add_partitions(batch) if batch else 0)


def in_transaction(client: MetastoreClient, of: Table, write: Callable[[int, int], Any]) -> int:
    """Open a transaction with a write id on the table, write(txn_id, write_id), commit; the write id."""
    opened = client.open_txns(OpenTxnRequest(num_txns=1, user="hive", hostname="testbed"))
    (txn_id,) = opened.txn_ids
    request = AllocateTableWriteIdsRequest(dbName=of.dbName, tableName=of.tableName, txnIds=[txn_id])
    write_id: int = client.allocate_table_write_ids(request).txnToWriteIds[0].writeId
    write(txn_id, write_id)
    client.commit_txn(CommitTxnRequest(txnid=txn_id))
    return write_id
