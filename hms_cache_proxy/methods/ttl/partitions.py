"""Partitions as objects: for a list of names, the metastore is asked only for the partitions that the cache lacks.
Calls for one partition and lists fill the same entries.

Job: turn arguments into names, and replies into Partition structs by name, and back. Must not know: ages, claims.

Since Hive 3.1, a metastore shows a partition in more than one form (hms_cache_proxy/store/README.md): lists leave out
fields that calls for one partition show. Each form has an entry of its own (LIST, SINGLE). A Partition of 2.3, which
has no catalog name, is the same everywhere (PLAIN). Lists are in the order of names, as in a metastore.

A partition in a reply is recognized by its values, which are known from the requested names. Owner: one per request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from random import random
from typing import Any, NamedTuple

from hms_cache_proxy.cache.ttl import EntryKind, NewEntry, TtlEntry
from hms_cache_proxy.consistency import names
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.store.protocol import TableKey
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header
from hms_cache_proxy.wire.spans import list_spans

from .. import projections
from ..decision import Ask
from ..readers.base import around_structs, success_struct, success_structs, wrapped_structs
from ..readers.part_names import make_name, split_name
from ..reply_contents import returned_at, whole_header
from .looking import (
    CLAIMED,
    Conversation,
    DueEntry,
    KnownKeys,
    OneStepConversation,
    RequestView,
    Steps,
    Wanted,
    pieces,
    question,
    says_only,
)
from .members import Members, target_of
from .tables import partition_keys
from .whole import Whole

PLAIN, LIST, SINGLE = b"p", b"l", b"s"
_SHOWN = ("values", "catName", "sd.cols.name", "privileges.rolePrivileges")
_BY_NAMES = ("db_name", "tbl_name", "names", "engine")
ASKED_AT_ONCE = 20_000
"""If more partitions are missing, the client's own request is sent."""
JOINED_AT_ONCE = 250
"""In one slice of a reply."""


class Shown:
    """One partition of a reply: its bytes, its values, the way in which it is shown, the number of its columns, and
    whether it has privileges."""

    __slots__ = ("body", "columns", "privileged", "shape", "values")

    def __init__(self, body: bytes, decoded: Any, way: bytes) -> None:
        self.body = body
        self.values = tuple(decoded.values or ())
        self.shape = PLAIN if decoded.catName is None else way
        self.privileged = decoded.privileges is not None
        self.columns = len(decoded.sd.cols or ()) if decoded.sd is not None else 0


def partitions_in(method: str, reply: bytes, *, wrapped: bool) -> list[Shown] | None:
    """The partitions in a reply; None if it is not a list of partitions."""
    span = returned_at(reply, wrapped=wrapped)
    if span is None:
        return None
    try:
        result = _shown(method, reply, "success.partitions." if wrapped else "success.")
    except WireError:
        return None
    decoded = result.partitions if wrapped else result
    elements = list_spans(reply, span[0])
    return [Shown(reply[a:b], row, LIST) for (a, b), row in zip(elements, decoded, strict=True)]


def partition_in(method: str, reply: bytes) -> Shown | None:
    """The partition in a reply; None if it is not a partition."""
    span = returned_at(reply)
    return None if span is None else Shown(reply[slice(*span)], _shown(method, reply, "success."), SINGLE)


def _shown(method: str, reply: bytes, prefix: str) -> Any:
    """What a call returns, decoded as far as Shown needs it."""
    projection = projections.result_projection(method, tuple(prefix + path for path in _SHOWN))
    return spec.decode(projection, reply, whole_header(reply).body)[0].success


def joined(known: dict[bytes, bytes], *, wrapped: bool) -> Steps[list[bytes]]:
    """The result of these partitions in order of their names, in slices; made in steps."""
    before, after = around_structs(len(known), wrapped=wrapped)
    runs = []
    for some in pieces(list(known), JOINED_AT_ONCE):
        runs.append(sorted(some))
        yield None
    slices, part = [], [before]
    for name in merge(*runs):
        part.append(known[name])
        if len(part) == JOINED_AT_ONCE:
            slices.append(b"".join(part))
            part = []
            yield None
    return [*slices, b"".join((*part, after))]


def by_values(wanted: Sequence[bytes]) -> dict[tuple[bytes, ...], bytes]:
    """The names, by the values in them."""
    split = ((split_name(name), name) for name in wanted)
    return {tuple(parts.values()): name for parts, name in split if parts is not None}


