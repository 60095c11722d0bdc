"""ValidTxnWriteIdList: the lists of all tables that one transaction reads, as a value and as Hive's text.

Job: parse and print `txn$list$list...`, what HiveServer2 keeps under `hive.txn.tables.valid.writeids`. No request of a
metastore carries it. Must not know: anything but write_ids.

Invariant: at most one list for each table, by its exact name; of two in a text the later one counts, as in Hive 4.2.0.

Owner: any process; no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.txn_list import MAX_ID, malformed
from hms_cache_proxy.store.write_ids import ValidWriteIdList

_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class ValidTxnWriteIdList:
    """`transaction`: None for the empty text, which has no lists either."""

    transaction: int | None
    lists: tuple[ValidWriteIdList, ...] = ()

    @classmethod
    def parse(cls, text: bytes) -> ValidTxnWriteIdList:
        """Read a text. Raises WriteIdsError."""
        if not text:
            return cls(None)
        number, *texts = text.rstrip(b"$").split(b"$")
        if not number.isdigit() or len(number) > _DIGITS or int(number) > MAX_ID or not all(texts):
            raise malformed(text, "it begins with no transaction, or has an empty list")
        return cls(int(number), tuple({one.table: one for one in map(ValidWriteIdList.parse, texts)}.values()))

    def text(self) -> bytes:
        """The text that Hive prints, but for the order of the lists, which is any there. Raises WriteIdsError."""
        if self.transaction is None:
            raise WriteIdsError("lists of write ids without a transaction have no text")
        return b"$".join((b"%d" % self.transaction, *(one.text() for one in self.lists)))

    def of(self, table: bytes) -> ValidWriteIdList | None:
        """The list of a table, by its exact name."""
        return next((one for one in self.lists if one.table == table), None)
