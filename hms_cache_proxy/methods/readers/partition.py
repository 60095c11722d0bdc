"""Readers of one partition.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

An empty value is declined: the methods differ in which partition it means. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable

from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.segments import Variant
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spec import Struct

from .base import Body, Context, DatabaseName, Decline, success_struct, unless, utf8, wrapped_struct
from .part_names import DEFAULT_PARTITION, make_name, split_name

PRIVILEGES_PER_PARTITION = b"PARTITION_LEVEL_PRIVILEGE"

ResultEncoder = Callable[[bytes], bytes]


def get_partition(context: Context, args: Struct) -> Body:
    """A partition by its values."""
    return _by_values(context, context.split(args.db_name), args.tbl_name, args.part_vals, success_struct)


def get_partition_req(context: Context, args: Struct) -> Body:
    """A partition by its values, by request."""
    request = args.req
    unless(request is None)
    database = context.plain(request.catName, request.dbName)
    return _by_values(context, database, request.tblName, request.partVals, wrapped_struct)


def get_partition_with_auth(context: Context, args: Struct) -> Body:
    """A partition with its privileges: none, unless the table has privileges per partition, which is declined."""
    database = context.split(args.db_name)
    entry = context.partitioned(database, args.tbl_name)
    values = checked(args.part_vals)
    if entry is None:
        message = b"partition values=" + listed(values)
        return context.no_table(database, args.tbl_name, message=message)
    without_privileges(entry)
    return _found(context, entry, values, success_struct)


def get_partition_by_name(context: Context, args: Struct) -> Body:
    """A partition by its name, with the keys in any order."""
    database = context.split(args.db_name)
    entry = context.partitioned(database, args.tbl_name)
    unless(not args.part_name)
    if entry is None:
        message = b"%b.%b table not found" % (database.raw, args.tbl_name)
        return context.no_table(database, args.tbl_name, message=message)
    utf8(args.part_name)
    parts = split_name(args.part_name)
    if parts is None:
        raise Decline(Reason.ARGUMENTS)
    values: list[bytes] = []
    for key, _ in entry.partition_keys:
        value = parts.get(key)
        if value is None:
            return context.error("NoSuchObjectException", b"incomplete partition name - missing " + key)
        values.append(value)
    return _found(context, entry, values, success_struct)


def listed(values: list[bytes]) -> bytes:
    """A list as Java prints it."""
    return b"[" + b", ".join(values) + b"]"


def checked(values: list[bytes] | None) -> list[bytes]:
    """The values of one partition; declines absent and empty values."""
    if values is None or not all(values):
        raise Decline(Reason.ARGUMENTS)
    utf8(*values)
    return values


def without_privileges(entry: TableEntry) -> None:
    """Declines a table with privileges per partition."""
    if entry.body is not None and PRIVILEGES_PER_PARTITION in entry.body:
        raise Decline(Reason.PRIVILEGES)


def values_of(struct: bytes) -> list[bytes]:
    """The values in a `Partition` struct. Its name does not distinguish an empty value from the default partition."""
    values: list[bytes] = spec.decode(spec.struct("Partition"), struct)[0].values
    return values


def _by_values(
    context: Context, database: DatabaseName, table: bytes | None, raw_values: list[bytes] | None, result: ResultEncoder
) -> Body:
    entry = context.partitioned(database, table)
    values = checked(raw_values)
    if entry is None:
        named = b"%b.%b.%b" % (database.raw_catalog, database.raw, table or b"")
        message = b"Unable to get partition because %b does not exist" % named
        return context.no_table(database, table, message=message)
    return _found(context, entry, values, result)


def _found(context: Context, entry: TableEntry, values: list[bytes], result: ResultEncoder) -> Body:
    keys = entry.partition_keys
    if len(keys) != len(values) or not keys:
        shown = (b"".join(name + b", " for name in names) for names in ((key for key, _ in keys), values))
        return context.error("MetaException", b"Invalid partition key & values; keys [%b], values [%b]" % tuple(shown))
    context.comparable(*values)
    struct = context.snapshot.partition(entry, make_name(keys, values), Variant.SINGLE)
    if struct is not None:
        if not context.snapshot.identity.single_partitions:
            raise Decline(Reason.VARIANT)
        if DEFAULT_PARTITION in values and values_of(struct) != values:
            raise Decline(Reason.ARGUMENTS)  # stored with an empty value, which methods show differently
        return result(struct)
    context.known_absent()
    context.ordered()  # another collation may treat different values as equal
    return context.error("NoSuchObjectException", b"partition values=" + listed(values))
