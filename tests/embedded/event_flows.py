"""Calls that leave every kind of event, asked of Hive and of the embedded metastore: each has ids of its own.

Job: functions of (metastore, database), which make what they need. Must not know: what is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import struct
from tests.embedded.logged import Logged
from tests.embedded.registry_scripts import Registry
from tests.embedded.scripts import descriptor, field, partition, table

Flow = Callable[[Logged, str], None]
DEFAULT, REPL_CREATED, READ_ONLY, COMPACTION, MATER_VIEW_REBUILD, SOFT_DELETE, REBALANCE = range(7)
MAJOR = 2
SOURCE = 1 << 40  # the first transaction of another metastore, which is none here
ORC = {"sd": descriptor([field("a", "int"), field("b")], **FORMATS)}
EXTERNAL = {"EXTERNAL": "TRUE"}
FLAGS = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True}


def _acid(asked: Logged, db: str, name: str, *, keys: list[Any] | None = None) -> None:
    wanted = table(db, name, **ORC, partitionKeys=keys or [], tableType="MANAGED_TABLE", parameters={**FULL})
    asked.ask("create_table_req", {"request": struct("CreateTableRequest", table=wanted, **ABLE)})


def _external(asked: Logged, db: str, name: str, **fields: Any) -> None:
    asked.ask("create_table", {"tbl": table(db, name, **ORC, parameters={**EXTERNAL, "_meta_k": "0"}, **fields)})


def opened(asked: Logged, count: int = 1, **fields: Any) -> list[int]:
    """New transactions."""
    request = struct("OpenTxnRequest", num_txns=count, user="u", hostname="h", **fields)
    return list(asked.value("open_txns", {"rqst": request}).txn_ids)


def _allocate(asked: Logged, db: str, name: str, txns: list[int] | None, **fields: Any) -> Any:
    request = struct("AllocateTableWriteIdsRequest", dbName=db, tableName=name, txnIds=txns, **fields)
    return asked.ask("allocate_table_write_ids", {"rqst": request})


def _commit(asked: Logged, txn: int, **fields: Any) -> Any:
    return asked.ask("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=txn, **fields)})


def _table(asked: Logged, db: str, name: str) -> Any:
    request = struct("GetTableRequest", dbName=db, tblName=name, **ABLE)
    return asked.value("get_table_req", {"req": request}).table


def _alter(asked: Logged, db: str, name: str, **fields: Any) -> None:
    """Change a table as clients do: as it is, but for `fields`."""
    changed = _table(asked, db, name)
    for key, value in fields.items():
        setattr(changed, key, value)
    request = struct("AlterTableRequest", dbName=db, tableName=name, table=changed, **ABLE)
    asked.ask("alter_table_req", {"req": request})


def definitions(asked: Logged, db: str) -> None:
    """Databases, tables, functions and catalogs."""
    other, catalog = f"{db}_other", f"{db}_catalog"
    made = struct("Database", name=other, description="d", parameters={"k": "v"})
    asked.ask("create_database", {"database": made})
    asked.ask("alter_database", {"dbname": other, "db": struct("Database", name=other, parameters={"a": "b"})})
    _external(asked, db, "t")
    _acid(asked, db, "full")
    _alter(asked, db, "t", parameters={**EXTERNAL, "x": "y"})
    _alter(asked, db, "t", dbName=other, tableName="u")
    _alter(asked, db, "full", tableName="fuller")
    asked.ask("truncate_table", {"dbName": other, "tableName": "u", "partNames": []})
    (txn,) = opened(asked)
    _allocate(asked, db, "fuller", [txn])
    mine = {"dbName": db, "tableName": "fuller", "writeId": 1, "validWriteIdList": f"{db}.fuller:1:{1 << 62}::"}
    asked.ask("truncate_table_req", {"req": struct("TruncateTableRequest", **mine)})
    _commit(asked, txn)
    asked.ask("drop_table", {"dbname": other, "name": "u", "deleteData": True})
    function = {"functionName": "f", "className": "a.B", "ownerName": "me", "ownerType": 1, "functionType": 1}
    resource = struct("ResourceUri", resourceType=1, uri="file:/a.jar")
    for place in (db, other):
        asked.ask("create_function", {"func": struct("Function", **function, dbName=place, resourceUris=[resource])})
    changed = struct("Function", **{**function, "className": "c.D"}, dbName=db, resourceUris=[])
    asked.ask("alter_function", {"dbName": db, "funcName": "f", "newFunc": changed})
    asked.ask("drop_function", {"dbName": db, "funcName": "f"})
    asked.ask("drop_database", {"name": other, "deleteData": True, "cascade": True})
    place = struct("Catalog", name=catalog, description="d", locationUri="file:/ELSEWHERE")
    asked.ask("create_catalog", {"catalog": struct("CreateCatalogRequest", catalog=place)})
    place = struct("Catalog", name=catalog, description="e", locationUri="file:/ELSEWHERE")
    asked.ask("alter_catalog", {"rqst": struct("AlterCatalogRequest", name=catalog, newCat=place)})
    asked.ask("drop_catalog", {"catName": struct("DropCatalogRequest", name=catalog)})


def partitions(asked: Logged, db: str) -> None:
    """Partitions, what is written into them, and what is to be read again."""
    _external(asked, db, "p", partitionKeys=[field("k")])
    named = {"db_name": db, "tbl_name": "p"}
    parts = [partition(db, "p", [value], **ORC) for value in "123"]
    asked.ask("add_partitions", {"new_parts": parts})
    first, *others = asked.value("get_partitions", {**named, "max_parts": -1})
    first.parameters["x"] = "y"
    asked.ask("alter_partition", {**named, "new_part": first})
    asked.ask("alter_partitions", {**named, "new_parts": [first, *others]})
    renamed = partition(db, "p", ["4"], **ORC)
    asked.ask("rename_partition", {**named, "part_vals": ["3"], "new_part": renamed})
    for wanted in (["k=1"], ["k=1", "k=2"], [], ["k=9"], None):
        asked.ask("truncate_table", {"dbName": db, "tableName": "p", "partNames": wanted})
    _external(asked, db, "t")

    def fire(name: str, data: dict[str, Any], **fields: Any) -> None:
        values = {"successful": True, "dbName": db, "tableName": name, **fields}
        request = struct("FireEventRequest", data=struct("FireEventRequestData", **data), **values)
        asked.ask("fire_listener_event", {"rqst": request})

    inserted = {"filesAdded": ["file:/x", "file:/y"], "filesAddedChecksum": ["1", "2"], "subDirectoryList": ["", "d"]}
    fire("t", {"insertData": struct("InsertEventRequestData", **inserted)})
    fire("t", {"insertData": struct("InsertEventRequestData", filesAdded=["file:/z"], replace=False)})
    fire("p", {"insertData": struct("InsertEventRequestData", filesAdded=["file:/x"])}, partitionVals=["1"])
    several = [struct("InsertEventRequestData", filesAdded=["file:/x"], partitionVal=[value]) for value in "12"]
    fire("p", {"insertDatas": several})
    for refresh in (True, False):
        fire("t", {"refreshEvent": refresh}, tblParams={"more": "1"})
        fire("p", {"refreshEvent": refresh}, partitionVals=["1"])
        fire("p", {"refreshEvent": refresh}, batchPartitionValsForRefresh=[["1"], ["2"]])
        fire("p", {"refreshEvent": refresh}, batchPartitionValsForRefresh=[["2"]])
        fire("p", {"refreshEvent": refresh}, catName="hive")
    fire("nope", {"refreshEvent": True})
    fire("p", {"refreshEvent": True}, partitionVals=["9"])
    fire("p", {"refreshEvent": True}, batchPartitionValsForRefresh=[["1"], ["9"]])
    asked.ask("drop_partition", {**named, "part_vals": ["4"], "deleteData": True})


def statistics(asked: Logged, db: str) -> None:
    """Column statistics, with and without a write id, of one and of several partitions."""
    _external(asked, db, "t")
    _external(asked, db, "p", partitionKeys=[field("k")])
    asked.ask("add_partitions", {"new_parts": [partition(db, "p", [value], **ORC) for value in "12"]})

    def about(name: str, part: str | None = None) -> Any:
        numbers = struct("LongColumnStatsData", lowValue=1, highValue=2, numNulls=3, numDVs=4)
        data = struct("ColumnStatisticsData", longStats=numbers)
        one = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=data)
        place = {"isTblLevel": part is None, "dbName": db, "tableName": name, "partName": part}
        return struct("ColumnStatistics", statsDesc=struct("ColumnStatisticsDesc", **place), statsObj=[one])

    def request(*stats: Any, **fields: Any) -> Any:
        return struct("SetPartitionsStatsRequest", colStats=list(stats), needMerge=False, engine="hive", **fields)

    _external(asked, db, "new")
    asked.ask("add_partitions", {"new_parts": [partition(db, "p", ["3"], **ORC)]})
    for fresh in (about("new"), about("p", "k=3")):
        asked.ask("set_aggr_stats_for", {"request": request(fresh)})
    asked.ask("truncate_table", {"dbName": db, "tableName": "new", "partNames": []})
    asked.ask("update_table_column_statistics", {"stats_obj": about("t")})
    asked.ask("update_table_column_statistics_req", {"req": request(about("t"), writeId=0)})
    asked.ask("update_partition_column_statistics", {"stats_obj": about("p", "k=1")})
    asked.ask("update_partition_column_statistics_req", {"req": request(about("p", "k=2"), writeId=7)})
    asked.ask("set_aggr_stats_for", {"request": request(about("t"))})
    asked.ask("set_aggr_stats_for", {"request": request(about("p", "k=1"), about("p", "k=2"))})
    gone = {"db_name": db, "col_name": "a", "engine": "hive"}
    asked.ask("delete_partition_column_statistics", {**gone, "tbl_name": "p", "part_name": "k=1"})
    asked.ask("delete_table_column_statistics", {**gone, "tbl_name": "t"})
    place = {"cat_name": "hive", "db_name": db, "engine": "hive", "col_names": ["a", "b"]}
    of_parts = struct("DeleteColumnStatisticsRequest", **place, tbl_name="p", part_names=["k=2"], tableLevel=False)
    asked.ask("delete_column_statistics_req", {"req": of_parts})
    of_table = struct("DeleteColumnStatisticsRequest", **place, tbl_name="t", tableLevel=True)
    asked.ask("delete_column_statistics_req", {"req": of_table})


def constraints(asked: Logged, db: str) -> None:
    """All six kinds, and one that is dropped."""
    for name in ("p", "c"):
        _external(asked, db, name)

    def one(kind: str, **fields: Any) -> Any:
        return struct(kind, catName="hive", table_db=db, table_name="p", column_name="b", **FLAGS, **fields)

    def add(what: str, kind: str, one: Any, name: str | None = None) -> None:
        of = f"{(name or kind)[0].lower()}{(name or kind)[1:]}"
        asked.ask(f"add_{what}", {"req": struct(f"Add{kind}Request", **{f"{of}Cols": [one]})})

    places = {"pktable_db": db, "pktable_name": "p", "fktable_db": db, "fktable_name": "c", "catName": "hive"}
    rest = {"key_seq": 1, "update_rule": 0, "delete_rule": 0, "fk_name": "fk", "pk_name": "pk"}
    foreign = struct("SQLForeignKey", **places, **rest, **FLAGS, pkcolumn_name="b", fkcolumn_name="b")
    add("primary_key", "PrimaryKey", one("SQLPrimaryKey", key_seq=1, pk_name="pk"))
    add("foreign_key", "ForeignKey", foreign)
    add("unique_constraint", "UniqueConstraint", one("SQLUniqueConstraint", key_seq=1, uk_name="uk"))
    add("not_null_constraint", "NotNullConstraint", one("SQLNotNullConstraint", nn_name="nn"))
    add("default_constraint", "DefaultConstraint", one("SQLDefaultConstraint", default_value="'x'", dc_name="df"))
    add("check_constraint", "CheckConstraint", one("SQLCheckConstraint", check_expression="b>1", dc_name="ck"))
    dropped = struct("DropConstraintRequest", catName="hive", dbname=db, tablename="p", constraintname="UK")
    asked.ask("drop_constraint", {"req": dropped})


def transactions(asked: Logged, db: str) -> None:
    """Opened, written, committed and aborted, alone and several at once, and those that only read."""
    _acid(asked, db, "w")
    _acid(asked, db, "pw", keys=[field("k")])
    _external(asked, db, "plain")
    idle, writer, both, keyed, plain, gone = opened(asked, 6)
    (reader,) = opened(asked, txn_type=READ_ONLY)
    (rebuild,) = opened(asked, txn_type=MATER_VIEW_REBUILD)
    _allocate(asked, db, "w", [both, writer])
    _allocate(asked, db, "w", [writer])  # it has one
    _allocate(asked, db.upper(), "PW", [both])
    _allocate(asked, db, "plain", [plain])
    _allocate(asked, db, "w", [reader])
    _allocate(asked, db, "nope", [gone])
    _allocate(asked, db, "nope2", [gone])
    _allocate(asked, db, "nope", [gone], reallocate=True)
    _allocate(asked, db, "w", [keyed])
    added = partition(db, "pw", ["1"], **ORC)
    asked.ask("add_partition", {"new_part": added})
    (part,) = asked.value("get_partitions", {"db_name": db, "tbl_name": "pw", "max_parts": -1})
    mine = {"writeId": 1, "validWriteIdList": f"{db}.pw:1:{1 << 62}::"}
    request = struct("AlterPartitionsRequest", dbName=db, tableName="pw", partitions=[part], **mine)
    asked.ask("alter_partitions_req", {"req": request})
    told = {"txnid": both, "writeid": 1, "dbname": db, "tablename": "pw", "partitionnames": ["k=1"]}
    asked.ask("add_dynamic_partitions", {"rqst": struct("AddDynamicPartitions", **told, operationType=1)})
    for value, txn in (("1", both), ("2", writer)):
        info = struct("InsertEventRequestData", filesAdded=[f"file:/{value}"], filesAddedChecksum=["1"])
        request = struct("WriteNotificationLogRequest", txnId=txn, writeId=1, db=db, table="w", fileInfo=info)
        if txn == both:
            asked.ask("add_write_notification_log", {"rqst": request})
            continue
        batch = struct("WriteNotificationLogBatchRequest", catalog="hive", db=db, table="w", requestList=[request])
        asked.ask("add_write_notification_log_in_batch", {"rqst": batch})
    for txn in (idle, idle, writer, both, reader, rebuild):
        _commit(asked, txn)
    wrong = struct("CommitTxnKeyValue", tableId=_table(asked, db, "plain").id, key="other", value="1")
    _commit(asked, keyed, keyValue=wrong)
    for txn, value in ((keyed, "1"), (plain, "2")):
        pair = struct("CommitTxnKeyValue", tableId=_table(asked, db, "plain").id, key="_meta_k", value=value)
        _commit(asked, txn, keyValue=pair)
    asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=gone)})
    asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=gone)})
    one, two, three, four = opened(asked, 4)
    (reader,) = opened(asked, txn_type=READ_ONLY)
    _allocate(asked, db, "w", [one, two])
    _commit(asked, four)
    several = [two, reader, four, three, one, (1 << 60)]
    asked.ask("abort_txns", {"rqst": struct("AbortTxnsRequest", txn_ids=several)})
    _commit(asked, one)


def compactions(asked: Logged, db: str) -> None:
    """A worker that compacts a table and a partition, in a pool of its own; and one whose compaction is not there."""
    _acid(asked, db, "c")
    _acid(asked, db, "pc", keys=[field("k")])
    asked.ask("add_partition", {"new_part": partition(db, "pc", ["1"], **ORC)})
    for name, part, kind in (("c", None, COMPACTION), ("pc", "k=1", COMPACTION), ("c", None, REBALANCE)):
        wanted = {"dbname": db, "tablename": name, "partitionname": part, "type": MAJOR, "poolName": db}
        asked.ask("compact2", {"rqst": struct("CompactionRequest", **wanted)})
        taking = struct("FindNextCompactRequest", workerId="w", workerVersion="v", poolName=db)
        info = asked.value("find_next_compact2", {"rqst": taking}).ci
        (txn,) = opened(asked, txn_type=kind)
        asked.ask("update_compactor_state", {"cr": info, "txn_id": txn})
        asked.ask("mark_compacted", {"cr": info})
        _commit(asked, txn)
        _commit(asked, txn)
        asked.ask("mark_cleaned", {"cr": info})
    (alone,) = opened(asked, txn_type=COMPACTION)
    _commit(asked, alone)
    cleanup = struct("CompactionRequest", dbname=db, tablename="c", type=4, properties={"a": "b"})
    (txn,) = opened(asked, txn_type=SOFT_DELETE)
    asked.ask("submit_for_cleanup", {"o1": cleanup, "o2": 3, "o3": txn})
    _commit(asked, txn)


def replications(asked: Logged, db: str) -> None:
    """Transactions that follow another metastore's, and those of the replication itself."""
    _acid(asked, db, "r")
    policy = {"replPolicy": db, "txn_type": REPL_CREATED}
    first, second, third = (SOURCE + number for number in range(3))
    opened(asked, 3, replSrcTxnIds=[first, second, third], **policy)
    opened(asked, 2, replSrcTxnIds=[second, third], **policy)  # they are there
    pairs = [struct("TxnToWriteId", txnId=txn, writeId=number) for number, txn in enumerate((first, second), 1)]
    _allocate(asked, db, "r", None, replPolicy=db, srcTxnToWriteIdList=pairs)
    _allocate(asked, db, "r", None, replPolicy=db, srcTxnToWriteIdList=pairs)
    later = [struct("TxnToWriteId", txnId=third, writeId=9)]
    _allocate(asked, db, "r", None, replPolicy=db, srcTxnToWriteIdList=later)
    _commit(asked, first, **policy)
    _commit(asked, first, **policy)
    _allocate(asked, db, "r", None, replPolicy=db, srcTxnToWriteIdList=pairs)  # one has ended
    asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=second, **policy)})
    own = {"replPolicy": db, "txn_type": DEFAULT}
    one, two = opened(asked, 2, **own)
    _commit(asked, one, **own)
    asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=two, **own)})
    some = {"user": db, "hostName": "h", "dbName": db, "tableName": "some", "validWriteIdlist": f"{db}.some:5:4:1,3:2"}
    asked.ask("repl_tbl_writeid_state", {"rqst": struct("ReplTblWriteIdStateRequest", **some)})
    asked.note_those_of(db)


def unlogged(asked: Logged, db: str) -> None:
    """Data connectors and schemas, of which nothing is logged."""
    connector = struct("DataConnector", name=f"{db}_c", type="mysql", url="jdbc:x")
    asked.ask("create_dataconnector_req", {"connectorReq": struct("CreateDataConnectorRequest", connector=connector)})
    changed = struct("AlterDataConnectorRequest", connectorName=f"{db}_c", newConnector=connector)
    asked.ask("alter_dataconnector_req", {"alterReq": changed})
    asked.ask("drop_dataconnector_req", {"dropDcReq": struct("DropDataConnectorRequest", connectorName=f"{db}_c")})
    registry = Registry(db)
    for step in (
        registry.make("s"),
        registry.alter("s", "s", compatibility=1),
        registry.add("s", 1),
        registry.drop_version("s", 1),
        registry.drop("s"),
    ):
        asked.ask(*step)


FLOWS: tuple[Flow, ...] = (
    definitions,
    partitions,
    statistics,
    constraints,
    transactions,
    compactions,
    replications,
    unlogged,
)
