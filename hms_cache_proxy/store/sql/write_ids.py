"""Makes lists of valid write ids from the database.

Job: make TableWrites of any number of tables with two statements, by the rules of GetValidWriteIdsForTableFunction
(Hive 4.2.0) for a request without a ValidTxnList, or of TxnHandler (Hive 3.1.3). Must not know: what is in the tables.

The rules. A transaction is seen if its id is at most the largest in TXNS, and it is not open or aborted there;
read-only transactions count as seen. The high watermark is the largest write id of a transaction up to that id; without
any, it is the last write id that was allocated. Write ids of unseen transactions up to the high watermark are invalid.
If no row of the table belongs to a seen transaction, only the first invalid id is listed, and it becomes the high
watermark: nothing above it is valid.

A metastore also treats ids as open that are missing from TXNS before an id that is younger than a second, because a row
with a smaller id may become visible later. In one snapshot such a transaction has no write ids yet, so this changes no
list.

In Hive 3.1 the largest transaction is the one before NEXT_TXN_ID, committed transactions are not in TXNS, read-only
transactions are like others, and no invalid id is left out.

Owner: a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, and_, exists, func, literal_column, select, union_all

from hms_cache_proxy.store.protocol import TableWrites, WritesKey
from hms_cache_proxy.store.sql.dialect import Column, Dialect, Row
from hms_cache_proxy.store.sql.schema import Schema
from hms_cache_proxy.store.write_ids import ValidWriteIdList, full_name

_ABORTED: Final = b"a"
_READ_ONLY: Final[Column] = literal_column("2")  # TxnType


class WriteIdStatements:
    """The statements, compiled once per store.

    A table can have many thousands of rows of ended transactions, which stay while an older one is open or aborted. So
    the statements look up only its largest write id and one seen row, and search for unseen rows from TXNS. `hides`: if
    a table has no seen write, invalid ids after the first are left out.
    """

    def __init__(self, schema: Schema, database: Dialect) -> None:
        writes, following = schema["TXN_TO_WRITE_ID"].c, schema["NEXT_WRITE_ID"].c
        wanted = database.pairs(writes.T2W_DATABASE, writes.T2W_TABLE)
        transactions = schema["TXNS"].c
        unseen: ColumnElement[bool] = transactions.TXN_STATE.in_((literal_column("'o'"), literal_column("'a'")))
        self.hides = "NEXT_TXN_ID" not in schema.tables
        if self.hides:
            last = select(func.max(schema["TXNS"].alias().c.TXN_ID)).scalar_subquery()
            unseen = and_(unseen, func.coalesce(transactions.TXN_TYPE, literal_column("0")) != _READ_ONLY)
        else:
            next_id = schema["NEXT_TXN_ID"].c.NTXN_NEXT
            last = select(func.max(next_id) - literal_column("1")).scalar_subquery()
        its = and_(writes.T2W_DATABASE == wanted.c.first, writes.T2W_TABLE == wanted.c.second)
        begun = and_(its, writes.T2W_TXNID <= last)
        numbered = and_(following.NWI_DATABASE == wanted.c.first, following.NWI_TABLE == wanted.c.second)
        of_unseen = exists().where(and_(transactions.TXN_ID == writes.T2W_TXNID, unseen))
        self.high = database.compile(
            select(
                wanted.c.first,
                wanted.c.second,
                select(func.max(writes.T2W_WRITEID)).where(begun).scalar_subquery(),
                select(func.max(following.NWI_NEXT)).where(numbered).scalar_subquery(),
                exists().where(and_(begun, ~of_unseen)),
            )
        )
        row = (wanted.c.first, wanted.c.second, writes.T2W_WRITEID, writes.T2W_TXNID)
        rows = wanted.join(schema["TXN_TO_WRITE_ID"], its)
        ended = rows.join(schema["TXNS"], transactions.TXN_ID == writes.T2W_TXNID)
        self.invalid = database.compile(
            union_all(
                select(*row, transactions.TXN_STATE).select_from(ended).where(unseen),
                select(*row, literal_column("'o'")).select_from(rows).where(writes.T2W_TXNID > last),
            )
        )


class SqlWriteIds:
    """Write ids of one snapshot."""

    def __init__(self, database: Dialect, statements: WriteIdStatements) -> None:
        self._database = database
        self._statements = statements

    def named(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to these tables, except names that no list can have."""
        names = {key: name for key in dict.fromkeys(tables) if (name := full_name(*key)) is not None}
        if not names:
            return {}
        databases, wanted = ([part.decode() for part in parts] for parts in zip(*names, strict=True))
        unseen: dict[WritesKey, list[Row]] = {key: [] for key in names}
        pairs = self._database.pairs_parameters(databases, wanted)
        for database, table, *row in self._database.rows(self._statements.invalid, **pairs):
            unseen[database, table].append(tuple(row))
        return {
            (database, table): _writes(
                names[database, table],
                written or (following or 1) - 1,
                seen or not self._statements.hides,
                sorted(unseen[database, table]),
            )
            for database, table, written, following, seen in self._database.rows(self._statements.high, **pairs)
        }


def _writes(name: bytes, high: int, seen: bool, rows: Sequence[Row]) -> TableWrites:
    """`rows`: (write id, transaction, state) of unseen transactions, ascending."""
    opened = {write_id: transaction for write_id, transaction, state in rows if state != _ABORTED}
    invalid = [write_id for write_id, _, _ in rows if write_id <= high]
    low = next((write_id for write_id in invalid if write_id in opened), None)
    if invalid and not seen:
        del invalid[1:]
        high = invalid[0]
    aborted = [write_id for write_id in invalid if write_id not in opened]
    return TableWrites(ValidWriteIdList.of(name, high, invalid, aborted, low), opened)
