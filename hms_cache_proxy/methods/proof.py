"""What a request brings to be answered from a transactional table: a ValidWriteIdList and a table id.

Job: find both in a request of any method, and say of a table's entry whether they prove it fresh: "no transaction was
committed on it between the two". Must not know: how lists are read, sessions, replies.

Rules, in this order (Hive's "Synchronized Metastore Cache"):
- Write ids have no catalog: tables of another than `hive` are the metastore's.
- A request with a list and the table's id is answered if the lists are equivalent and no open write has changed the
  table: that proves it. Another id means another table of the same name.
- A list without an id proves nothing, as a table that was dropped and made again can have the same list; nor does no
  list. Such a request goes upstream, unless the cache is known to be as new as the request (`exact`: consistency =
  strict), or the settings say otherwise (`transactional_reads`).

Of other tables the metastore ignores lists, so reads of them take notice of the id only. Whatever the table: a request
that names another id than the cached table's, or that brings an id or a list where the cache has no table, knows of a
table that was created, renamed or made again, and goes upstream.
Owner: the worker's loop.
"""

from __future__ import annotations

from typing import Final, Literal

from hms_cache_proxy.cache.entries import Absent, TableEntry
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.consistency.names import DEFAULT_CATALOG
from hms_cache_proxy.consistency.write_ids import equivalent
from hms_cache_proxy.wire import facts, spec

LIST: Final = "validWriteIdList"
_IDS: Final = ("id", "tableId")
_NO_ID: Final = (None, -1, 0)


Unproved = Literal["passthrough", "eventual", "reject"]
"""What is done with a read of a transactional table that brings no list: the setting `transactional_reads`."""


UNPROVED: Final = frozenset({Reason.TRANSACTIONAL, Reason.NO_WRITE_ID, Reason.TABLE_ID, Reason.WRITE_ID})


class Rejected(Exception):
    """The settings refuse reads of transactional tables without a list; `message` is for the client."""

    def __init__(self, entry: TableEntry) -> None:
        name = b"%b.%b.%b" % (entry.catalog, entry.database, entry.name)
        self.message = (
            b"table %b is transactional: hms-cache-proxy answers reads of it only with a ValidWriteIdList and the"
            b" table's id (transactional_reads = reject)" % name
        )
        super().__init__(self.message.decode("utf-8", "replace"))


class Bearer:
    """Where a method's requests have their list and their table id, if they can have a list."""

    __slots__ = ("_argument", "_id")

    def __init__(self, method: str) -> None:
        self._argument = self._id = ""
        for row in facts.METHODS[method].args:
            fields = {field.name for field in facts.fields(row.type)} if row.type in facts.STRUCTS else set()
            if LIST in fields:
                self._argument = row.name
                self._id = next((name for name in _IDS if name in fields), "")

    @property
    def bears(self) -> bool:
        """Can a request of this method have a list at all?"""
        return bool(self._argument)

    def show(self, args: spec.Struct, proof: Proof) -> None:
        """Give the proof what the request has."""
        proof.shown = True
        request = getattr(args, self._argument) if self._argument else None
        if request is not None:
            proof.text = getattr(request, LIST)
            proof.table_id = getattr(request, self._id) if self._id else None


class Proof:
    """One request's. `text` and `table_id` are there once it is `shown`; `used`: an answer was given for their sake."""

    __slots__ = ("_exact", "_unproved", "shown", "table_id", "text", "used")

    def __init__(self, unproved: Unproved, *, exact: bool) -> None:
        self.text: bytes | None = None
        self.table_id: int | None = None
        self._unproved = unproved
        self._exact = exact
        self.shown = self.used = False

    def names_another(self, entry: TableEntry | Absent) -> bool:
        """Does the request know a table which the cache does not have under that name? Who brings an id or a list knows
        one; another id is another table."""
        if self._exact:
            return False
        if isinstance(entry, Absent):
            return self.text is not None or self.table_id not in _NO_ID
        return self.table_id not in _NO_ID and entry.table_id != self.table_id

    def lacks(self, entry: TableEntry) -> Reason | None:
        """Why a transactional table's entry must not be used; None if it may be. Raises Rejected."""
        if entry.catalog != DEFAULT_CATALOG:
            return Reason.TRANSACTIONAL
        if self.text is None:
            return None if self._exact else self._without_list(entry)
        if self.table_id in _NO_ID:
            return None if self._exact else Reason.TABLE_ID
        if self.table_id != entry.table_id:
            return Reason.TABLE_ID
        if entry.write_ids is None or not equivalent(self.text, entry.write_ids):
            return Reason.WRITE_ID
        self.used = True
        return None

    def _without_list(self, entry: TableEntry) -> Reason | None:
        if self._unproved == "reject":
            raise Rejected(entry)
        return None if self._unproved == "eventual" else Reason.NO_WRITE_ID