class FoundEntries(NamedTuple):
    """Partitions by name, as lists show them; the names of those that have no entry, not even that they do not exist;
    the names of entries that are due for a refresh."""

    known: dict[bytes, bytes]
    missing: list[bytes]
    due: list[bytes]


class PartitionEntries:
    """The partitions of one table in the cache."""

    def __init__(self, look: RequestView, table: TableKey) -> None:
        self.look = look
        self.table = table

    def key(self, shape: bytes, name: bytes) -> bytes:
        """The key of an entry."""
        return self.look.key(EntryKind.PARTITION, shape, *self.table, name)

    def get(self, way: bytes, wanted: Sequence[bytes]) -> list[TtlEntry | None]:
        """Entries by name; those shown in the other way too, where that makes no difference."""
        plain = self.look.get(
            EntryKind.PARTITION, [self.key(PLAIN, name) for name in wanted], Members(self.table, wanted)
        )
        missing = [number for number, found in enumerate(plain) if found is None]
        if missing:
            names = [wanted[number] for number in missing]
            others = self.look.get(
                EntryKind.PARTITION, [self.key(way, name) for name in names], Members(self.table, names)
            )
            for number, found in zip(missing, others, strict=True):
                plain[number] = found
        return plain

    def find(self, wanted: list[bytes]) -> Steps[FoundEntries]:
        """Entries of partitions as lists show them, in steps."""
        found, due = FoundEntries({}, [], []), self.look.due
        for some in pieces(wanted):
            before, lacked = len(due), bool(found.missing)
            for name, entry in zip(some, self.get(LIST, some), strict=True):
                if entry is None:
                    found.missing.append(name)
                elif not entry.absent:
                    found.known[name] = entry.body
            if len(due) > before:
                found.due.extend(n for n in some if self.key(PLAIN, n) in due or self.key(LIST, n) in due)
            yield None if lacked else self.claims(found.missing)
        return found

    def claims(self, missing: list[bytes]) -> list[bytes]:
        """The keys to claim for these names."""
        return [self.key(LIST, name) for name in missing[:CLAIMED]]

    def items(
        self, shown: list[Shown], asked: dict[tuple[bytes, ...], bytes], *, counted: bool = False
    ) -> list[NewEntry]:
        """Entries for partitions whose names are known; empty ones for those with too many columns, so that nothing
        older is kept. The metrics count these, unless they are `counted` already."""
        limit = self.look.shared.section.partition_column_limit
        items = []
        for partition in shown:
            name = asked.get(partition.values)
            if name is None:
                continue
            too_wide = limit and partition.columns > limit
            if too_wide:
                self.look.shared.metrics.ttl_over_limit.inc(not counted)
            items.append(self.item(partition.shape, name, None if too_wide else partition.body))
        return items

    def item(self, shape: bytes, name: bytes, body: bytes | None, *, absent: bool = False) -> NewEntry:
        """An entry for one partition."""
        member = target_of(self.table, name)
        return self.look.item(EntryKind.PARTITION, self.key(shape, name), body, absent=absent, member=member)

    def is_to_be_compared(self) -> bool:
        """Decide at random whether to compare the entries with the metastore's answer."""
        percentage = self.look.shared.section.validation_percentage
        return bool(percentage) and random() * 100 < percentage

    def remember_keys(self, name: bytes) -> None:
        """Remember the table's partition keys, taken from a name that the current load has shown."""
        parts, load = split_name(name), self.look.load
        known = self.look.shared.keys_of_tables
        if parts is not None and load is not None:
            if len(known) > 10_000:
                known.clear()
            known[self.table] = KnownKeys(tuple(parts), load.seq, load.loaded_ns)

    def keys(self) -> tuple[bytes, ...] | None:
        """The table's partition keys, if the load that showed them is as young as an entry has to be."""
        known = self.look.shared.keys_of_tables.get(self.table)
        if known is not None and self.look.is_young(EntryKind.PARTITION, known.seq, known.loaded_ns):
            return known.names
        return partition_keys(self.look, self.table)


