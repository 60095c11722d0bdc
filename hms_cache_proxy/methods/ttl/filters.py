"""get_partitions_by_filter from objects. A filter is split into exact values of keys, for which the names are cached,
and a remainder that is evaluated here; the partitions are those of get_partitions_by_names. So the first range asks for
the names, and further ranges do not.

Job: turn a filter into names, and names into partitions. Must not know: ages, claims. Filters are answered only if
every metastore evaluates them alike: they have string keys and no LIKE; they compare order only between texts of one
shape (digits in the same places, everything else equal), because databases order other texts by their collations; and
they have no text with a blank at its end, because MySQL ignores that blank. Other requests are relayed, and so are
those with a limit, and those for tables whose Table struct is not cached, and for full-ACID and insert-only tables
(hms_cache_proxy/store/README.md). Owner: one per request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.filters.tree import Node, comparisons, keys_of
from hms_cache_proxy.store.protocol import TableKey
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header

from .. import projections
from ..decision import Ask
from ..readers import filter_spans
from ..readers.base import success_structs
from ..readers.filter_declined import LikeFilter, tree_of
from ..readers.filter_match import Match, Unsure
from ..readers.part_names import DEFAULT_PARTITION, split_name
from ..reply_contents import returned_at, whole_header
from .looking import HOLD_BYTES, Conversation, DueEntry, RequestView, Steps, Wanted, in_one_step, pieces, question
from .partitions import ASKED_AT_ONCE, PartitionEntries, PartitionsByNames, by_values, joined, partitions_in, table_of
from .tables import table_key
from .whole import Whole

_DIGIT = re.compile(rb"[0-9]")
_BLANK_AT_END = re.compile(rb" (?:/|\Z)")
"""Of a value, alone or in a name."""
_KEYS = ("success.partitionKeys.name", "success.partitionKeys.type", "success.parameters")
_TRANSACTIONAL = b"transactional"


class PartitionFilter(NamedTuple):
    """A table, its partition keys, and the filter."""

    table: TableKey
    keys: list[bytes]
    node: Node


class ByFilter(Conversation):
    """One get_partitions_by_filter."""

    def __init__(self, look: RequestView, header: Header, args: Any, arguments: bytes, wanted: PartitionFilter) -> None:
        table, keys, node = wanted
        self.look = look
        self.kind = EntryKind.PARTITION_FILTER
        self._header = header
        self._args = args
        self._keys = [key.lower() for key in keys]
        self._ordered = list(_ordered(node))
        self._whole = Whole(look, header.name.decode(), arguments, EntryKind.PARTITION)
        self._entries = PartitionEntries(look, table)
        match = Match(node, tuple((key, b"string") for key in keys), b"", _unstored, before_4=True)
        self._selects = match.selects
        exact = [filter_spans.exact(node, key.lower()) for key in keys]
        self._parts = [one[0] if one is not None and len(one) == 1 else b"" for one in exact]
        kind = self.kind if any(self._parts) else EntryKind.PARTITION_NAMES
        self._names_key = look.key(kind, b"names of", *table, *self._parts)
        self._names_kind = kind
        self._names: list[bytes] | None = None
        self._selected: list[bytes] = []
        self._known: dict[bytes, bytes] = {}
        self._missing: list[bytes] = []
        self._due: list[bytes] = []
        self._given_up = False

    def looked_up(self) -> Steps[Wanted | None]:
        """The result, or the keys of what to ask for next: the names, then partitions."""
        found = self.look.get(self._names_kind, [self._names_key])[0]
        if found is None:
            return None, [self._names_key]
        self._names = [name for name in found.body.split(b"\0") if name]
        return (yield from self._from_names())

    def ask(self) -> Ask | None:
        """The names, or the partitions that are missing."""
        if self._given_up:
            return None
        if self._names is not None:
            return self._question_for_partitions()
        return self._question_for_names()

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        """Take the names, then the partitions."""
        if reply is None:
            self._give_up()
            return None
        if self._names is not None:
            return self._partitions_came(reply)
        names = _names_in(reply)
        if names is None:
            self._give_up()
            return None
        self._names = names
        self._publish_names(names)
        body, missing = in_one_step(self._from_names())
        if body is not None:
            return body if isinstance(body, bytes) else b"".join(body)
        self.look.claim(missing, alone=False)
        return None if self._given_up else self._question_for_partitions()

    def learn(self, reply: bytes) -> None:
        """The metastore answered the request itself: keep the whole reply."""
        self._whole.learn(reply)

    def due(self, header: Header, message: bytes) -> Iterator[DueEntry]:
        """The names, or the whole reply if the names are not used."""
        if not self._given_up:
            if self._names_key in self.look.due:
                yield self._names_key, self._question_for_names(), self._learn_names
            return
        for key in self.look.due:
            if key != self._names_key:
                yield key, Ask(header, message, HOLD_BYTES), self.learn

    def batch(self) -> PartitionsByNames | None:
        """The partitions."""
        return None if self._given_up else self._by_names(self._selected, self._due)

    def _by_names(self, wanted: list[bytes], due: list[bytes] | None = None) -> PartitionsByNames:
        """The conversation that gets the partitions of these names."""
        header = self._header._replace(name=b"get_partitions_by_names")
        arguments = spec.args("get_partitions_by_names")(db_name=self._args.db_name, tbl_name=self._args.tbl_name)
        return PartitionsByNames(self.look, header, self._entries.table, arguments, wanted, due)

    def _learn_names(self, reply: bytes) -> None:
        names = _names_in(reply)
        if names is None:
            self.look.refused(self._names_kind, whole_header(reply).name.decode(), reply, [self._names_key])
        else:
            self._publish_names(names)

    def _publish_names(self, names: list[bytes]) -> None:
        self.look.publish([self.look.item(self._names_kind, self._names_key, b"\0".join(names))])

    def _from_names(self) -> Steps[Wanted]:
        assert self._names is not None
        self._selected = selected = list[bytes]()
        try:
            for some in pieces(self._names):
                selected.extend(name for name in some if self._is_selected(name))
                yield None
        except Unsure:
            self._given_up = True
            return self._whole.wanted()
        self._known, _, self._due = yield from self._entries.find(selected)
        self._missing = [name for name in selected if name not in self._known]
        if len(self._missing) > ASKED_AT_ONCE:
            self._given_up = True
            return self._whole.wanted()
        if self._missing:
            return None, self._entries.claims(self._missing)
        return (yield from joined(self._known, wrapped=False)), []

    def _is_selected(self, name: bytes) -> bool:
        """Does the filter select it? Raises Unsure where databases may order its values differently."""
        values = split_name(name)
        if values is None or list(values) != self._keys or DEFAULT_PARTITION in name or _BLANK_AT_END.search(name):
            raise Unsure
        if any(_shape(values[key]) != shape for key, shape in self._ordered):
            raise Unsure
        return self._selects(name)

    def _question_for_names(self) -> Ask:
        method = "get_partition_names_ps" if any(self._parts) else "get_partition_names"
        arguments: Any = spec.args(method)(db_name=self._args.db_name, tbl_name=self._args.tbl_name, max_parts=-1)
        if any(self._parts):
            arguments.part_vals = self._parts
        return question(method, self._header, arguments)

    def _question_for_partitions(self) -> Ask:
        return self._by_names(self._missing).question(self._missing)

    def _partitions_came(self, reply: bytes) -> bytes | None:
        shown = partitions_in("get_partitions_by_names", reply, wrapped=False)
        if shown is None:
            self._give_up()
            return None
        asked = by_values(self._missing)
        self.look.publish(self._entries.items(shown, asked))
        there = {asked.get(partition.values): partition.body for partition in shown}
        if set(there) != set(self._missing):
            return None  # one was dropped meanwhile, or has another name: the metastore knows what there is now
        self._known.update((name, body) for name, body in there.items() if name is not None)
        return self._result()

    def _give_up(self) -> None:
        self._given_up = True
        self.look.release()

    def _result(self) -> bytes:
        pieces = [self._known[name] for name in sorted(self._known)]
        return success_structs(len(pieces), pieces)


def by_filter(look: RequestView, header: Header, args: Any, arguments: bytes) -> ByFilter | None:
    """The conversation; None for a filter that only the metastore can evaluate."""
    table = table_of(args.db_name, args.tbl_name)
    if table is None or not args.filter or (args.max_parts is not None and args.max_parts >= 0):
        return None
    if b"==" in args.filter or b"`" in args.filter:
        return None  # Hive 3.1 and 2.3 do not know them
    try:
        node = tree_of(args.filter)
    except LikeFilter:
        return None
    entry = look.peek(EntryKind.TABLE, table_key(look, table))
    if node is None or entry is None:
        return None
    keys = _string_keys(entry.body)
    if keys is None or not keys_of(node) <= {key.lower() for key in keys}:
        return None
    if any(_BLANK_AT_END.search(each.value.encoded) for each in comparisons(node)):
        return None
    try:
        return ByFilter(look, header, args, arguments, PartitionFilter(table, keys, node))
    except Unsure:
        return None


def _string_keys(table: bytes) -> list[bytes] | None:
    """The partition keys of a Table struct; None if one is not a string, or the table is transactional."""
    try:
        projection = projections.result_projection("get_table", _KEYS)
        decoded = spec.decode(projection, b"\x0c\x00\x00" + table + b"\0")[0].success
    except WireError:
        return None
    parameters = decoded.parameters or {}
    if parameters.get(_TRANSACTIONAL, b"").lower() == b"true":
        return None
    keys = decoded.partitionKeys or []
    return [key.name for key in keys] if all((key.type or b"").lower() == b"string" for key in keys) else None


def _ordered(node: Node) -> Iterator[tuple[bytes, bytes]]:
    """Keys in order comparisons, each with the shape of the text that it is compared with."""
    return ((each.folded, _shape(each.value.encoded)) for each in comparisons(node) if each.op not in ("=", "!="))


def _shape(text: bytes) -> bytes:
    """The text with all digits replaced by one. Texts of one shape have the same order in every collation."""
    return _DIGIT.sub(b"0", text)


def _unstored(name: bytes) -> list[bytes]:
    raise Unsure


def _names_in(reply: bytes) -> list[bytes] | None:
    """The names of a reply that is a list of them; None for a refusal."""
    if returned_at(reply) is None:
        return None
    header = whole_header(reply)
    try:
        return list(spec.decode(spec.result(header.name.decode()), reply, header.body)[0].success)
    except WireError:
        return None
