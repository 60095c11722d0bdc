"""Readers of lists of a database's tables: names, names of one type, and what get_table_meta says of each table.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

Order: Hive 4.2 orders get_tables_by_type by name, unless its pattern is absent or `.*`; all other lists are in the
order in which the metastore's database finds the tables. Such a list is ordered by name if `list_order` allows that;
otherwise it is declined as soon as it has a second table. A listing is read in slices, all of one state of the cache.
Owner: the worker's loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from struct import Struct as Packer

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.layout import LOADED, NAME_ROW, SUMMARISED
from hms_cache_proxy.cache.streams import encode_strings
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from .base import (
    Body,
    Context,
    DatabaseName,
    Decline,
    Slices,
    Unfinished,
    around,
    around_strings,
    around_structs,
    started,
    utf8,
)
from .patterns import Pattern, read_pattern

MAX_MATCHED = 2_000
"""Names that are looked at where more than one that belongs to the list has to come from the metastore."""
SLICE = 300
"""Names that are looked at in one go (half a millisecond)."""
FIRST_SLICE = 32
"""The same at first, where the second name that belongs to the list ends the search."""
JOINED_BYTES = 1 << 20
"""A longer result is sent in slices, and not kept: joining it takes a millisecond for each megabyte."""

ListingRow = tuple[bytes, bytes]
Pieces = Callable[[list[ListingRow]], tuple[int, bytes]]
"""How many of some rows belong to a list, and these as its elements."""

_TYPES = frozenset((b"MANAGED_TABLE", b"EXTERNAL_TABLE", b"VIRTUAL_VIEW", b"MATERIALIZED_VIEW"))
_EVERYTHING = (None, b".*")
"""The patterns for which Hive 4.2 has a statement of its own, without an order."""
_ONE_DATABASE = re.compile(rb"\w+", re.ASCII).fullmatch
_LENGTH = Packer("!i").pack
_STRING = b"\x0b\x00"
_NAME_FIELD, _TYPE_FIELD = _STRING + b"\x02", _STRING + b"\x03"
_TYPE_AT = NAME_ROW.size


def get_all_tables(context: Context, args: Struct) -> Body | Unfinished:
    """Names of a database's tables and views; none of an absent database."""
    return started(_names(context, context.split(args.db_name), None))


def get_tables(context: Context, args: Struct) -> Body | Unfinished:
    """Names that match a pattern; without one, all."""
    database = context.split(args.db_name)
    return started(_names(context, database, _pattern(args.pattern)))


def get_tables_by_type(context: Context, args: Struct) -> Body | Unfinished:
    """Names of one type that match a pattern."""
    _only_4_2(context)
    database, pattern = context.split(args.db_name), _pattern(args.pattern)
    if args.tableType not in _TYPES:
        raise Decline(Reason.ARGUMENTS)  # refused, but for spellings that Java knows
    ordered = args.pattern not in _EVERYTHING
    if ordered:
        context.ordered()
    pieces = partial(_of_type, args.tableType)
    return started(_listed(context, database, pattern, pieces, around_strings, ordered=ordered))


def get_table_meta(context: Context, args: Struct) -> Body | Unfinished:
    """Names, types, comments and owners of the tables of one database; patterns of databases are not matched here."""
    _only_4_2(context)
    database = context.split(args.db_patterns)
    if not _ONE_DATABASE(database.name):
        raise Decline(Reason.PATTERN)
    if database.raw_catalog != database.catalog:
        raise Decline(Reason.ARGUMENTS)  # compared as it is written
    pattern = None if args.tbl_patterns == b"*" else _pattern(args.tbl_patterns)
    types = args.tbl_types or ()
    utf8(*types)
    context.comparable(*types)
    head = b"".join((_STRING, b"\x01", _text(database.name), _STRING, b"\x05", _text(database.catalog), _NAME_FIELD))
    pieces = partial(_described, head, frozenset(types))
    return started(_listed(context, database, pattern, pieces, partial(around_structs, wrapped=False)))


def _only_4_2(context: Context) -> None:
    if context.line != "4.2":
        raise Decline(Reason.NO_READER)


def _pattern(raw: bytes | None) -> Pattern | None:
    if raw is None:
        return None
    pattern = read_pattern(raw)
    if pattern is None:
        raise Decline(Reason.PATTERN)
    return pattern


def _names(context: Context, database: DatabaseName, pattern: Pattern | None) -> Generator[None, None, Body]:
    return _listed(context, database, pattern, _every, around_strings)


def _listed(
    context: Context,
    database: DatabaseName,
    pattern: Pattern | None,
    pieces: Pieces,
    frame: Callable[[int], tuple[bytes, bytes]],
    *,
    ordered: bool = False,
) -> Generator[None, None, Body]:
    """A list of those tables whose names match the pattern, and that `pieces` takes. `ordered`: by name, as the
    metastore has it."""
    parts: list[bytes] = []
    count = looked = 0
    if context.exists(database):
        if not context.snapshot.complete(targets.tables(database.catalog, database.name)):
            raise Decline(Reason.NOT_LOADED)
        alone = not ordered and not context.by_name
        slice_ = FIRST_SLICE if alone else SLICE
        prefix = pattern.prefix if pattern else b""
        with closing(context.snapshot.walk_tables(database.catalog, database.name, prefix)) as walk:
            while rows := walk.rows(slice_):
                some = [row for row in rows if pattern.matches(row[0])] if pattern else rows
                more, part = pieces(some)
                count, looked = count + more, looked + len(rows)
                parts.append(part)
                if alone and (count > 1 or looked >= MAX_MATCHED):
                    raise Decline(Reason.ORDER)
                if len(rows) >= slice_:
                    yield
                slice_ = SLICE
    before, after = frame(count)
    if sum(map(len, parts)) > JOINED_BYTES:
        return Slices(around(before, parts, after))
    return b"".join((before, *parts, after))


def _every(rows: list[ListingRow]) -> tuple[int, bytes]:
    """Names."""
    return len(rows), encode_strings([name for name, _ in rows])


def _of_type(wanted: bytes, rows: list[ListingRow]) -> tuple[int, bytes]:
    """Names of one type, which must be as the metastore stores it."""
    names: list[bytes] = []
    for name, row in rows:
        _, flags, length = NAME_ROW.unpack_from(row)
        if row[_TYPE_AT : _TYPE_AT + length] == wanted:
            if not flags & SUMMARISED:
                raise Decline(Reason.NO_READER if flags & LOADED else Reason.NOT_LOADED)
            names.append(name)
    return len(names), encode_strings(names)


def _described(head: bytes, types: frozenset[bytes], rows: list[ListingRow]) -> tuple[int, bytes]:
    """TableMeta structs: `head` is what they have in common, up to the header of the name."""
    parts: list[bytes] = []
    count = 0
    for name, row in rows:
        _, flags, length = NAME_ROW.unpack_from(row)
        end = _TYPE_AT + length
        kind = row[_TYPE_AT:end]
        if types and kind not in types:
            continue
        if not flags & SUMMARISED:
            raise Decline(Reason.NO_READER if flags & LOADED else Reason.NOT_LOADED)
        count += 1
        parts += (head, _LENGTH(len(name)), name, _TYPE_FIELD, _LENGTH(length), kind, row[end:])
    return count, b"".join(parts)


def _text(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value