class PartitionsByNames(Conversation):
    """get_partitions_by_names, and its _req twin if it sets nothing but names."""

    def __init__(
        self,
        look: RequestView,
        header: Header,
        table: TableKey,
        args: Any,
        wanted: list[bytes],
        due: list[bytes] | None = None,
    ) -> None:
        """`due`: those of the names whose entries were found to be due for a refresh."""
        self.look = look
        self.kind = EntryKind.PARTITION
        self._header = header
        self._method = header.name.decode()
        self._wrapped = header.name.endswith(b"_req")
        self.args = args
        self.table = table
        self._entries = PartitionEntries(look, table)
        self.key = self._entries.key
        self._names = list(dict.fromkeys(wanted))
        self._known: dict[bytes, bytes] = {}
        self._missing: list[bytes] = []
        self._due = due or []
        self._compared: dict[bytes, bytes] = {}

    def looked_up(self) -> Steps[Wanted | None]:
        """The result, or the keys of what is missing. Two spellings of one name are not answered from objects: at most
        one of them is the name of a partition."""
        self._known, self._missing, self._due = yield from self._entries.find(self._names)
        values: set[tuple[bytes, ...]] = set()
        for some in pieces(self._names):
            values.update(by_values(some))
            yield None
        if len(values) != len(self._names):
            return None
        if not self._missing and self._names and self._entries.is_to_be_compared():
            self._compared, self._known, self._missing = self._known, {}, self._names
        if self._missing:
            return None, self._entries.claims(self._missing)
        return (yield from joined(self._known, wrapped=self._wrapped)), []

    def ask(self) -> Ask | None:
        """A question for the missing partitions; the client's own request if all are missing, or too many."""
        if not self._known or len(self._missing) > ASKED_AT_ONCE:
            return None
        return self.question(self._missing)

    def question(self, wanted: list[bytes]) -> Ask:
        """The same request for other names."""
        holder = self.args.req if self._wrapped else self.args
        holder.names = self._missing = wanted
        return question(self._method, self._header, self.args)

    @property
    def place(self) -> tuple[bytes, ...]:
        """The table and the method."""
        return (b"partitions", *self.table, self._header.name)

    def batch(self) -> PartitionsByNames:
        """Everything that is due here."""
        return self

    def due(self, header: Header, message: bytes) -> Iterator[DueEntry]:
        """Nothing by itself."""
        return iter(())

    def only(self, wanted: list[bytes]) -> PartitionsByNames:
        """A load of these."""
        return PartitionsByNames(self.look.again(), self._header, self.table, self.args, wanted)

    def keys(self) -> dict[bytes, bytes]:
        """The names by their keys."""
        return {self.key(LIST, name): name for name in self._names}

    def find(self) -> Iterator[object]:
        """Look up the entries, and which of them are due, in steps."""
        self._due = (yield from self._entries.find(self._names)).due

    def due_names(self) -> list[bytes]:
        """The names whose entries are due for a refresh."""
        return self._due

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """Take the missing partitions and return the whole result."""
        shown = None if reply is None else partitions_in(self._method, reply, wrapped=self._wrapped)
        if shown is None:
            self.look.release()
            return None
        if not self._publish(shown):
            return None
        return self._result()

    def learn(self, reply: bytes) -> None:
        """Take the reply to the client's own request."""
        shown = partitions_in(self._method, reply, wrapped=self._wrapped)
        if shown is None:
            keys = [self.key(way, name) for name in self._missing for way in (PLAIN, LIST)]
            self.look.refused(self.kind, self._method, reply, keys)
        else:
            self._publish(shown)

    def _publish(self, shown: list[Shown]) -> bool:
        """Keep these partitions; False if the name of one of them is unknown."""
        asked = by_values(self._missing)
        items = self._entries.items(shown, asked)
        there = {asked.get(partition.values): partition.body for partition in shown}
        self._compare(there)
        if None not in there:
            body = b"" if self.look.policy(EntryKind.PARTITION).cache_missing else None
            absent = [name for name in self._missing if name not in there]
            items += [self._entries.item(way, name, body, absent=True) for name in absent for way in (PLAIN, LIST)]
            items += [self._entries.item(SINGLE, name, None) for name in absent]
        if there and None not in there:
            self._entries.remember_keys(next(name for name in there if name is not None))
        self.look.publish(items)
        for name, body in there.items():
            if name is None:
                return False
            self._known[name] = body
        return True

    def _compare(self, there: dict[bytes | None, bytes]) -> None:
        for name, body in self._compared.items():
            self.look.shared.metrics.ttl_compared(same=there.get(name) == body)

    def _result(self) -> bytes:
        pieces = [self._known[name] for name in sorted(self._known)]
        return (wrapped_structs if self._wrapped else success_structs)(len(pieces), pieces)


