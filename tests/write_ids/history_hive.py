"""What a Hive session says of transactions, with the client that pyiceberg generated: no code of the proxy's.

Job: open, snapshot, write ids, lists of valid writes as texts and as values, commit, abort. Must not know: registers,
checking, proxies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hive_metastore.ttypes import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    CommitTxnKeyValue,
    CommitTxnRequest,
    GetValidWriteIdsRequest,
    OpenTxnRequest,
)

from tests.testbed.client import MetastoreClient

NONE_OPEN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Valid:
    """The writes that a reader sees, and Hive's text of them."""

    text: str
    high: int
    invalid: frozenset[int] = frozenset()

    def shows(self, write_id: int) -> bool:
        return write_id <= self.high and write_id not in self.invalid


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reader brings: the name and the id under which it knows a table, and its list. `brings`: what of it is in
    its requests."""

    name: str
    table_id: int
    valid: Valid
    brings: Literal["list and id", "list", "nothing"] = "list and id"

    @property
    def proof(self) -> dict[str, object]:
        """The fields of a request."""
        if self.brings == "nothing":
            return {}
        known = {"id": self.table_id} if self.brings == "list and id" else {}
        return {"validWriteIdList": self.valid.text, **known}


def open_transaction(client: MetastoreClient) -> int:
    opened = client.open_txns(OpenTxnRequest(num_txns=1, user="hive", hostname="history"))
    return int(opened.txn_ids[0])


def valid_transactions(client: MetastoreClient, mine: int = 0) -> str:
    """The ValidTxnList of now, as a reader inside this transaction has it."""
    found = client.get_open_txns()
    aborted = _marked(found.open_txns, found.abortedBits)
    invalid = [number for number in found.open_txns if number != mine]
    opened = [number for number in invalid if number not in aborted]
    gone = [number for number in invalid if number in aborted]
    return f"{found.txn_high_water_mark}:{min(opened, default=NONE_OPEN)}:{_listed(opened)}:{_listed(gone)}"


def allocate(client: MetastoreClient, database: str, table: str, transaction: int) -> int:
    request = AllocateTableWriteIdsRequest(dbName=database, tableName=table, txnIds=[transaction])
    return int(client.allocate_table_write_ids(request).txnToWriteIds[0].writeId)


def valid_writes(client: MetastoreClient, database: str, table: str, transactions: str) -> Valid:
    """The writes to a table of the transactions that are valid in this ValidTxnList."""
    name = f"{database}.{table}"
    request = GetValidWriteIdsRequest(fullTableNames=[name], validTxnList=transactions)
    (found,) = client.get_valid_write_ids(request).tblValidWriteIds
    invalid = found.invalidWriteIds or []
    aborted = _marked(invalid, found.abortedBits)
    opened = [number for number in invalid if number not in aborted]
    low = found.minOpenWriteId if invalid and found.minOpenWriteId is not None else NONE_OPEN
    gone = [number for number in invalid if number in aborted]
    text = f"{name}:{found.writeIdHighWaterMark}:{low}:{_listed(opened)}:{_listed(gone)}"
    return Valid(text, found.writeIdHighWaterMark, frozenset(invalid))


def commit(client: MetastoreClient, transaction: int, key_value: tuple[int, str, str] | None = None) -> None:
    """`key_value`: (table id, parameter, value) to set in the commit."""
    pair = None if key_value is None else CommitTxnKeyValue(*key_value)
    client.commit_txn(CommitTxnRequest(txnid=transaction, keyValue=pair))


def abort(client: MetastoreClient, transaction: int) -> None:
    client.abort_txn(AbortTxnRequest(txnid=transaction))


def _marked(numbers: Iterable[int], bits: bytes) -> set[int]:
    return {number for at, number in enumerate(numbers) if at // 8 < len(bits) and bits[at // 8] >> at % 8 & 1}


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
