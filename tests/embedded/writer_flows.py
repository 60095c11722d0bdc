"""Transactions that write, asked of Hive and of the embedded metastore: locks, what they say is written, conflicts.

Job: the flow `writers` of test_flows.py. Numbers of transactions and locks differ, so they are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import Asked, struct
from tests.embedded.scripts import descriptor, field, table

SHARED_READ, SHARED_WRITE, EXCLUSIVE = 1, 2, 3
INSERT, UPDATE, DELETE, UNSET = 2, 3, 4, 5
NOBODY = 1 << 40


class Writers:
    """The transactions and locks of a flow."""

    def __init__(self, asked: Asked, db: str) -> None:
        self.asked, self.db, self.begun = asked, db, list[int]()

    def begin(self, name: str = "t") -> int:
        """A transaction that has a write id."""
        opened = {"rqst": struct("OpenTxnRequest", num_txns=1, user="u", hostname="h")}
        txn: int = self.asked.value("open_txns", opened).txn_ids[0]
        self.begun.append(txn)
        allocated = struct("AllocateTableWriteIdsRequest", dbName=self.db, tableName=name, txnIds=[txn])
        self.asked.value("allocate_table_write_ids", {"rqst": allocated})
        return txn

    def _request(self, kind: int, txn: int | None, place: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        given = {"dbname": self.db, "tablename": "t", "operationType": UPDATE, "isTransactional": True, **place}
        wanted = struct("LockComponent", type=kind, level=1 if given["tablename"] is None else 2, **given)
        return {"rqst": struct("LockRequest", component=[wanted], txnid=txn, user="u", hostname="h", **fields)}

    def lock(self, kind: int, txn: int | None = None, place: dict[str, Any] | None = None, **fields: Any) -> Any:
        """A lock that is asked for."""
        return self.asked.value("lock", self._request(kind, txn, place or {}, fields))

    def told(self, method: str, arguments: dict[str, Any]) -> str:
        """A reply, without numbers of transactions and locks."""
        return re.sub(r"(txn(?:id)?: ?|lockid:|[\[,])\d+(?=\D)", r"\1N", repr(self.asked.ask(method, arguments)))

    def refused(self, kind: int, txn: int | None, **place: Any) -> str:
        return self.told("lock", self._request(kind, txn, place, {}))

    def shown(self, **fields: Any) -> list[tuple[Any, ...]]:
        locks = self.asked.value("show_locks", {"rqst": struct("ShowLocksRequest", **fields)}).locks
        names = "tablename partname state type lockIdInternal agentInfo heartbeatCount".split()
        return [tuple(getattr(each, name) for name in names) for each in locks]

    def unlock(self, lock: Any) -> str:
        return self.told("unlock", {"rqst": struct("UnlockRequest", lockid=lock.lockid)})

    def commit(self, txn: int, **fields: Any) -> str:
        return self.told("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=txn, **fields)})


def writers(asked: Asked, db: str) -> Iterator[Any]:
    """Two writers of a table and of a partition, readers of the database, and calls about ended transactions."""
    for name, keys in (("t", []), ("pt", [field("p")])):
        fields: dict[str, Any] = {"tableType": "MANAGED_TABLE", "parameters": FULL, "partitionKeys": keys}
        wanted = table(db, name, sd=descriptor(**FORMATS), **fields)
        asked.ask("create_table_req", {"request": struct("CreateTableRequest", table=wanted, **ABLE)})
    one = Writers(asked, db)
    first, second = one.begin(), one.begin()
    yield [one.lock(SHARED_WRITE, txn).state for txn in (first, second)]
    third = one.begin("pt")
    yield one.lock(EXCLUSIVE, third, {"tablename": "PT", "partitionname": "P=a%3Ab", "operationType": INSERT}).state
    yield one.lock(SHARED_READ, None, {"tablename": None}).state
    waiting = one.lock(EXCLUSIVE, one.begin())
    yield waiting.state, one.shown(dbname=db)
    yield [len(one.shown(**each)) for each in ({"dbname": db.upper()}, {"dbname": ""}, {"dbname": db, "txnid": 0})]
    for fields in ({"zeroWaitReadEnabled": True}, {"exclusiveCTAS": True}):
        request = one._request(SHARED_READ, one.begin(), {"tablename": "pt"}, fields)
        refused = asked.value("lock", request)
        yield refused.state, one.told("lock", request).replace(str(refused.lockid + 1), "N")
    yield one.unlock(waiting), one.unlock(one.lock(SHARED_READ, first))
    yield one.refused(SHARED_READ, first, operationType=None), one.refused(SHARED_READ, first, operationType=UNSET)
    yield one.refused(SHARED_READ, first, partitionname="p")
    yield one.refused(SHARED_READ, NOBODY)
    added = {"txnid": third, "writeid": 1, "dbname": db, "tablename": "pt", "partitionnames": ["p=1"]}
    for kind in (None, DELETE):
        yield one.told("add_dynamic_partitions", {"rqst": struct("AddDynamicPartitions", **added, operationType=kind)})
    yield one.commit(first, exclWriteEnabled=False)
    yield asked.value("get_latest_txnid_in_conflict", {"txnId": second}) == first
    yield one.commit(second, exclWriteEnabled=False), one.commit(second, exclWriteEnabled=False)
    yield one.commit(third), one.commit(third), one.commit(NOBODY)
    for txn in (second, third, NOBODY):
        yield one.told("abort_txn", {"rqst": struct("AbortTxnRequest", txnid=txn)})
        yield one.told("heartbeat", {"ids": struct("HeartbeatRequest", txnid=txn, lockid=NOBODY)})
    valid = struct("GetValidWriteIdsRequest", fullTableNames=[f"{db}.t", f"{db}.pt"])
    found = asked.value("get_valid_write_ids", {"rqst": valid}).tblValidWriteIds
    yield [(each.fullTableName.endswith(b".t"), each.invalidWriteIds, each.abortedBits) for each in found]
    asked.ask("abort_txns", {"rqst": struct("AbortTxnsRequest", txn_ids=one.begun)})
