"""What transactions hold and have written, after the table or partition got another name: it is known by that one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import struct
from tests.embedded.scripts import descriptor, field, table
from tests.embedded.within import Within, metastore_in

EXCLUSIVE, TABLE_LEVEL, PARTITION_LEVEL, UPDATE, MINOR = 3, 2, 3, 3, 1
ACQUIRED, WAITING = 1, 2


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[Within]:
    with metastore_in(tmp_path) as one:
        keys = [field("k")]
        wanted = table(
            "default", "t", tableType="MANAGED_TABLE", parameters=FULL, sd=descriptor(**FORMATS), partitionKeys=keys
        )
        one.do("create_table_req", request=struct("CreateTableRequest", table=wanted, **ABLE))
        one.do("append_partition_by_name", db_name="default", tbl_name="t", part_name="k=1")
        yield one


def begun(metastore: Within) -> int:
    request = struct("OpenTxnRequest", num_txns=1, user="u", hostname="h")
    txn: int = metastore.do("open_txns", rqst=request).txn_ids[0]
    return txn


def locked(metastore: Within, name: str, part: str | None = None) -> int:
    """The state of a lock that a new transaction asks for: nobody else may use the table, or the partition."""
    place = {"dbname": "default", "tablename": name, "partitionname": part, "operationType": UPDATE}
    level = TABLE_LEVEL if part is None else PARTITION_LEVEL
    wanted = struct("LockComponent", type=EXCLUSIVE, level=level, isTransactional=True, **place)
    request = struct("LockRequest", component=[wanted], txnid=begun(metastore), user="u", hostname="h")
    state: int = metastore.do("lock", rqst=request).state
    return state


def compacted(metastore: Within) -> list[tuple[bytes, bytes]]:
    """(table, partition) of all compactions."""
    found = metastore.do("show_compact", rqst=struct("ShowCompactRequest")).compacts
    return [(each.tablename, each.partitionname) for each in found]


def write(metastore: Within) -> None:
    """A transaction that has written to the partition, and a compaction that is asked for."""
    txn = begun(metastore)
    request = struct("AllocateTableWriteIdsRequest", dbName="default", tableName="t", txnIds=[txn])
    (written,) = metastore.do("allocate_table_write_ids", rqst=request).txnToWriteIds
    values = {"txnid": txn, "writeid": written.writeId, "dbname": "default", "tablename": "t"}
    request = struct("AddDynamicPartitions", partitionnames=["k=1"], operationType=UPDATE, **values)
    metastore.do("add_dynamic_partitions", rqst=request)
    metastore.do("commit_txn", rqst=struct("CommitTxnRequest", txnid=txn))
    place = {"dbname": "default", "tablename": "t", "partitionname": "k=1"}
    metastore.do("compact2", rqst=struct("CompactionRequest", type=MINOR, **place))


def renamed(metastore: Within) -> None:
    found: Any = metastore.do("get_table_req", req=struct("GetTableRequest", dbName="default", tblName="t", **ABLE))
    found.table.tableName = "u"
    values = {"dbName": "default", "tableName": "t", "table": found.table}
    metastore.do("alter_table_req", req=struct("AlterTableRequest", **values, **ABLE))


def test_a_table(metastore: Within) -> None:
    write(metastore)
    assert locked(metastore, "t") == ACQUIRED
    renamed(metastore)
    assert locked(metastore, "u") == WAITING
    assert locked(metastore, "t") == ACQUIRED
    assert compacted(metastore) == [(b"u", b"k=1")]


def test_a_partition(metastore: Within) -> None:
    write(metastore)
    assert locked(metastore, "t", "k=1") == ACQUIRED
    part = metastore.do("get_partition", db_name="default", tbl_name="t", part_vals=["1"])
    part.values = [b"2"]
    metastore.do("rename_partition", db_name="default", tbl_name="t", part_vals=["1"], new_part=part)
    assert locked(metastore, "t", "k=2") == WAITING
    assert locked(metastore, "t", "k=1") == ACQUIRED
    assert compacted(metastore) == [(b"t", b"k=2")]


def test_a_source_of_a_view(metastore: Within) -> None:
    """A materialized view that was built before is not current. Of the first name, nothing has been written."""
    write(metastore)
    renamed(metastore)
    for name, changed in (("default.u", True), ("default.t", False)):
        seen = json.dumps({"validTxnList": f"1${name}:0:9223372036854775807::"})
        view = struct("CreationMetadata", catName="hive", dbName="default", tblName="mv", tablesUsed={name})
        view.validTxnList = seen
        found = metastore.do("get_materialization_invalidation_info", creation_metadata=view, validTxnList="")
        assert (found.sourceTablesUpdateDeleteModified, found.sourceTablesCompacted) == (changed, changed)
