"""Tables as objects: get_table and get_table_req share entries.

Job: turn arguments into names, and replies into Table structs and back, by splicing. Must not know: ages, claims. A
request with capabilities or a ValidWriteIdList may be answered differently, so it is not answered from objects. Owner:
one per request.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.consistency import names
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.store.protocol import TableKey
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header

from .. import projections
from ..readers.base import success_struct, wrapped_struct
from ..reply_contents import kept_part, returned_at
from . import contents
from .looking import OneStepConversation, RequestView, says_only
from .whole import Whole

_KEYS = ("success.partitionKeys.name",)
PLAIN = ("dbName", "tblName", "catName", "engine")
"""Fields of a GetTableRequest that only name the table."""


class OneTable(OneStepConversation):
    """get_table, and get_table_req if it sets nothing but names."""

    def __init__(self, look: RequestView, header: Header, name: tuple[bytes, bytes, bytes], arguments: bytes) -> None:
        self.look = look
        self.kind = EntryKind.TABLE
        self._method = header.name.decode()
        self._wrapped = self._method == "get_table_req"
        self._key = table_key(look, name)
        self._whole = Whole(look, self._method, arguments, EntryKind.TABLE)

    def wanted(self) -> tuple[bytes | None, list[bytes]]:
        """The result, or the table's key. That a table does not exist is kept for each method, in its own words."""
        found = self.look.get(EntryKind.TABLE, [self._key])[0]
        if found is not None:
            return (wrapped_struct if self._wrapped else success_struct)(found.body), []
        missing = self._whole.wanted()[0] if self.look.policy(EntryKind.TABLE).cache_missing else None
        return missing, [] if missing is not None else [self._key]

    def learn(self, reply: bytes) -> None:
        """Keep the Table struct. A reply with more than a Table is kept whole, one with a materialized view never."""
        span = returned_at(reply, wrapped=self._wrapped)
        if span is not None and contents.shows_materialized_view(self._method, reply):
            self.look.publish([self.look.item(EntryKind.TABLE, self._key, None)])
        elif span is None:
            gone = [] if kept_part(self._method, reply) is None else [self.look.item(EntryKind.TABLE, self._key, None)]
            whole = self._whole.item(reply)
            self.look.publish(gone if whole is None else [*gone, whole])
        else:
            self.look.publish([self.look.item(EntryKind.TABLE, self._key, reply[slice(*span)])])


def one_table(look: RequestView, header: Header, args: Any, arguments: bytes) -> OneTable | None:
    """The conversation; None for a request that is not answered from objects."""
    if header.name == b"get_table":
        split = names.split_database(args.dbname)
        table = names.read_name(args.tbl_name)
        database = names.read_name(split[1]) if split is not None else None
        catalog = split[0] if split is not None else None
    else:
        request = args.req
        if request is None or not says_only(request, *PLAIN):
            return None
        catalog = names.DEFAULT_CATALOG if request.catName is None else request.catName
        database = names.read_name(request.dbName)
        table = names.read_name(request.tblName)
    if not catalog or database is None or table is None:
        return None
    return OneTable(look, header, (catalog.lower(), database, table), arguments)


def table_key(look: RequestView, name: tuple[bytes, bytes, bytes]) -> bytes:
    """The key of a table's entry: catalog, database, table."""
    return look.key(EntryKind.TABLE, *name)


def partition_keys(look: RequestView, name: TableKey) -> tuple[bytes, ...] | None:
    """Names of the partition keys of a table that is in the cache; None if it is not, or has none."""
    entry = look.peek(EntryKind.TABLE, table_key(look, name))
    if entry is None:
        return None
    projection = projections.result_projection("get_table", _KEYS)
    try:
        decoded = spec.decode(projection, b"\x0c\0\0" + entry.body + b"\0")[0].success
    except WireError:
        return None
    return tuple(key.name for key in decoded.partitionKeys or ()) or None
