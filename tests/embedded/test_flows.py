"""Calls that need numbers of earlier answers, asked of Hive 4.2.0 and of the embedded metastore: each has its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.comparison import first_difference
from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import Asked, struct
from tests.embedded.scheduled_scripts import ALTER, CREATE, DROP, Queries
from tests.embedded.scripts import descriptor, field, partition, table
from tests.embedded.test_like_hive import without_ids
from tests.embedded.writer_flows import writers
from tests.testbed.metastore import Metastore

INITED, EXECUTING, FAILED, FINISHED, TIMED_OUT, AUTO_DISABLED = range(6)
MINOR, MAJOR, CLEANUP = 1, 2, 4
UPDATE = 3
NONE_OPEN = (1 << 63) - 1


def runs(asked: Asked, db: str) -> Iterator[Any]:
    """A scheduled query, run several times. Each run begins with a time of the query that has passed."""
    queries = Queries(db)
    yield asked.ask(*queries.keep(CREATE, "q"))
    for states in (
        (INITED, EXECUTING, INITED, EXECUTING, TIMED_OUT, EXECUTING),
        (EXECUTING, FINISHED, EXECUTING),
        (FAILED, FINISHED),
        (AUTO_DISABLED, FINISHED),
    ):
        yield asked.ask(*queries.keep(ALTER, "q", nextExecution=6))
        polled = asked.value(*queries.poll())
        yield polled.scheduleKey.scheduleName, polled.query, polled.user
        yield asked.ask(*queries.get("q"))
        for state in states:
            yield asked.ask(*queries.keep(ALTER, "q", nextExecution=6))
            yield asked.ask(*queries.poll())
            error = "e" if state == FAILED else None
            yield asked.ask(*queries.progress(polled.executionId, state, errorMessage=error))
        yield asked.ask(*queries.poll())
        yield asked.ask(*queries.keep(DROP, "q"))
        yield list(asked.ask(*queries.progress(polled.executionId, FINISHED))[1])
        yield asked.ask(*queries.keep(CREATE, "q"))


def _compaction(db: str, **fields: Any) -> dict[str, Any]:
    return {"rqst": struct("CompactionRequest", **({"dbname": db, "tablename": "t", "type": MAJOR} | fields))}


def _info(db: str, number: int, **fields: Any) -> dict[str, Any]:
    values = {"id": number, "dbname": db, "tablename": "t", "type": MAJOR} | fields
    return {"cr": struct("CompactionInfoStruct", **values)}


def workers(asked: Asked, db: str) -> Iterator[Any]:
    """Workers of a compactor, in a pool of their own, since they take what anybody has queued."""

    def take(pool: str) -> Any:
        request = struct("FindNextCompactRequest", workerId="w", workerVersion="v", poolName=pool)
        return asked.value("find_next_compact2", {"rqst": request}).ci

    def taken(**fields: Any) -> int:
        queued = asked.value("compact2", _compaction(db, poolName=db, **fields))
        assert queued.accepted
        assert take(db).id == queued.id
        return int(queued.id)

    def shown() -> Any:
        listed = asked.ask("show_compact", {"rqst": struct("ShowCompactRequest", dbName=db)})[1]["success"][1]
        volatile = ("enqueueTime", "start", "endTime", "txnId", "cleanerStart")
        found = [{key: value for key, value in each[1].items() if key not in volatile} for each in listed["compacts"]]
        return sorted(found, key=repr)

    def give_up(*numbers: int) -> Any:
        request = struct("AbortCompactionRequest", compactionIds=list(numbers))
        told = asked.value("abort_Compactions", {"rqst": request}).abortedcompacts
        return [(told[number].status, told[number].message) for number in numbers]

    txn = asked.value("open_txns", {"rqst": struct("OpenTxnRequest", num_txns=1, user="u", hostname="h")}).txn_ids[0]
    yield take(db)
    queued = asked.value("compact2", _compaction(db, poolName=db, runas="me", properties={"a": "b"}, numberOfBuckets=3))
    yield shown()
    yield take("other pool")
    info = take(db)
    yield info.id == queued.id
    yield [value for name, value in info.__dict__.items() if name not in ("id", "dbname", "poolname")]
    for number in (queued.id, NONE_OPEN):
        yield asked.ask("set_hadoop_jobid", {"jobId": "job", "cq_id": number})
        yield asked.ask("update_compactor_state", {**_info(db, number, highestWriteId=5), "txn_id": txn})
        yield give_up(number)
        yield asked.ask("mark_compacted", _info(db, number))
        yield shown()
    yield give_up(queued.id)
    yield asked.ask("mark_cleaned", _info(db, NONE_OPEN, tablename="other"))
    yield asked.ask("mark_cleaned", _info(db, queued.id, highestWriteId=5))
    yield shown()
    yield give_up(queued.id)
    for how in ("mark_failed", "mark_refused"):
        number = taken(type=MINOR)
        yield asked.ask(how, _info(db, number, errorMessage="boom", workerId="w"))
        yield asked.ask(how, _info(db, number))
        yield asked.ask(how, _info(db, 0, errorMessage="never"))
        yield give_up(number)
    yield shown()
    waiting = asked.value("compact2", _compaction(db, poolName=db)).id
    yield give_up(waiting, NONE_OPEN)
    yield give_up(waiting)
    yield asked.ask("abort_Compactions", {"rqst": struct("AbortCompactionRequest", compactionIds=[])})
    cleanup = _compaction(db, type=CLEANUP, partitionname="p=1", properties={"a": "b"})["rqst"]
    yield asked.ask("submit_for_cleanup", {"o1": cleanup, "o2": 3, "o3": txn})
    yield shown()
    metric = {"dbname": db, "tblname": "t", "type": 1, "version": 0, "threshold": 3}
    for value in (5, 9, 1, 1):
        data = struct("CompactionMetricsDataStruct", metricvalue=value, **metric)
        yield asked.ask("update_compaction_metrics_data", {"data": data})
    gone = struct("CompactionMetricsDataRequest", dbName=db, tblName="t", type=1)
    yield asked.ask("remove_compaction_metrics_data", {"request": gone})


def _acid_tables(asked: Asked, db: str) -> None:
    made: dict[str, Any] = {"tableType": "MANAGED_TABLE", "parameters": FULL}
    for name, keys in (("t", []), ("pt", [field("p")])):
        wanted = table(db, name, sd=descriptor(**FORMATS), partitionKeys=keys, **made)
        asked.ask("create_table_req", {"request": struct("CreateTableRequest", table=wanted, **ABLE)})
    for value in ("1", "2"):
        asked.ask("add_partition", {"new_part": partition(db, "pt", [value])})


def writes(asked: Asked, db: str) -> Iterator[Any]:
    """Files that transactions tell of; a second write to one table is left out, at which Hive fails on PostgreSQL."""
    _acid_tables(asked, db)
    opened = {"rqst": struct("OpenTxnRequest", num_txns=2, user="u", hostname="h")}
    first, second = asked.value("open_txns", opened).txn_ids

    def told(txn: int, name: str, files: list[str], values: list[str] | None = None, **fields: Any) -> Any:
        info = struct("InsertEventRequestData", filesAdded=files, **fields)
        place = {"txnId": txn, "writeId": 1, "db": db, "table": name, "partitionVals": values}
        return struct("WriteNotificationLogRequest", fileInfo=info, **place)

    def asked_for(txn: int, **fields: Any) -> Any:
        request = struct("GetAllWriteEventInfoRequest", txnId=txn, **fields)
        listed = [dict(each[1]) for each in asked.ask("get_all_write_event_info", {"request": request})[1]["success"]]
        for each in listed:
            for name in {"tableObj", "partitionObj"} & each.keys():
                each[name] = without_ids(json.loads(each[name].replace(b"TIME", b"0")))
        return sorted(listed, key=lambda each: (each["table"], each["partition"]))

    def batch(name: str, *requests: Any) -> Any:
        values = {"catalog": "hive", "db": db, "table": name, "requestList": list(requests)}
        return asked.ask(
            "add_write_notification_log_in_batch", {"rqst": struct("WriteNotificationLogBatchRequest", **values)}
        )

    places = {"filesAddedChecksum": ["1", "2"], "subDirectoryList": ["", "d"]}
    yield asked.ask("add_write_notification_log", {"rqst": told(first, "t", ["file:/a", "file:/b"], **places)})
    yield asked.ask("add_write_notification_log", {"rqst": told(first, "pt", ["file:/c"], ["1"])})
    yield batch("pt")
    yield batch("pt", *(told(second, "pt", [f"file:/{value}"], [value]) for value in ("1", "2")))
    yield from (asked_for(txn) for txn in (first, second, NONE_OPEN))
    for fields in ({"dbName": db}, {"dbName": db, "tableName": "pt"}, {"tableName": "pt"}, {"dbName": db.upper()}):
        yield asked_for(first, **fields)
    yield asked.ask("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=first)})
    yield asked_for(first)


def drops(asked: Asked, db: str) -> Iterator[Any]:
    """What is left of a dropped partition's compactions, done and waiting, and of what was written to it."""
    _acid_tables(asked, db)
    opened = {"rqst": struct("OpenTxnRequest", num_txns=1, user="u", hostname="h")}
    txn = asked.value("open_txns", opened).txn_ids[0]
    allocated = struct("AllocateTableWriteIdsRequest", dbName=db, tableName="pt", txnIds=[txn])
    asked.value("allocate_table_write_ids", {"rqst": allocated})
    place = {"txnid": txn, "writeid": 1, "dbname": db, "tablename": "pt", "operationType": UPDATE}
    written = struct("AddDynamicPartitions", partitionnames=["p=1", "p=2"], **place)
    yield asked.ask("add_dynamic_partitions", {"rqst": written})
    yield asked.ask("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=txn)})
    for name in ("p=1", "p=2"):
        asked.value("compact2", _compaction(db, tablename="pt", partitionname=name, poolName=db))
        request = struct("FindNextCompactRequest", workerId="w", workerVersion="v", poolName=db)
        number = asked.value("find_next_compact2", {"rqst": request}).ci.id
        given = {"tablename": "pt", "partitionname": name, "errorMessage": "boom", "workerId": "w"}
        asked.ask("mark_failed", _info(db, number, **given))
        asked.value("compact2", _compaction(db, tablename="pt", partitionname=name, poolName=db))

    def shown() -> Any:
        found = asked.value("show_compact", {"rqst": struct("ShowCompactRequest", dbName=db)}).compacts
        return sorted((each.tablename, each.partitionname, each.state) for each in found)

    def changed() -> Any:
        seen = json.dumps({"validTxnList": f"1${db}.pt:0:{NONE_OPEN}::"})
        view = struct("CreationMetadata", catName="hive", dbName=db, tblName="v", tablesUsed={f"{db}.pt"})
        view.validTxnList = seen
        return asked.ask("get_materialization_invalidation_info", {"creation_metadata": view, "validTxnList": ""})

    yield shown()
    yield changed()
    for values in (["1"], ["2"]):
        yield asked.ask("drop_partition", {"db_name": db, "tbl_name": "pt", "part_vals": values, "deleteData": True})
        yield shown()
        yield changed()
    request = struct("MaxAllocatedTableWriteIdRequest", dbName=db, tableName="pt")
    yield asked.ask("get_max_allocated_table_write_id", {"rqst": request})


def replays(asked: Asked, db: str) -> Iterator[Any]:
    """Transactions and write ids that follow another metastore's."""

    def opened(sources: list[int] | None = None, **fields: Any) -> list[int]:
        count = len(sources or [1])
        request = struct("OpenTxnRequest", num_txns=count, user="u", hostname="h", replSrcTxnIds=sources, **fields)
        return list(asked.value("open_txns", {"rqst": request}).txn_ids)

    def mapped(policy: str, names: dict[int, str]) -> Any:
        found = asked.value("get_replayed_txns_for_policy", {"policyName": policy}).replTxnMapEntry
        return sorted((source, names.get(int(target))) for source, target in found.items())

    policy = {"replPolicy": db, "txn_type": 1}
    ids = opened([1001, 1002, 1003], **policy)
    names = dict(zip(ids, "abc", strict=True))
    yield mapped(db, names)
    yield mapped(db.upper(), names)
    yield [names.get(each) for each in opened([1002, 1003], **policy)]
    yield asked.ask("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=1001, **policy)})
    yield asked.ask("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=1001, **policy)})
    yield asked.ask("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=1002, **policy)})
    yield mapped(db, names)
    (txn,) = opened()
    refused = asked.ask("seed_txn_id", {"rqst": struct("SeedTxnIdRequest", seedTxnId=txn - 1)})
    yield (
        list(refused[1]),
        refused[1]["o1"][1]["message"].startswith(b"Invalid txnId seed %d, the highWaterMark" % (txn - 1)),
    )

    def highest(name: str) -> Any:
        request = struct("MaxAllocatedTableWriteIdRequest", dbName=db, tableName=name)
        return asked.ask("get_max_allocated_table_write_id", {"rqst": request})

    def seed(name: str, last: int) -> Any:
        request = struct("SeedTableWriteIdsRequest", dbName=db, tableName=name, seedWriteId=last)
        return list(asked.ask("seed_write_id", {"rqst": request})[1])

    def valid(name: str) -> Any:
        request = struct("GetValidWriteIdsRequest", fullTableNames=[f"{db}.{name}"])
        return asked.ask("get_valid_write_ids", {"rqst": request})

    def state(name: str, text: str) -> Any:
        values = {"user": "u", "hostName": "h", "dbName": db, "tableName": name}
        request = struct("ReplTblWriteIdStateRequest", validWriteIdlist=f"{db}.{name}:{text}", **values)
        return asked.ask("repl_tbl_writeid_state", {"rqst": request})

    for name in ("seeded", "seeded", "SEEDED"):
        yield seed(name, 50)
        yield highest(name)
    for name, text in (("some", "5:4:1,3:2"), ("none", f"7:{NONE_OPEN}::"), ("some", "9:4::1"), ("bad", "x")):
        yield state(name, text)
        yield highest(name)
        yield valid(name)
    request = struct("ShowCompactRequest", dbName=db)
    compacts = asked.value("show_compact", {"rqst": request}).compacts
    yield [(each.tablename, each.partitionname, each.type, each.state) for each in compacts]
    for write_ids in ({f"{db}.t": 1}, {"x": 1}, {}):
        yield asked.ask("add_write_ids_to_min_history", {"txnId": txn, "writeIds": write_ids})
    yield list(asked.ask("add_write_ids_to_min_history", {"txnId": NONE_OPEN, "writeIds": {f"{db}.t": 1}})[1])
    yield asked.ask("get_latest_txnid_in_conflict", {"txnId": txn})
    counts = struct("UpdateTransactionalStatsRequest", tableId=NONE_OPEN, insertCount=1, updatedCount=2, deletedCount=3)
    yield asked.ask("update_transaction_statistics", {"req": counts})
    empty = struct("CreationMetadata", catName="hive", dbName=db, tblName="v", tablesUsed=set(), validTxnList="x")
    yield asked.ask(
        "get_materialization_invalidation_info", {"creation_metadata": empty, "validTxnList": f"1:{NONE_OPEN}::"}
    )
    some, none = f"{db}.some:5:4:1,3:2", f"{db}.none:7:{NONE_OPEN}::"
    for lists in (f"7${some}${none}", f"7${none}$", f"7${some}", "7", "", None, "x", f"7$${some}", f"7${db}.some"):
        snapshot = json.dumps({"validTxnList": lists})
        made = struct("CreationMetadata", catName="hive", dbName=db, tblName="v", validTxnList=snapshot)
        made.tablesUsed = {f"{db}.none"}
        arguments = {"creation_metadata": made, "validTxnList": f"1:{NONE_OPEN}::"}
        yield (lists, asked.ask("get_materialization_invalidation_info", arguments))


Flow = Callable[[Asked, str], Iterator[Any]]


@pytest.mark.real
@pytest.mark.parametrize("flow", [runs, workers, writes, drops, replays, writers], ids=lambda flow: flow.__name__)
def test_flow(hms42: Metastore, embedded: Metastore, unique_name: str, flow: Flow) -> None:
    answers = []
    for metastore in (hms42, embedded):
        places = {str(metastore.external): b"/WH/external", str(metastore.warehouse): b"/WH/managed"}
        asked = Asked(metastore.address, unique_name, places)
        asked.ask("create_database", {"database": struct("Database", name=unique_name)})
        answers.append(list(flow(asked, unique_name)))
        asked.close()
    hive, ours = answers
    found = [f"{n}: {first_difference(a, b)}" for n, (a, b) in enumerate(zip(hive, ours, strict=True)) if a != b]
    assert not found, "\n".join([*found, *_state_of(hms42)])


def _state_of(hive: Metastore) -> Iterator[str]:
    """What Hive has kept of written files, and its connections: now and then it has lost them, on a busy machine."""
    assert hive.database is not None
    with hive.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute('SELECT "WNL_ID", "WNL_TXNID", "WNL_DATABASE", "WNL_TABLE" FROM "TXN_WRITE_NOTIFICATION_LOG"')
        yield f"Hive's rows: {cursor.fetchall()}"
        cursor.execute("SELECT state, xact_start, query FROM pg_stat_activity WHERE datname = current_database()")
        yield from (f"connection: {row}" for row in cursor.fetchall())
