"""Makes lists of valid write ids from a metastore's answers.

Job: make TableWrites of any number of tables, all with one ValidTxnList, which is taken before the snapshot reads any
object. So a list is never newer than the objects of its snapshot. Must not know: the cache, events.

No call returns the transaction of an open write id. But a request may have any ValidTxnList: if one open transaction is
left out of it, the write ids that become valid belong to that transaction. With more than OWNERS_ASKED open
transactions, the transaction of a write id stays UNKNOWN_ID.

Owner: a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from hms_cache_proxy.errors import StoreError, WriteIdsError
from hms_cache_proxy.store.protocol import UNKNOWN_ID, TableWrites, WritesKey
from hms_cache_proxy.store.thrift.service import Metastore
from hms_cache_proxy.store.txn_list import NONE_OPEN, ValidTxnList
from hms_cache_proxy.store.write_ids import ValidWriteIdList, full_name
from hms_cache_proxy.wire import facts, spec

TABLES_AT_ONCE: Final = 500
"""Tables in one call. A metastore executes two or three statements for each."""
OWNERS_ASKED: Final = 64
"""The most open transactions that are asked for one by one."""

_OPEN_REQUEST = spec.struct("GetOpenTxnsRequest")
_REQUEST = spec.struct("GetValidWriteIdsRequest")
_UNSEEN_TYPES: Final = (facts.enum("TxnType")["READ_ONLY"],)


class ThriftWriteIds:
    """Write ids of one snapshot."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._plain = metastore.line == "3.1"
        """Hive 3.1 has no types of transactions, and does not read ranges."""
        self._transactions: ValidTxnList | None = None

    def begin(self) -> None:
        """Takes the ValidTxnList, if that is not done. Must be called before an object is read."""
        if self._transactions is None and self._metastore.has_write_ids:
            self._transactions = _transactions(self._open_transactions())

    def _open_transactions(self) -> Any:
        if self._plain:
            return self._metastore.call("get_open_txns")
        request = _OPEN_REQUEST(excludeTxnTypes=list(_UNSEEN_TYPES))
        return self._metastore.call("get_open_txns_req", getOpenTxnsRequest=request)

    def named(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables, except names that no list can have."""
        self.begin()
        transactions = self._transactions
        names = {name: key for key in dict.fromkeys(tables) if (name := full_name(*key)) is not None}
        if transactions is None or not names:
            return {}
        lists = dict(self._lists([*names], transactions))
        owners = self._owners(self._open(lists, transactions), transactions)
        return {key: TableWrites(lists[name], owners.get(name, {})) for name, key in names.items()}

    def _lists(self, names: Sequence[bytes], transactions: ValidTxnList) -> Iterator[tuple[bytes, ValidWriteIdList]]:
        text = transactions.text(ranges=not self._plain)
        for start in range(0, len(names), TABLES_AT_ONCE):
            some = names[start : start + TABLES_AT_ONCE]
            request = _REQUEST(fullTableNames=some, validTxnList=text)
            answers = self._metastore.call("get_valid_write_ids", rqst=request).tblValidWriteIds or ()
            if [answer.fullTableName for answer in answers] != some:
                raise StoreError(f"{self._metastore.uri}: get_valid_write_ids answered for other tables")
            for name, answer in zip(some, answers, strict=True):
                try:
                    yield name, _valid(name, answer)
                except WriteIdsError as error:
                    raise StoreError(f"{self._metastore.uri}: get_valid_write_ids: {error}") from error

    def _open(self, lists: dict[bytes, ValidWriteIdList], transactions: ValidTxnList) -> dict[bytes, list[int]]:
        """The open write ids of the tables that have any.

        A list whose only invalid id is its high watermark may hide further ones. Asked again as if all open
        transactions were committed, the metastore returns the last of these ids, and which of them are aborted. Ids
        whose rows were cleaned count as open.
        """
        found = {name: list(one.open) for name, one in lists.items()}
        hiding = [name for name, one in lists.items() if one.invalid == (one.high_watermark,)]
        if hiding:
            for name, ended in self._lists(hiding, replace(transactions, open=(), min_open=NONE_OPEN)):
                possible = range(lists[name].high_watermark, ended.high_watermark + 1)
                found[name] = [write_id for write_id in possible if ended.is_valid(write_id)]
        return {name: ids for name, ids in found.items() if ids}

    def _owners(self, opened: dict[bytes, list[int]], transactions: ValidTxnList) -> dict[bytes, dict[int, int]]:
        """The transaction of each open write id, by table."""
        owners = {name: dict.fromkeys(ids, UNKNOWN_ID) for name, ids in opened.items()}
        asked = transactions.open if opened and len(transactions.open) <= OWNERS_ASKED else ()
        for transaction in asked:
            others = tuple(other for other in transactions.open if other != transaction)
            seen = replace(transactions, open=others, min_open=min(others, default=NONE_OPEN))
            for name, one in self._lists([*opened], seen):
                owners[name] |= {write_id: transaction for write_id in opened[name] if one.is_valid(write_id)}
        return owners


def _transactions(answer: Any) -> ValidTxnList:
    """`answer`: GetOpenTxnsResponse."""
    low = NONE_OPEN if answer.min_open_txn is None else answer.min_open_txn
    aborted = _marked(answer.open_txns or (), answer.abortedBits)
    gone = set(aborted)
    opened = tuple(transaction for transaction in answer.open_txns or () if transaction not in gone)
    return ValidTxnList(answer.txn_high_water_mark, low, opened, tuple(aborted))


def _valid(name: bytes, answer: Any) -> ValidWriteIdList:
    """`answer`: TableValidWriteIds."""
    invalid = answer.invalidWriteIds or ()
    aborted = _marked(invalid, answer.abortedBits)
    return ValidWriteIdList.of(name, answer.writeIdHighWaterMark, invalid, aborted, answer.minOpenWriteId)


def _marked(ids: Sequence[int], bits: bytes | None) -> list[int]:
    """The ids whose bit is set. The bytes of a BitSet begin with the lowest bits, and end with the last that is set."""
    present = bits or b""
    return [id_ for at, id_ in enumerate(ids) if at >> 3 < len(present) and present[at >> 3] >> (at & 7) & 1]
