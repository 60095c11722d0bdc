"""Column statistics of partitions as objects: for get_partitions_statistics_req, the metastore is asked only for the
partitions that the cache lacks.

Job: turn arguments into names, and the reply's map into its values and back, by splicing. If a partition has no
statistics, this is kept too. Must not know: ages, claims. Owner: one per request.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Packer
from typing import Any

from hms_cache_proxy.cache.ttl import EntryKind, NewEntry
from hms_cache_proxy.consistency import names
from hms_cache_proxy.store.protocol import TableKey
from hms_cache_proxy.wire.message import Header
from hms_cache_proxy.wire.spans import end_of_value
from hms_cache_proxy.wire.spec import TType

from ..decision import Ask
from ..readers.base import success_struct
from ..reply_contents import returned_at
from .looking import CLAIMED, Conversation, DueEntry, RequestView, Steps, Wanted, pieces, question, says_only
from .members import Members, target_of

_PLAIN = ("dbName", "tblName", "colNames", "partNames", "catName", "engine")
_MAP = Packer("!BBi")
_LENGTH = Packer("!i")
_FIELD = b"\x0d\x00\x01"


class StatisticsOfPartitions(Conversation):
    """get_partitions_statistics_req without a ValidWriteIdList."""

    def __init__(self, look: RequestView, header: Header, table: TableKey, args: Any) -> None:
        self.look = look
        self.kind = EntryKind.PARTITION_STATISTICS
        self._header = header
        self._args = args
        request = args.request
        self._names: list[bytes] = list(dict.fromkeys(request.partNames))
        self._table = table
        engine = b"" if request.engine is None else b"=" + request.engine
        self._of = (*table, *request.colNames, engine)
        self._known: dict[bytes, bytes] = {}
        self._missing: list[bytes] = []
        self._due: list[bytes] = []

    def _key(self, name: bytes) -> bytes:
        return self.look.key(self.kind, *self._of, name)

    def looked_up(self) -> Steps[Wanted | None]:
        """The result, or the keys of what is missing."""
        yield from self.find()
        return (None, self._claims()) if self._missing else (self._result(), [])

    def _claims(self) -> list[bytes]:
        return [self._key(name) for name in self._missing[:CLAIMED]]

    def ask(self) -> Ask | None:
        """A question for the missing partitions."""
        return self.question(self._missing) if self._known else None

    def question(self, wanted: list[bytes]) -> Ask:
        """The same request for other names."""
        self._args.request.partNames = self._missing = wanted
        return question("get_partitions_statistics_req", self._header, self._args)

    @property
    def place(self) -> tuple[bytes, ...]:
        """The table, the columns and the engine."""
        return (b"statistics", *self._of)

    def batch(self) -> StatisticsOfPartitions:
        """Everything that is due here."""
        return self

    def due(self, header: Header, message: bytes) -> Iterator[DueEntry]:
        """Nothing by itself."""
        return iter(())

    def find(self) -> Iterator[list[bytes] | None]:
        """Look up the entries, and which of them are due, in steps."""
        self._known, self._missing, self._due = {}, [], []
        for some in pieces(self._names):
            keys, lacked = [self._key(name) for name in some], bool(self._missing)
            found = self.look.get(self.kind, keys, Members(self._table, some))
            for name, key, entry in zip(some, keys, found, strict=True):
                if entry is None:
                    self._missing.append(name)
                else:
                    self._known[name] = entry.body
                    if key in self.look.due:
                        self._due.append(name)
            yield None if lacked else self._claims()

    def due_names(self) -> list[bytes]:
        """The names whose entries are due for a refresh."""
        return self._due

    def only(self, wanted: list[bytes]) -> StatisticsOfPartitions:
        """A load of these."""
        self._args.request.partNames = wanted
        return StatisticsOfPartitions(self.look.again(), self._header, self._table, self._args)

    def keys(self) -> dict[bytes, bytes]:
        """The names by their keys."""
        return {self._key(name): name for name in self._names}

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """Take the missing partitions and return the whole result."""
        found = None if reply is None else _by_name(reply)
        if found is None:
            self.look.release()
            return None
        self._publish(found)
        return self._result()

    def learn(self, reply: bytes) -> None:
        """Take the reply to the client's own request."""
        found = _by_name(reply)
        if found is None:
            keys = [self._key(name) for name in self._missing]
            self.look.refused(self.kind, "get_partitions_statistics_req", reply, keys)
        else:
            self._publish(found)

    def _publish(self, found: dict[bytes, bytes]) -> None:
        items: list[NewEntry] = []
        for name in self._missing:
            self._known[name] = body = found.get(name, b"")
            member = target_of(self._table, name)
            items.append(self.look.item(self.kind, self._key(name), body, member=member))
        self.look.publish(items)

    def _result(self) -> bytes:
        there = [(name, body) for name, body in self._known.items() if body]
        parts = [_FIELD, _MAP.pack(TType.STRING, TType.LIST, len(there))]
        for name, body in there:
            parts += (_LENGTH.pack(len(name)), name, body)
        return success_struct(b"".join((*parts, b"\0")))


def of_partitions(look: RequestView, header: Header, args: Any, arguments: bytes) -> StatisticsOfPartitions | None:
    """The conversation; None for a request that sets more than names."""
    request = args.request
    if request is None or not says_only(request, *_PLAIN):
        return None
    catalog = names.DEFAULT_CATALOG if request.catName is None else request.catName
    database, table = names.read_name(request.dbName), names.read_name(request.tblName)
    if not request.partNames or not request.colNames or database is None or table is None:
        return None
    return StatisticsOfPartitions(look, header, (catalog.lower(), database, table), args)


def _by_name(reply: bytes) -> dict[bytes, bytes] | None:
    """The encoded values of the map in a reply, by partition; None if the reply is not exactly such a map."""
    span = returned_at(reply, wrapped=True)
    if span is None:
        return None
    at = span[0]
    _, _, count = _MAP.unpack_from(reply, at)
    at += _MAP.size
    found: dict[bytes, bytes] = {}
    for _ in range(count):
        end = at + _LENGTH.size + _LENGTH.unpack_from(reply, at)[0]
        value = end_of_value(reply, end, TType.LIST)
        found[reply[at + _LENGTH.size : end]] = reply[end:value]
        at = value
    return found
