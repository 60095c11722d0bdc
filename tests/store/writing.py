"""Transactions and write ids, made and asked through a metastore: what lists of write ids are compared with.

Job: `Writing` opens and ends transactions on the tables of one database and says what get_valid_write_ids answers.
Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.store.content import CAPABILITIES, orc
from tests.store.oracle import Oracle, hms


@dataclass(frozen=True, slots=True)
class Answer:
    """TableValidWriteIds: high watermark, invalid ids, aborted ones among them, smallest open id."""

    high: int
    invalid: tuple[int, ...]
    aborted: frozenset[int]
    low: int | None


class Writing:
    """One database of full-ACID tables, and the transactions that this test opened."""

    def __init__(self, oracle: Oracle, database: str, *, hive4: bool = True) -> None:
        self.oracle = oracle
        self.hive4 = hive4
        self.database = database
        self.opened: list[int] = []
        oracle.create_database(hms.Database(name=database))

    def create(self, *names: str) -> None:
        """Make tables."""
        for name in names:
            table = self._table(name)
            if not self.hive4:
                self.oracle.create_table(table)
                continue
            request = hms.CreateTableRequest(
                table=table, processorCapabilities=CAPABILITIES, processorIdentifier="writing@tests"
            )
            self.oracle.create_table_req(request)

    def rename(self, old: str, new: str) -> None:
        """alter_table with the new name, and the old location: it is not filled in."""
        capable = hms.ClientCapabilities([hms.ClientCapability.INSERT_ONLY_TABLES])
        asked = hms.GetTableRequest(dbName=self.database, tblName=old, capabilities=capable)
        stored = self.oracle.get_table_req(asked)[1][1]
        table = self._table(new)
        table.sd.location = stored[7][1][2][1].decode()
        table.parameters = {key.decode(): value.decode() for key, value in stored[9][1].items()}
        self.oracle.alter_table(self.database, old, table)

    def _table(self, name: str) -> Any:
        return hms.Table(
            tableName=name,
            dbName=self.database,
            owner="someone",
            sd=orc(),
            partitionKeys=[],
            parameters={"transactional": "true"},
            tableType="MANAGED_TABLE",
        )

    def begin(self, count: int = 1, **fields: Any) -> list[int]:
        """Open transactions."""
        request = hms.OpenTxnRequest(num_txns=count, user="u", hostname="h", **fields)
        ids = [int(id_) for id_ in self.oracle.open_txns(request)[1][1]]
        self.opened += ids
        return ids

    def write(self, table: str, *transactions: int) -> list[int]:
        """Write ids of transactions for a table, in their order."""
        request = hms.AllocateTableWriteIdsRequest(dbName=self.database, tableName=table, txnIds=list(transactions))
        return [given[2][1] for given in self.oracle.allocate_table_write_ids(request)[1][1]]

    def commit(self, *transactions: int) -> None:
        """Commit."""
        for transaction in transactions:
            self.oracle.commit_txn(hms.CommitTxnRequest(txnid=transaction))
            self.opened.remove(transaction)

    def abort(self, *transactions: int) -> None:
        """Abort."""
        for transaction in transactions:
            self.oracle.abort_txn(hms.AbortTxnRequest(txnid=transaction))
            self.opened.remove(transaction)

    def written(self, *tables: str) -> None:
        """One committed write to each table."""
        for table in tables:
            (transaction,) = self.begin()
            self.write(table, transaction)
            self.commit(transaction)

    def key(self, table: str) -> tuple[bytes, bytes]:
        """(database, table)."""
        return self.database.encode(), table.encode()

    def answers(self, *tables: str) -> dict[tuple[bytes, bytes], Answer]:
        """What the metastore says of these tables."""
        request = hms.GetValidWriteIdsRequest(fullTableNames=[f"{self.database}.{table}" for table in tables])
        if not self.hive4:
            request.validTxnList = self._transactions()  # 3.1 wants one
        found = self.oracle.get_valid_write_ids(request)[1][1]
        return {self.key(table): _answer(fields) for table, fields in zip(tables, found, strict=True)}

    def _transactions(self) -> str:
        """The ValidTxnList that a client of 3.1 makes of get_open_txns."""
        fields = self.oracle.get_open_txns()
        unseen, bits = fields[2][1], int.from_bytes(fields[4][1], "little")
        opened = [id_ for at, id_ in enumerate(unseen) if not bits >> at & 1]
        aborted = [id_ for at, id_ in enumerate(unseen) if bits >> at & 1]
        low = min(opened, default=(1 << 63) - 1)
        return f"{fields[1][1]}:{low}:{','.join(map(str, opened))}:{','.join(map(str, aborted))}"


def _answer(fields: dict[int, tuple[int, Any]]) -> Answer:
    invalid = tuple(fields[3][1])
    bits = int.from_bytes(fields[5][1], "little")
    aborted = frozenset(id_ for at, id_ in enumerate(invalid) if bits >> at & 1)
    return Answer(fields[2][1], invalid, aborted, fields[4][1] if 4 in fields else None)
