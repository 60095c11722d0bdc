"""Lists of valid write ids as a metastore gives them.

Job: TableWrites of any number of tables, all by one ValidTxnList, which is taken before the snapshot reads any object:
so a list is never newer than what it comes with. Must not know: the cache, events.

Which transaction an open write id belongs to, no call tells. But a reader may bring any ValidTxnList: what becomes
valid when one open transaction is left out of it, is that transaction's. With more open transactions than OWNERS_ASKED
it stays UNKNOWN_ID.

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
from hms_cache_proxy.wire import spec

TABLES_AT_ONCE: Final = 500
"""Tables asked for in one call: a metastore makes two to three statements for each."""
OWNERS_ASKED: Final = 64
"""Open transactions that are asked for one by one."""

_OPEN_REQUEST = spec.struct("GetOpenTxnsRequest")
_REQUEST = spec.struct("GetValidWriteIdsRequest")
_UNSEEN_TYPES: Final = (spec.enum("TxnType")["READ_ONLY"],)


class ThriftWriteIds:
    """Write ids of one snapshot."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._plain = metastore.line == "3.1"
        """3.1 knows no types of transactions, and reads no ranges."""
        self._transactions: ValidTxnList | None = None

    def begin(self) -> None:
        """To be called before an object is read; one call to the metastore, once."""
        if self._transactions is None and self._metastore.has_write_ids:
            self._transactions = _transactions(self._open_transactions())

    def _open_transactions(self) -> Any:
        if self._plain:
            return self._metastore.call("get_open_txns")
        request = _OPEN_REQUEST(excludeTxnTypes=list(_UNSEEN_TYPES))
        return self._metastore.call("get_open_txns_req", getOpenTxnsRequest=request)

    def named(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to those of the tables of which a list can speak."""
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
        """Open write ids of the tables that have any.

        A list that is nothing but one invalid id, the high watermark, may hide more. With all open transactions taken
        for committed it shows up to which one, and the aborted ones among them; ids whose rows were cleaned count in.
        """
        found = {name: list(one.open) for name, one in lists.items()}
        hiding = [name for name, one in lists.items() if one.invalid == (one.high_watermark,)]
        if hiding:
            for name, ended in self._lists(hiding, replace(transactions, open=(), min_open=NONE_OPEN)):
                possible = range(lists[name].high_watermark, ended.high_watermark + 1)
                found[name] = [write_id for write_id in possible if ended.is_valid(write_id)]
        return {name: ids for name, ids in found.items() if ids}

    def _owners(self, opened: dict[bytes, list[int]], transactions: ValidTxnList) -> dict[bytes, dict[int, int]]:
        """Open write id to transaction, by table."""
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
    """Those ids whose bit is set; a BitSet's bytes begin with the lowest bits, and end with the last that is set."""
    present = bits or b""
    return [id_ for at, id_ in enumerate(ids) if at >> 3 < len(present) and present[at >> 3] >> (at & 7) & 1]
