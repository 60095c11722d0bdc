"""Transactions and write ids.

Job: carry out the calls; rows/transactions.py has the rows. Source: TxnHandler of 4.2, and answers of a running one.

A transaction without a heartbeat for TIMEOUT_MS is aborted, by housekeeping (locks.expire) or by the next call that
checks this. A commit that is refused because of a write conflict aborts the transaction, without an event, as in Hive.
Owner: the thread of a call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hms_cache_proxy.embedded import events, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, internal, meta
from hms_cache_proxy.embedded.handlers import compactions
from hms_cache_proxy.embedded.rows import components, locks
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows import transactions as rows
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.store.txn_list import ValidTxnList
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

TIMEOUT_MS = 300_000  # metastore.txn.timeout
REPLAY_TIMEOUT_MS = 11 * 86_400_000  # metastore.repl.txn.timeout: of transactions that replay those of a source
_STATES = {rows.OPEN: int(enum("TxnState")["OPEN"]), rows.ABORTED: int(enum("TxnState")["ABORTED"])}
_OPERATIONS = {
    int(enum("DataOperationType")[name]): name[0].lower() for name in ("SELECT", "INSERT", "UPDATE", "DELETE")
}
_NO_WRITE_SET = (rows.READ_ONLY, rows.SOFT_DELETE, rows.COMPACTION)
_COMPACTIONS = (rows.COMPACTION, rows.REBALANCE_COMPACTION)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def no_such_txn(txn_id: int) -> Failure:
    """NoSuchTxnException."""
    return Failure("NoSuchTxnException", f"No such transaction txnid:{txn_id}")


def aborted(txn_id: int) -> Failure:
    """TxnAbortedException."""
    return Failure("TxnAbortedException", f"Transaction txnid:{txn_id} already aborted")


def committed(txn_id: int) -> Failure:
    """NoSuchTxnException."""
    return Failure("NoSuchTxnException", f"Transaction txnid:{txn_id} is already committed.")


def state(call: Call, txn_id: int) -> tuple[str, int | None]:
    """(state, type) of a transaction; the type is None if only its writes are still known. NoSuchTxnException."""
    found = rows.state(call, txn_id)
    if found is None and components.is_completed(call, txn_id):
        return rows.COMMITTED, None
    if found is None:
        raise no_such_txn(txn_id)
    return found


def must_be_open(call: Call, txn_id: int) -> int:
    """The type of an open transaction. NoSuchTxnException or TxnAbortedException for one that is not open."""
    found, kind = state(call, txn_id)
    if found == rows.ABORTED:
        raise aborted(txn_id)
    if found == rows.COMMITTED or kind is None:
        raise committed(txn_id)
    return kind


def beat(call: Call, txn_id: int) -> None:
    """Heartbeat of a transaction. NoSuchTxnException or TxnAbortedException for one that is not open."""
    found, kind = state(call, txn_id)
    if found == rows.COMMITTED and kind is not None:
        raise Failure("NoSuchTxnException", f"No such txn: {txn_id}")
    must_be_open(call, txn_id)
    rows.heartbeat(call, txn_id, now_ms())


def operation(number: int | None) -> str:
    """The letter of a DataOperationType that reads or writes data. An internal error for others."""
    try:
        return _OPERATIONS[number or 0]
    except KeyError:
        raise internal(f"Unexpected DataOperationType: {number}") from None


def abort_expired(call: Call) -> None:
    """Abort transactions without a heartbeat."""
    now = now_ms()
    for txn_id in rows.expired(call, now - TIMEOUT_MS, now - REPLAY_TIMEOUT_MS):
        _abort(call, txn_id)


def open_txns(call: Call, args: Struct) -> Struct:
    """Open transactions; one event for all of them, none for read-only ones and those of the replication itself."""
    request = args.rqst
    if request.num_txns <= 0:
        raise meta(f"Invalid input for number of txns: {request.num_txns}")
    abort_expired(call)
    if request.txn_type == rows.REPL_CREATED:
        replayed = list(rows.targets(call, request.replPolicy, request.replSrcTxnIds or ()).values())
        if replayed:
            return new("OpenTxnsResponse", txn_ids=replayed)
    ids = rows.open_transactions(call, request, now_ms())
    if request.txn_type == rows.REPL_CREATED:
        rows.map_sources(call, request.replPolicy, request.replSrcTxnIds or (), ids)
    own = request.replPolicy and request.txn_type in (None, rows.DEFAULT)
    if request.txn_type != rows.READ_ONLY and not own:
        events.open_transactions(call, ids)
    return new("OpenTxnsResponse", txn_ids=ids)


def _here(call: Call, request: Struct) -> int | None:
    """The transaction of a request, which may name that of a replication source; None if it has ended."""
    if request.txn_type != rows.REPL_CREATED:
        return int(request.txnid)
    return rows.targets(call, request.replPolicy, [request.txnid]).get(request.txnid)


def _is_logged(request: Struct, txn_type: int) -> bool:
    """Is the end of a transaction logged? Not for read-only ones and those of the replication itself."""
    own = request.replPolicy and request.txn_type == rows.DEFAULT
    return not own and txn_type != rows.READ_ONLY


def commit_txn(call: Call, args: Struct) -> Failure | None:
    """Commit: what the transaction wrote becomes valid, and its locks end.

    Returns TxnAbortedException for a write conflict: that the transaction is aborted stays.
    """
    request = args.rqst
    txn_id = _here(call, request)
    if txn_id is None:
        return None
    found, kind = state(call, txn_id)
    if found == rows.ABORTED:
        raise aborted(txn_id)
    if found == rows.COMMITTED or kind is None:
        return None
    replayed = request.txn_type == rows.REPL_CREATED
    changed = False
    if kind not in _NO_WRITE_SET and not replayed:
        changed = components.changes_rows(call, txn_id)
        components.add_to_write_set(call, txn_id, changed=changed)
        refused = _conflict(call, txn_id) if changed and request.exclWriteEnabled is False else None
        if refused is not None:
            return refused
    if request.keyValue is not None:
        _put(call, request.keyValue)
    written = rows.written(call, request.txnid)
    if replayed:
        components.complete_replayed(call, txn_id, request.writeEventInfos or ())
        rows.end_replay(call, [txn_id])
    elif kind != rows.READ_ONLY and kind not in _COMPACTIONS:
        components.complete(call, txn_id, changed=changed)
    _end_committed(call, txn_id, kind, changed=changed)
    if _is_logged(request, kind):
        events.commit_transaction(call, txn_id, written)
    compaction = rows.compaction_of(call, txn_id)
    if compaction is not None:
        place = (compaction.CQ_DATABASE, compaction.CQ_TABLE, compaction.CQ_PARTITION)
        letter = compactions.NAMES[compaction.CQ_TYPE.strip()]
        events.commit_compaction(call, txn_id, compaction.CQ_ID, letter, place)
    return None


def _conflict(call: Call, txn_id: int) -> Failure | None:
    """Abort a transaction, without an event, if one that committed after it began changed the same."""
    found = components.conflict(call, txn_id)
    if found is None:
        return None
    components.forget_write_set(call, txn_id)
    _end_aborted(call, txn_id)
    place = "/".join(part for part in (found.DATABASE, found.TABLE, found.PARTITION) if part is not None)
    return Failure(
        "TxnAbortedException",
        f"Aborting [txnid:{txn_id},{components.commit_id(call)}] due to a write conflict on {place} committed by"
        f" [txnid:{found.TXNID},{found.COMMIT_ID}] {found.MINE}/{found.OTHER}",
    )


def _end_committed(call: Call, txn_id: int, kind: int, *, changed: bool) -> None:
    if kind != rows.READ_ONLY:
        components.remove(call, txn_id)
    locks.remove_of_transactions(call, [txn_id])
    rows.commit(call, txn_id)
    if kind == rows.MATER_VIEW_REBUILD:
        rows.end_rebuild(call, [txn_id])
    if kind in (rows.SOFT_DELETE, *_COMPACTIONS):
        without = kind == rows.REBALANCE_COMPACTION and not changed
        rows.end_compaction(call, txn_id, None if without else components.commit_id(call), now_ms())


def _put(call: Call, pair: Struct) -> None:
    """Set a table's parameter with the commit."""
    if not pair.key.startswith("_meta"):
        raise internal("a key of a commit has to begin with _meta")
    table_rows.put_parameter(call, pair.tableId, pair.key, pair.value)


