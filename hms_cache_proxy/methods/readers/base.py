"""What all readers share: looking up names in a snapshot, refusals, and the bytes of result structs.

Job: turn raw names of a request into entries of the cache, or raise `Decline` with the reason why the metastore has to
be asked; build results by joining bytes. Must not know: sessions, fences, message headers.

A reader gives an answer only if a metastore of Hive 4, 3.1 or 2.3 was seen to give the same bytes. Its exceptions have
the metastore's text, with names as the client spelled them. Everything else is declined.
Owner: the worker's loop.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from struct import Struct as Packer
from typing import NamedTuple

from hms_cache_proxy.cache.entries import ABSENT, Absent, TableEntry
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.streams import encode_strings
from hms_cache_proxy.consistency import names
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.methods.expression_routes import ExpressionRoutes
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.store.protocol import HiveLine
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire import facts, spec

from .column_arrays import Memory
from .key_index import KeyIndexes

NAMED_AT_ONCE = 10_000
"""Names that are joined in one go (about 2 ms), and then kept; more are sent in slices."""

JOINED_BYTES = 4 << 20
"""A longer result is sent in slices, and not kept: joining it takes a millisecond for each megabyte."""
PIECES_AT_ONCE = 400
"""Pieces of a slice of such a result: those of a hundred partitions, or tables."""

_COUNT = Packer("!i")
STOP = b"\x00"
_SUCCESS_I32 = b"\x08\x00\x00"
_INEXACT = re.compile(rb"[^ -~]| (?:/|\Z)")
"""Text that MySQL does not compare bytewise: with characters beyond ASCII, control characters, blanks at an end."""
_SUCCESS_STRUCT = b"\x0c\x00\x00"
_SUCCESS_STRINGS = b"\x0f\x00\x00\x0b"
_SUCCESS_STRUCTS = b"\x0f\x00\x00\x0c"
_FIRST_STRUCT = b"\x0c\x00\x01"
_FIRST_STRINGS = b"\x0f\x00\x01\x0b"
_FIRST_STRUCTS = b"\x0f\x00\x01\x0c"

HIVESERVER2 = frozenset(
    b"EXTWRITE EXTREAD HIVEBUCKET2 HIVEFULLACIDREAD HIVEFULLACIDWRITE HIVECACHEINVALIDATE HIVEMANAGESTATS"
    b" HIVEMANAGEDINSERTWRITE HIVEMANAGEDINSERTREAD HIVESQL HIVEMQT HIVEONLYMQTWRITE".split()
)
"""The capabilities of a client that can do everything: the metastore shows it everything unchanged."""
_REQUIRED_CAPABILITIES = b"OBJCAPABILITIES"  # a parameter
_OF_CONNECTORS = frozenset((b"CONNECTORREAD", b"CONNECTORWRITE"))  # nothing here asks for them

_ABSENT_ALIKE = frozenset(("get_all_table_constraints", "get_table_req"))
"""Methods that say the same of a table that does not exist, whatever the list and the id of the request are."""

_NOT_LOADED = {"excluded": Reason.EXCLUDED, "full": Reason.FULL}


class Decline(Exception):
    """The metastore has to be asked; `reason` says why."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class DependsOnMore(Exception):
    """The answer also depends on these targets; the reader has to be asked again once the gate allows them."""

    def __init__(self, targets: tuple[bytes, ...]) -> None:
        super().__init__(f"{len(targets)} more targets")
        self.targets = targets


@dataclass(frozen=True, slots=True)
class Slices:
    """A result that is built while it is sent. Closing the iterator frees what it holds."""

    pieces: Iterator[bytes]


Body = bytes | Slices
"""A result struct with its stop byte."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A result that takes more than one turn of the loop to find. `work` yields between slices, returns the result, and
    raises what readers raise. It holds its state of the cache until it ends or is closed."""

    work: Generator[None, None, Body]


def started(work: Generator[None, None, Body]) -> Body | Unfinished:
    """The result if the first slice finds it, else the unfinished work."""
    try:
        next(work)
    except StopIteration as done:
        found: Body = done.value
        return found
    return Unfinished(work)


def around(before: bytes, slices: Iterable[bytes], after: bytes) -> Iterator[bytes]:
    """A result in slices, between two pieces of bytes."""
    yield before
    yield from slices
    yield after


