"""The evidence in a request for transactional tables: a ValidWriteIdList and a table id.

Job: find both in a request of any method, and decide whether they prove that a table's entry is fresh: no transaction
on the table was committed between the two. Must not know: how lists are read, sessions, replies.

Rules, in this order (Hive's "Synchronized Metastore Cache"):
- Write ids have no catalog: reads of tables in other catalogs than `hive` are relayed.
- A request with a list and the table's id is answered if the lists are equivalent and no open write has changed the
  table: this is the proof. Another id means another table of the same name.
- A list without an id proves nothing, because a table that was dropped and created again can have the same list; no
  list proves nothing either.

For other tables the metastore ignores lists, so only the id counts. For every table there is no proof if the id is not
the cached table's, or if the request has an id or a list and the cache has no such table. Its client then knows a table
that was created, renamed or created again.

A request without a proof goes upstream, unless the cache is known to be as new as the request (`exact`: consistency =
strict), or the setting `transactional_reads` allows it. With `transactional_reads = "strict"` it is answered after a
look that began after it arrived (LookNeeded). A metastore shows every request the rows of the moment, whatever its list
and id are, including rows that an open transaction has written; the cache has these rows as of the look. Readers decide
what depends on the list (isStatsCompliant).
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


Unproved = Literal["passthrough", "strict", "eventual", "reject"]
"""What happens to a read of a transactional table without a proof: the setting `transactional_reads`."""


UNPROVED: Final = frozenset({Reason.TRANSACTIONAL, Reason.NO_WRITE_ID, Reason.TABLE_ID, Reason.WRITE_ID})


class Rejected(Exception):
    """`transactional_reads = "reject"` refuses a read without a list; the text is for the client."""

    def __init__(self, entry: TableEntry) -> None:
        name = b".".join((entry.catalog, entry.database, entry.name)).decode("utf-8", "replace")
        super().__init__(
            f"table {name} is transactional: hms-cache-proxy answers reads of it only with a ValidWriteIdList and the"
            " table's id (transactional_reads = reject)"
        )


class LookNeeded(Exception):
    """`transactional_reads = "strict"`: the cache may answer after a look that began after the read arrived."""


class Bearer:
    """Where the requests of a method carry their list and their table id, if they can carry a list."""

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
        """Can a request of this method carry a list?"""
        return bool(self._argument)

    def show(self, args: spec.Struct, proof: Proof) -> None:
        """Read the list and the id of the request into the proof."""
        proof.shown = True
        request = getattr(args, self._argument) if self._argument else None
        if request is not None:
            proof.text = getattr(request, LIST)
            proof.table_id = getattr(request, self._id) if self._id else None


class Proof:
    """The evidence of one request. `text` and `table_id` are set once `shown` is; `used`: an answer relied on them.

    `current`: the answer comes from a cache that was looked at after the read arrived, or from the metastore;
    `by_look`: it is good only because of that. `other_list`: the cached list of the table is not equivalent.
    """

    __slots__ = ("_exact", "_unproved", "by_look", "current", "other_list", "shown", "table_id", "text", "used")

    def __init__(self, unproved: Unproved, *, exact: bool) -> None:
        self.text: bytes | None = None
        self.table_id: int | None = None
        self._unproved = unproved
        self._exact = exact
        self.shown = self.used = self.current = self.by_look = self.other_list = False

    @property
    def relied_on(self) -> str:
        """What the answer relied on: the reason of a hit."""
        if self.by_look:
            return Reason.STRICT.value
        return Reason.WRITE_ID.value if self.used else ""

    @property
    def knows_a_table(self) -> bool:
        """Does the client know a table? If it sends an id or a list, it does."""
        return self.text is not None or self.table_id not in _NO_ID

    def names_another(self, entry: TableEntry | Absent) -> bool:
        """Does the client know a table that the cache does not have under this name? Another id means another table.
        Raises LookNeeded."""
        if isinstance(entry, Absent):
            another = self.knows_a_table
        else:
            another = self.table_id not in _NO_ID and entry.table_id != self.table_id
        return another and self._unless_looked(Reason.TABLE_ID) is not None

    def lacks(self, entry: TableEntry) -> Reason | None:
        """Why a transactional table's entry must not be used; None if it may be. Raises Rejected, LookNeeded."""
        if entry.catalog != DEFAULT_CATALOG:
            return Reason.TRANSACTIONAL
        if self.text is None:
            return self._without_list(entry)
        if self.table_id != entry.table_id:
            return self._unless_looked(Reason.TABLE_ID)
        if entry.write_ids is None or not equivalent(self.text, entry.write_ids):
            self.other_list = True
            return self._unless_looked(Reason.WRITE_ID)
        self.used = True
        return None

    def _without_list(self, entry: TableEntry) -> Reason | None:
        if self._exact:
            return None
        if self._unproved == "reject":
            raise Rejected(entry)
        return None if self._unproved == "eventual" else self._unless_looked(Reason.NO_WRITE_ID)

    def _unless_looked(self, otherwise: Reason) -> Reason | None:
        """None if the cache is as new as the request, though it has no proof."""
        if self._exact:
            return None
        if self._unproved != "strict":
            return otherwise
        self.by_look = True
        if not self.current:
            raise LookNeeded
        return None