def abort_txn(call: Call, args: Struct) -> None:
    """Abort: what the transaction wrote never becomes valid. The event has the id in the request, even a source's."""
    request = args.rqst
    txn_id = _here(call, request)
    if txn_id is None:
        return
    found, kind = state(call, txn_id)
    if found == rows.COMMITTED or kind is None:
        raise committed(txn_id)
    if found == rows.OPEN:
        written = rows.written(call, request.txnid)
        _end_aborted(call, txn_id)
        if _is_logged(request, kind):
            events.abort_transaction(call, request.txnid, written)


def abort_txns(call: Call, args: Struct) -> None:
    """Abort several transactions, as far as they are open, in the order of their ids."""
    for txn_id in sorted(args.rqst.txn_ids):
        found = rows.state(call, txn_id)
        if found is not None and found[0] == rows.OPEN:
            _abort(call, txn_id)


def _abort(call: Call, txn_id: int) -> None:
    found = rows.state(call, txn_id)
    written = rows.written(call, txn_id)
    _end_aborted(call, txn_id)
    if found is not None and found[1] != rows.READ_ONLY:
        events.abort_transaction(call, txn_id, written)


def _end_aborted(call: Call, txn_id: int) -> None:
    rows.abort(call, [txn_id])
    locks.remove_of_transactions(call, [txn_id])