def joined(before: bytes, pieces: list[bytes], after: bytes) -> Body:
    """A result of these pieces. The pieces of a long one, most of which partitions share, are joined while it is
    sent."""
    if sum(map(len, pieces)) <= JOINED_BYTES:
        return b"".join((before, *pieces, after))
    slices = (b"".join(pieces[at : at + PIECES_AT_ONCE]) for at in range(0, len(pieces), PIECES_AT_ONCE))
    return Slices(around(before, slices, after))


def gathered(before: bytes, slices: Iterator[bytes], after: bytes) -> Body:
    """A result of these slices: joined, unless it is long."""
    parts: list[bytes] = []
    size = 0
    for part in slices:
        parts.append(part)
        size += len(part)
        if size > JOINED_BYTES:
            return Slices(around(before, chain(parts, slices), after))
    return b"".join((before, *parts, after))


class DatabaseName(NamedTuple):
    """A database as the client named it (for messages) and as it is stored (for look-ups)."""

    raw_catalog: bytes
    raw: bytes
    catalog: bytes
    name: bytes


class Context(NamedTuple):
    """What a reader may look at. One is made per request."""

    snapshot: CacheSnapshot
    method: str
    by_name: bool
    """Answer lists for which Hive states no order in order of names. False: only the metastore knows their order."""
    proof: Proof
    """The evidence for transactional tables."""
    answers_absent: bool = True
    """May the cache answer that something does not exist?"""
    differs: int = 0
    """What the metastore's settings make differ from what is stored (AnswerDifferences)."""
    statistics: Memory | None = None
    """Columns of statistics that are held between requests."""
    indexes: KeyIndexes | None = None
    """Values of partition keys that are held between requests."""
    routes: ExpressionRoutes | None = None
    """The ways in which the metastore has been seen to evaluate expressions."""
    depends: tuple[bytes, ...] = ()
    """The targets that the gate has allowed."""

    def depend_on(self, targets: Iterable[bytes]) -> None:
        """The answer depends on these targets, which are known only from the cache. Raises DependsOnMore."""
        more = tuple(dict.fromkeys(target for target in targets if target not in self.depends))
        if more:
            raise DependsOnMore(more)

    def as_usual(self, what: AnswerDifferences) -> None:
        """Declines if the metastore's settings make this differ from what is stored."""
        if self.differs & what:
            raise Decline(Reason.SETTINGS)

    def capable(self, request: spec.Struct, database: DatabaseName) -> bool:
        """True if the client declares all capabilities, False if it declares none. Declines for any other declaration:
        the metastore then transforms the answer (Hive 4's MetastoreDefaultTransformer; only in catalog `hive`)."""
        words = request.processorCapabilities
        if words is None and request.processorIdentifier is None:
            return False
        everything = bool(words) and HIVESERVER2 <= set(words) <= HIVESERVER2 | _OF_CONNECTORS
        if not everything or database.catalog != names.DEFAULT_CATALOG:
            raise Decline(Reason.CAPABILITIES)
        self.as_usual(AnswerDifferences.SHAPES)
        self.only_hive4()
        return True

    def split(self, raw: bytes | None) -> DatabaseName:
        """The database named by an argument of the form `@catalog#database`."""
        parts = names.split_database(raw)
        if parts is None or (parts[1] is not raw and self.hive2) or names.ends_oddly(parts[1]):
            raise Decline(Reason.NAME)
        return self._database(*parts)

    @property
    def line(self) -> HiveLine:
        """The metastore's line of Hive releases."""
        return self.snapshot.identity.hive_line

    @property
    def before_4(self) -> bool:
        """Whether this is Hive 3.1 or 2.3."""
        return self.line in ("2.3", "3.1")

    @property
    def hive2(self) -> bool:
        """Whether this is Hive 2.3."""
        return self.line == "2.3"

    @property
    def partitions_by_exact_name(self) -> bool:
        """Does the metastore find statistics only by the exact partition name?"""
        return self.line == "4.2"

    @property
    def aggregates_fail(self) -> bool:
        """Do aggregates over partitions without statistics fail, unless they are extrapolated?"""
        if self.line not in ("4.0", "4.2"):
            raise Decline(Reason.RELEASE)
        return self.line != "4.0"

    def only_hive4(self) -> None:
        """Declines unless the metastore is Hive 4, because earlier ones answer differently."""
        if not self.line.startswith("4."):
            raise Decline(Reason.RELEASE)

    def not_hive2(self) -> None:
        """Declines for Hive 2.3, which answers differently."""
        if self.hive2:
            raise Decline(Reason.RELEASE)

    def plain(self, raw_catalog: bytes | None, raw: bytes | None) -> DatabaseName:
        """The database of a request struct, which has a separate field for the catalog."""
        if raw is not None and (raw.startswith(b"@") or names.ends_oddly(raw)):
            raise Decline(Reason.NAME)
        return self._database(names.DEFAULT_CATALOG if raw_catalog is None else raw_catalog, raw)

    def _database(self, raw_catalog: bytes, raw: bytes | None) -> DatabaseName:
        catalog, name = names.read_name(raw_catalog), names.read_name(raw)
        if not catalog or not name or raw is None:
            raise Decline(Reason.NAME)
        self.comparable(catalog, name)
        return DatabaseName(raw_catalog, raw, catalog, name)

    def exists(self, database: DatabaseName) -> bool:
        """Whether the database exists. Declines for a remote one."""
        entry = self.snapshot.database(database.catalog, database.name)
        if entry is None:
            raise Decline(Reason.NOT_LOADED)
        if entry is ABSENT:
            self.known_absent()
            return False
        if entry.remote:
            raise Decline(Reason.REMOTE)
        return True

    def table(self, database: DatabaseName, raw: bytes | None) -> TableEntry | None:
        """A table of which the cache may answer; None if it does not exist."""
        name = names.read_name(raw)
        if not name:
            raise Decline(Reason.NAME)
        self.comparable(name)
        if not self.exists(database):
            return self.loaded(ABSENT)
        return self.loaded(self.snapshot.table(database.catalog, database.name, name))

    def loaded(self, entry: TableEntry | Absent | None) -> TableEntry | None:
        """The entry, if the cache may answer from it; None if the table is known not to exist."""
        if entry is None:
            raise Decline(Reason.NOT_LOADED)
        if isinstance(entry, Absent) and self.proof.knows_a_table and self.method not in _ABSENT_ALIKE:
            raise Decline(Reason.TABLE_ID)
        if self.proof.names_another(entry):
            raise Decline(Reason.TABLE_ID)
        if isinstance(entry, Absent):
            self.known_absent()
            return None
        if entry.body is None:
            raise Decline(_NOT_LOADED.get(entry.reason_not_loaded, Reason.NOT_LOADED))
        if entry.transactional:
            lacking = self.proof.lacks(entry)
            if lacking is not None:
                raise Decline(lacking)
        if entry.materialized_view:
            raise Decline(Reason.MATERIALIZED_VIEW)
        return entry

    def known_absent(self) -> None:
        """Declines if the metastore itself must say that something does not exist (`cache_absent`)."""
        if not self.answers_absent:
            raise Decline(Reason.ABSENT)

    def partitioned(self, database: DatabaseName, raw: bytes | None) -> TableEntry | None:
        """A table, with all partitions loaded if it has partition keys; None if it does not exist."""
        entry = self.table(database, raw)
        if entry is not None and entry.partition_keys and not entry.partitions_loaded:
            raise Decline(_NOT_LOADED.get(entry.reason_not_loaded, Reason.NOT_LOADED))
        return entry

    def ordered(self) -> None:
        """Declines unless the metastore's database orders bytewise: the answer has its order."""
        if not self.snapshot.identity.binary_collation:
            raise Decline(Reason.COLLATION)

    def comparable(self, *values: bytes) -> None:
        """Declines names and values that the database may treat as equal to others, or refuse to compare."""
        if not self.snapshot.identity.exact_text and any(map(_INEXACT.search, values)):
            raise Decline(Reason.COLLATION)

    def unordered(self, count: int) -> None:
        """Declines a list of more than one element, for which the metastore states no order to its database."""
        if count > 1 and not self.by_name:
            raise Decline(Reason.ORDER)

    def stored(self, database: DatabaseName, raw: bytes | None) -> bytes:
        """The full name, spelled as it is stored."""
        return b"%b.%b.%b" % (database.catalog, database.name, names.read_name(raw) or b"")

    def no_table(
        self,
        database: DatabaseName,
        raw: bytes | None,
        kind: str = "NoSuchObjectException",
        message: bytes | None = None,
    ) -> bytes:
        """The result that says that there is no such table. Before Hive 4 the text is the same in every method."""
        if self.before_4 or message is None:
            message = self.absent(database, raw)
        return self.error("NoSuchObjectException" if self.before_4 else kind, message)

    def absent(self, database: DatabaseName, raw: bytes | None) -> bytes:
        """The text of most methods for a table that does not exist."""
        catalog = b"" if self.hive2 else database.raw_catalog + b"."
        return b"%b%b.%b table not found" % (catalog, database.raw, raw or b"")

    def error(self, kind: str, message: bytes) -> bytes:
        """The result with a declared exception in it."""
        header = _exception_header(self.method, kind)
        return header + b"\x0b\x00\x01" + _COUNT.pack(len(message)) + message + b"\x00\x00"


