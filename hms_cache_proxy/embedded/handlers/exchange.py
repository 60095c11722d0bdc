"""Partitions that change their table: exchange_partition and exchange_partitions.

Job: carry out the calls: rows, directories, events. Must not know: other operations on partitions.
Source: HMSHandler.exchange_partitions of 4.0. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import directories, events, names
from hms_cache_proxy.embedded.call import Call, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.handlers import partitions as reading
from hms_cache_proxy.embedded.handlers.partition_drops import forget_written
from hms_cache_proxy.embedded.handlers.table_moves import describe
from hms_cache_proxy.embedded.rows import partitions as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.values import copy, new
from hms_cache_proxy.embedded.warehouse import path_text
from hms_cache_proxy.wire.spec import Struct


def exchange_partition(call: Call, args: Struct) -> Struct:
    """The same as exchange_partitions; the answer is an empty partition."""
    exchange_partitions(call, args)
    return new("Partition", createTime=0, lastAccessTime=0)


def exchange_partitions(call: Call, args: Struct) -> list[Struct]:
    """Move partitions, chosen by some values, from one table to another; returns them as they are there."""
    target_place, source_place = names.split(args.dest_db), names.split(args.source_db)
    spec = args.partitionSpecs
    if spec is None or None in (target_place[1], source_place[1], args.source_table_name, args.dest_table_name):
        raise meta(
            "The DB and table name for the source and destination tables, and the partition specs must not be null."
        )
    if target_place[0] != source_place[0]:
        raise meta("You cannot move a partition across catalogs")
    target = _table(call, "destination", target_place, args.dest_table_name)
    source = _table(call, "source", source_place, args.source_table_name)
    values = [spec.get(key.name) or "" for key in source.table.partitionKeys]
    parts = rows.find(call, source, names=reading.names_like(call, source, values, None), whole=True)
    if not parts:
        listed = ", ".join(f"{key}={value}" for key, value in spec.items())
        raise meta(f"No partition is found with the values {{{listed}}} for the table {args.source_table_name}")
    if _columns(source.table) != _columns(target.table):
        raise meta("The tables have different schemas. Their partitions cannot be exchanged.")
    if not any(values):
        raise meta("Invalid partition key & values; keys [], values []")
    if None in (source.table.sd.location, target.table.sd.location):
        raise internal("a table of an exchange has no location")
    known = rows.find(call, target, names=[part.name for part in parts])
    if known:
        raise meta(f"The partition {known[0].name} already exists in the table {args.dest_table_name}")
    exchanged = [_moved(part, target.table) for part in parts]
    rows.insert_partitions(call, target, exchanged)
    rows.delete_partitions(call, parts)
    forget_written(call, source.table, parts)
    _move_files(call, source.table, target.table, values)
    events.add_partition(call, target.table, exchanged)
    for part in parts:
        events.drop_partition(call, source.table, [part.partition])
    return exchanged


def _table(call: Call, role: str, place: tuple[str, str | None], name: str) -> table_rows.StoredTable:
    row = table_rows.find_table(call, place[0], place[1] or "", names.fold(name))
    if row is None:
        raise meta(f"The {role} table {names.qualified(place[0], place[1] or '', name)} not found")
    return row


def _columns(table: Struct) -> list[list[tuple[str, str]]]:
    return [[(column.name, column.type) for column in some] for some in (table.sd.cols, table.partitionKeys)]


def _moved(part: rows.Part, table: Struct) -> Struct:
    partition: Struct = copy(part.partition)
    partition.dbName, partition.tableName = table.dbName, table.tableName
    partition.sd.location = f"{table.sd.location}/{part.name}"
    return partition


def _move_files(call: Call, source: Struct, target: Struct, values: list[str]) -> None:
    """Move the directory of the given values. Without such a directory Hive changes nothing either."""
    pairs = [(key, value) for key, value in zip(source.partitionKeys, values, strict=True) if value]
    below = names.partition_name([key for key, _ in pairs], [value for _, value in pairs])
    old, new_place = f"{source.sd.location}/{below}", f"{target.sd.location}/{below}"
    if call.warehouse.local(old) is None:
        return
    if not call.warehouse.exists(old):
        raise meta(f"Got exception: java.io.FileNotFoundException File {path_text(old)} does not exist")
    if call.warehouse.exists(new_place):
        raise meta(
            "Got exception: java.io.IOException Cannot rename the source path. The destination path already exists."
        )
    directories.move(call, old, new_place, f"partitions of {describe(source)}", lambda tenant: False)


METHODS = writes(exchange_partition=exchange_partition, exchange_partitions=exchange_partitions)