def get_open_txns(call: Call, _args: Struct) -> Struct:
    """Open and aborted transactions, except read-only ones."""
    return _open(call, (rows.READ_ONLY,))


def get_open_txns_req(call: Call, args: Struct) -> Struct:
    """The same, except the types in the request, which must name some."""
    excluded = args.getOpenTxnsRequest.excludeTxnTypes
    if excluded is None:
        raise internal("no types of transactions are named")
    return _open(call, excluded)


def _open(call: Call, excluded: Sequence[int]) -> Struct:
    """Open and aborted transactions. The smallest open one is that of all types."""
    high, every = rows.not_committed(call)
    found = [row for row in every if (row.TXN_TYPE or 0) not in excluded]
    opened = [row.TXN_ID for row in every if row.TXN_STATE == rows.OPEN]
    return new(
        "GetOpenTxnsResponse",
        txn_high_water_mark=high,
        open_txns=[row.TXN_ID for row in found],
        min_open_txn=min(opened) if opened else None,
        abortedBits=_bits([row.TXN_STATE == rows.ABORTED for row in found]),
    )


def _bits(flags: Sequence[bool]) -> bytes:
    """A Java BitSet, with as many bytes as the last set bit needs."""
    number = sum(1 << at for at, flag in enumerate(flags) if flag)
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def get_open_txns_info(call: Call, _args: Struct) -> Struct:
    """Open and aborted transactions, with their owners."""
    high, found = rows.not_committed(call)
    listed = [
        new(
            "TxnInfo",
            id=row.TXN_ID,
            state=_STATES[row.TXN_STATE],
            user=row.TXN_USER,
            hostname=row.TXN_HOST,
            agentInfo=row.TXN_AGENT_INFO,
            heartbeatCount=row.TXN_HEARTBEAT_COUNT,
            metaInfo=row.TXN_META_INFO,
            startedTime=row.TXN_STARTED,
            lastHeartbeatTime=row.TXN_LAST_HEARTBEAT,
        )
        for row in found
    ]
    return new("GetOpenTxnsInfoResponse", txn_high_water_mark=high, open_txns=listed)


def heartbeat_txn_range(call: Call, args: Struct) -> Struct:
    """Heartbeat of a range of transactions; returns those that are aborted or do not exist."""
    gone, missing = set(), set()
    for txn_id in range(args.txns.min, args.txns.max + 1):
        found = rows.state(call, txn_id)
        if found is None or found[0] == rows.COMMITTED:
            missing.add(txn_id)
        elif found[0] == rows.ABORTED:
            gone.add(txn_id)
        else:
            rows.heartbeat(call, txn_id, now_ms())
    return new("HeartbeatTxnRangeResponse", aborted=gone, nosuch=missing)