@cache
def _exception_header(method: str, kind: str) -> bytes:
    row = next(row for row in facts.METHODS[method].result if row.type == kind)
    return _FIRST_STRUCT[:1] + row.id.to_bytes(2, "big")


def utf8(*values: bytes) -> None:
    """Decline unless the metastore reads these bytes unchanged (it replaces what is not UTF-8, and refuses NUL)."""
    together = b"".join(values)
    if together.isascii() and b"\0" not in together:
        return
    for value in values:
        if not value.isascii():
            try:
                value.decode("utf-8")
            except UnicodeDecodeError:
                raise Decline(Reason.ARGUMENTS) from None
        if b"\0" in value:
            raise Decline(Reason.ARGUMENTS)


def unless(*set_fields: object) -> None:
    """Decline if any of these fields is set: what it asks for is not reproduced here."""
    if any(set_fields):
        raise Decline(Reason.ARGUMENTS)


def no_capabilities(capabilities: object, identifier: object) -> None:
    """Decline if the client declares capabilities: the metastore then transforms the answer."""
    if capabilities is not None or identifier is not None:
        raise Decline(Reason.CAPABILITIES)


def as_stored(*bodies: bytes) -> None:
    """Decline tables that require capabilities."""
    if any(_REQUIRED_CAPABILITIES in body for body in bodies):
        raise Decline(Reason.CAPABILITIES)


