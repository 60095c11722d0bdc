"""Lists of valid write ids from the database.

Job: TableWrites of any number of tables in three statements, by the rules of GetValidWriteIdsForTableFunction (Hive
4.2.0) for a request that brings no ValidTxnList. Must not know: what is in the tables.

The rules. A transaction is seen if its id is up to the largest of TXNS and it is not open or aborted there; read-only
ones do not count. The high watermark is the largest write id of a transaction up to there, or, without any, the last
one that was given out. Rows of unseen transactions up to it are invalid. If none of the table's rows is of a seen
transaction, all but the first invalid id are left out and the high watermark is that id: over it nothing is valid.

A metastore also takes ids that are missing from TXNS before one that is younger than a second for open, as a row with
a smaller id may become visible later. Within one snapshot such a transaction has no write ids yet, so that changes no
list.

Owner: a snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from sqlalchemy import and_, case, func, literal_column, null, or_, select

from hms_cache_proxy.store.protocol import TableWrites, WritesKey
from hms_cache_proxy.store.schema import Schema
from hms_cache_proxy.store.sql_pieces import Column
from hms_cache_proxy.store.sql_postgres import Postgres, Row
from hms_cache_proxy.store.write_ids import ValidWriteIdList, full_name

_ABORTED: Final = b"a"
_READ_ONLY: Final[Column] = literal_column("2")  # TxnType


class WriteIdStatements:
    """The statements, compiled once per store."""

    def __init__(self, schema: Schema, database: Postgres) -> None:
        writes, following = schema["TXN_TO_WRITE_ID"].c, schema["NEXT_WRITE_ID"].c
        transactions = schema["TXNS"].c
        last = select(func.max(schema["TXNS"].alias().c.TXN_ID)).scalar_subquery()
        begun = writes.T2W_TXNID <= last
        unseen = and_(
            transactions.TXN_STATE.in_((literal_column("'o'"), literal_column("'a'"))),
            func.coalesce(transactions.TXN_TYPE, literal_column("0")) != _READ_ONLY,
        )
        table = (writes.T2W_DATABASE, writes.T2W_TABLE)
        rows = schema["TXN_TO_WRITE_ID"].outerjoin(schema["TXNS"], transactions.TXN_ID == writes.T2W_TXNID)
        highest = func.max(case((begun, writes.T2W_WRITEID), else_=null()))
        seen = func.max(case((or_(unseen, ~begun), literal_column("0")), else_=literal_column("1")))
        wanted = database.among_pairs(*table)
        self.highest = database.compile(select(*table, highest, seen).select_from(rows).where(wanted).group_by(*table))
        self.invalid = database.compile(
            select(*table, writes.T2W_WRITEID, writes.T2W_TXNID, case((begun, transactions.TXN_STATE), else_=null()))
            .select_from(rows)
            .where(and_(wanted, or_(unseen, ~begun)))
        )
        self.following = database.compile(
            select(following.NWI_DATABASE, following.NWI_TABLE, following.NWI_NEXT).where(
                database.among_pairs(following.NWI_DATABASE, following.NWI_TABLE)
            )
        )


class WriteIds:
    """Write ids of one snapshot."""

    def __init__(self, database: Postgres, statements: WriteIdStatements) -> None:
        self._database = database
        self._statements = statements

    def named(self, tables: Sequence[WritesKey]) -> dict[WritesKey, TableWrites]:
        """The writes to those of the tables of which a list can speak."""
        names = {key: name for key in dict.fromkeys(tables) if (name := full_name(*key)) is not None}
        if not names:
            return {}
        databases, wanted = ([part.decode() for part in parts] for parts in zip(*names, strict=True))
        found = {}
        highest = self._database.rows(self._statements.highest, firsts=databases, seconds=wanted)
        invalid = self._database.rows(self._statements.invalid, firsts=databases, seconds=wanted)
        following = self._database.rows(self._statements.following, firsts=databases, seconds=wanted)
        last = {(database, table): number - 1 for database, table, number in following}
        high = {(database, table): (number or 0, bool(seen)) for database, table, number, seen in highest}
        unseen: dict[WritesKey, list[Row]] = defaultdict(list)
        for database, table, *row in invalid:
            unseen[database, table].append(tuple(row))
        for key, name in names.items():
            written, seen = high.get(key, (0, False))
            found[key] = _writes(name, written if written > 0 else last.get(key, 0), seen, sorted(unseen[key]))
        return found


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