def allocate_table_write_ids(call: Call, args: Struct) -> Struct:
    """Allocate a write id of a table for each of some open transactions; no event if all of them have one already."""
    request = args.rqst
    sources = request.srcTxnToWriteIdList or () if request.replPolicy else ()
    txn_ids = request.txnIds or ()
    if request.replPolicy:
        txn_ids = list(rows.targets(call, request.replPolicy, [each.txnId for each in sources]).values())
        if len(txn_ids) != len(sources):  # some were replayed before
            return new("AllocateTableWriteIdsResponse", txnToWriteIds=[])
    for txn_id in txn_ids:
        if must_be_open(call, txn_id) == rows.READ_ONLY:
            raise internal("a transaction that only reads has no write ids")
    database, table = names.fold(request.dbName), names.fold(request.tableName)
    if request.reallocate:
        rows.take_back(call, database, table, txn_ids)
    first = sources[0].writeId if sources and sources[0].writeId > 0 else None
    pairs, fresh = rows.allocate(call, database, table, txn_ids, first=first)
    if fresh:
        events.allocate_write_ids(call, database, table, pairs)
    listed = [new("TxnToWriteId", txnId=txn_id, writeId=write_id) for txn_id, write_id in pairs]
    return new("AllocateTableWriteIdsResponse", txnToWriteIds=listed)


def get_max_allocated_table_write_id(call: Call, args: Struct) -> Struct:
    """The last write id of a table."""
    request = args.rqst
    number = rows.last_write_id(call, names.fold(request.dbName), names.fold(request.tableName))
    return new("MaxAllocatedTableWriteIdResponse", maxWriteId=number)


def get_valid_write_ids(call: Call, args: Struct) -> Struct:
    """The valid write ids of some tables, now (read-only transactions do not count) or for a list in the request."""
    request = args.rqst
    if request.validTxnList:
        listed = ValidTxnList.parse(request.validTxnList.encode())
        high, gone = listed.high_watermark, set(listed.aborted)
        invalid = {*listed.open, *gone}
    else:
        high, found = rows.not_committed(call)
        found = [row for row in found if row.TXN_TYPE != rows.READ_ONLY]
        gone = {row.TXN_ID for row in found if row.TXN_STATE == rows.ABORTED}
        invalid = {row.TXN_ID for row in found}
    return new(
        "GetValidWriteIdsResponse",
        tblValidWriteIds=[_valid(call, name, high, invalid, gone) for name in request.fullTableNames],
    )


def _valid(call: Call, name: str, high_txn: int, invalid: set[int], gone: set[int]) -> Struct:
    database, _, table = name.lower().partition(".")
    high = rows.highest_write_id(call, database, table, high_txn)
    ids: list[int] = []
    flags: list[bool] = []
    smallest, seen_valid = None, False
    for write_id, txn_id in rows.write_ids(call, database, table, high):
        if txn_id <= high_txn and txn_id not in invalid:
            seen_valid = True
            continue
        ids.append(write_id)
        flags.append(txn_id in gone)
        if txn_id not in gone and smallest is None:
            smallest = write_id
    if ids and not seen_valid:  # nothing is valid: everything is hidden from the first id on
        high, ids, flags = ids[0], ids[:1], flags[:1]
    return new(
        "TableValidWriteIds",
        fullTableName=name,
        writeIdHighWaterMark=high,
        invalidWriteIds=ids,
        minOpenWriteId=smallest,
        abortedBits=_bits(flags),
    )


def add_dynamic_partitions(call: Call, args: Struct) -> None:
    """Store partitions that a transaction has written and its lock could not name."""
    request = args.rqst
    must_be_open(call, request.txnid)
    kind, place = operation(request.operationType), (request.dbname.lower(), request.tablename.lower())
    components.add_partitions(call, request.txnid, request.writeid, place, request.partitionnames, kind)


METHODS = {
    **reads(
        get_open_txns=get_open_txns,
        get_open_txns_req=get_open_txns_req,
        get_open_txns_info=get_open_txns_info,
        get_max_allocated_table_write_id=get_max_allocated_table_write_id,
        get_valid_write_ids=get_valid_write_ids,
    ),
    **writes(
        open_txns=open_txns,
        commit_txn=commit_txn,
        abort_txn=abort_txn,
        abort_txns=abort_txns,
        heartbeat_txn_range=heartbeat_txn_range,
        allocate_table_write_ids=allocate_table_write_ids,
        add_dynamic_partitions=add_dynamic_partitions,
    ),
}