def no_projection(request: spec.Struct) -> None:
    """Decline a request for less than whole partitions."""
    skip = request.skipColumnSchemaForPartition
    unless(skip, request.includeParamKeyPattern, request.excludeParamKeyPattern)


def success_i32(number: int) -> bytes:
    """A result that is a number."""
    return _SUCCESS_I32 + _COUNT.pack(number) + STOP


def success_struct(struct: bytes) -> bytes:
    """A result that is a struct."""
    return _SUCCESS_STRUCT + struct + STOP


def wrapped_struct(struct: bytes) -> bytes:
    """A result that is a response struct with a struct in field 1."""
    return b"".join((_SUCCESS_STRUCT, _FIRST_STRUCT, struct, b"\x00\x00"))


def success_strings(values: list[bytes]) -> bytes:
    """A result that is a list of strings."""
    return b"".join((_SUCCESS_STRINGS, _COUNT.pack(len(values)), encode_strings(values), STOP))


def listed_names(names: list[bytes], *, wrapped: bool = False) -> Body:
    """A result that is a list of names, alone or in field 1 of a response struct; many are sent in slices."""
    before, after = around_strings(len(names), wrapped=wrapped)
    if len(names) <= NAMED_AT_ONCE:
        return b"".join((before, encode_strings(names), after))
    some = (names[at : at + NAMED_AT_ONCE] for at in range(0, len(names), NAMED_AT_ONCE))
    return Slices(around(before, map(encode_strings, some), after))


def success_structs(count: int, pieces: list[bytes]) -> bytes:
    """A result that is a list of structs, given in pieces."""
    return b"".join((_SUCCESS_STRUCTS, _COUNT.pack(count), *pieces, STOP))


def wrapped_structs(count: int, pieces: list[bytes]) -> bytes:
    """A result that is a response struct with a list of structs in field 1."""
    return b"".join((_SUCCESS_STRUCT, _FIRST_STRUCTS, _COUNT.pack(count), *pieces, b"\x00\x00"))


def around_structs(count: int, *, wrapped: bool) -> tuple[bytes, bytes]:
    """What stands before and after the elements of a list of structs."""
    if wrapped:
        return _SUCCESS_STRUCT + _FIRST_STRUCTS + _COUNT.pack(count), b"\x00\x00"
    return _SUCCESS_STRUCTS + _COUNT.pack(count), STOP


def around_strings(count: int, *, wrapped: bool = False) -> tuple[bytes, bytes]:
    """What stands before and after the elements of a list of strings."""
    if wrapped:
        return _SUCCESS_STRUCT + _FIRST_STRINGS + _COUNT.pack(count), b"\x00\x00"
    return _SUCCESS_STRINGS + _COUNT.pack(count), STOP
