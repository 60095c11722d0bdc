"""What calls leave in the notification log, in a form in which two metastores can be compared.

Job: `Logged` is a metastore that is asked, which notes its transactions; `events()` gives the rows that a test left:
those that name its databases and catalogs, and those of its transactions, which name none. Objects within messages are
decoded, times are TIME, ids of transactions, tables and compactions are numbered as they come. Must not know: what an
event means.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable
from typing import Any

from tests.embedded.differential import Asked, struct

TABLE_ID = "25"  # of a table within a message
_TRANSACTION_KEYS = ("txnid", "fromTxnId", "toTxnId", "txnIdList")


class Logged(Asked):
    """A metastore that is asked. Transactions are to be opened with `value`."""

    def __init__(self, address: tuple[str, int], database: str, places: dict[str, bytes]) -> None:
        super().__init__(address, database, places)
        self._transactions: dict[int, str] = {}
        self.outcomes: list[tuple[str, list[str]]] = []
        self._after = self.last()

    def last(self) -> int:
        """The last event id."""
        return int(self.value("get_current_notificationEventId", {}).eventId)

    def ask(self, method: str, arguments: dict[str, Any]) -> Any:
        """The reply in a form that can be compared; its kind is noted in `outcomes`."""
        reply = super().ask(method, arguments)
        self.outcomes.append((method, sorted(reply[1]) if isinstance(reply, tuple) else [repr(reply)]))
        return reply

    def value(self, method: str, arguments: dict[str, Any]) -> Any:
        """What a call gives, as it is."""
        given = super().value(method, arguments)
        if method == "open_txns":
            self._note("transaction", given.txn_ids)
            self._note("source", arguments["rqst"].replSrcTxnIds or ())
        return given

    def note_those_of(self, user: str) -> None:
        """Transactions that the metastore has opened itself."""
        listed = self.value("get_open_txns_info", {}).open_txns
        self._note("transaction", sorted(each.id for each in listed if each.user == user.encode()))

    def _note(self, kind: str, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._transactions.setdefault(number, f"{kind} {len(self._transactions)}")

    def events(self) -> list[Any]:
        """(columns of the row, message) of what was logged for this test, in order."""
        request = struct("NotificationEventRequest", lastEvent=self._after, maxEvents=-1)
        found = []
        for row in self.value("get_next_notification", {"rqst": request}).events:
            message = _message(row)
            if self._mine(row, message):
                columns = ("eventType", "catName", "dbName", "tableName", "messageFormat")
                found.append(({name: getattr(row, name) for name in columns}, message))
        return [self._common(numbered(_timeless(pair), self._transactions)) for pair in found]

    def _mine(self, row: Any, message: dict[str, Any]) -> bool:
        if row.dbName is None:
            return message.get("txnid", message.get("fromTxnId")) in self._transactions
        return any(name is not None and name.startswith(self._database) for name in (row.catName, row.dbName))


def _message(row: Any) -> Any:
    text = row.message
    assert row.messageFormat == b"gzip(json-2.0)"
    return json.loads(gzip.decompress(base64.b64decode(text)))


def _timeless(value: Any) -> Any:
    """Texts as bytes, objects in texts as objects, numbers that are times as TIME; a map whose keys are lists is no
    JSON, and no test has one."""
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_timeless(item) for item in value)
    if isinstance(value, str):
        return _timeless(json.loads(value)) if value.startswith('{"') and _is_object(value) else value.encode()
    return "TIME" if isinstance(value, int) and 1_700_000_000 < value < 10_000_000_000 else value


def _is_object(text: str) -> bool:
    """A struct in TJSONProtocol: field numbers, each with {type: value}."""
    value = json.loads(text)
    return all(key.isdigit() and isinstance(item, dict) for key, item in value.items())


def numbered(value: Any, transactions: dict[int, str]) -> Any:
    """With transactions by their names here, and ids of tables and compactions by the order in which they come."""
    tables: dict[int, str] = {}
    compactions: dict[int, str] = {}

    def go(key: Any, item: Any) -> Any:
        if key in _TRANSACTION_KEYS:
            return [transactions[each] for each in item] if isinstance(item, list) else transactions[item]
        if key == "compactionId":
            return compactions.setdefault(item, f"compaction {len(compactions)}")
        if key == TABLE_ID:
            return {"i64": tables.setdefault(item["i64"], f"table {len(tables)}")}
        return walk(item)

    def walk(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: go(key, each) for key, each in item.items()}
        if isinstance(item, list | tuple):
            return type(item)(walk(each) for each in item)
        return item

    return walk(value)