def by_names(look: RequestView, header: Header, args: Any, arguments: bytes) -> PartitionsByNames | None:
    """The conversation of get_partitions_by_names; None for a request that sets more than names."""
    if header.name.endswith(b"_req"):
        request = args.req
        if request is None or not says_only(request, *_BY_NAMES):
            return None
    else:
        request = args
    table = table_of(request.db_name, request.tbl_name)
    if table is None or not request.names:
        return None
    return PartitionsByNames(look, header, table, args, request.names)


class OnePartition(OneStepConversation):
    """get_partition_by_name, and get_partition if the table's partition keys are known."""

    def __init__(self, look: RequestView, header: Header, table: TableKey, name: bytes, arguments: bytes) -> None:
        self.look = look
        self.kind = EntryKind.PARTITION
        self._method = header.name.decode()
        self._entries = PartitionEntries(look, table)
        self._name = name
        self._compared: bytes | None = None
        self._whole = Whole(look, self._method, arguments, EntryKind.PARTITION)

    def wanted(self) -> tuple[bytes | None, list[bytes]]:
        """The result, or the partition's key. That it does not exist is kept for each method, in its own words."""
        found = self._entries.get(SINGLE, [self._name])[0]
        if found is not None and not found.absent and self._entries.is_to_be_compared():
            self._compared, found = found.body, None
        if found is not None and not found.absent:
            return success_struct(found.body), []
        is_kept = self._compared is None and self.look.policy(EntryKind.PARTITION).cache_missing
        refusal = self._whole.wanted()[0] if is_kept else None
        return refusal, [] if refusal is not None else [self._entries.key(SINGLE, self._name)]

    def learn(self, reply: bytes) -> None:
        """Keep the partition."""
        shown = partition_in(self._method, reply)
        if self._compared is not None:
            self.look.shared.metrics.ttl_compared(same=shown is not None and shown.body == self._compared)
        if shown is None:
            self._learn_refusal(reply)
        elif self._is_its_name(shown.values):
            self._entries.remember_keys(self._name)
            self.look.publish(self._entries.items([shown], {shown.values: self._name}))
        else:
            self.look.release()

    def _learn_refusal(self, reply: bytes) -> None:
        refusal = self._whole.item(reply)
        if refusal is None:
            keys = [self._entries.key(way, self._name) for way in (PLAIN, SINGLE)]
            self.look.refused(self.kind, self._method, reply, keys)
        else:
            self.look.publish([refusal, *(self._entries.item(way, self._name, None) for way in (PLAIN, SINGLE))])

    def _is_its_name(self, values: tuple[bytes, ...]) -> bool:
        """Do lists use this name too? Calls for one partition also accept other spellings, another order of the keys,
        and on Hive 4 keys in upper case."""
        parts = split_name(self._name)
        if parts is None or tuple(parts.values()) != values or any(key != key.lower() for key in parts):
            return False
        ordered = len(set(values)) == len(values) or self._entries.keys() == tuple(parts)
        return ordered and make_name([(key, b"") for key in parts], values) == self._name


def one_partition(look: RequestView, header: Header, args: Any, arguments: bytes) -> OnePartition | None:
    """The conversation; None if the partition's name is unknown."""
    table = table_of(args.db_name, args.tbl_name)
    if table is None:
        return None
    if header.name == b"get_partition_by_name":
        name = args.part_name
    else:
        keys = PartitionEntries(look, table).keys()
        if keys is None or args.part_vals is None or len(keys) != len(args.part_vals) or not all(args.part_vals):
            return None
        name = make_name([(key, b"") for key in keys], args.part_vals)
    return None if name is None or split_name(name) is None else OnePartition(look, header, table, name, arguments)


def table_of(database: bytes | None, table: bytes | None) -> TableKey | None:
    """Catalog, database and table as stored; None if the names cannot be read."""
    split = names.split_database(database)
    if split is None:
        return None
    found = split[0].lower(), names.read_name(split[1]), names.read_name(table)
    return None if found[1] is None or found[2] is None else (found[0], found[1], found[2])
