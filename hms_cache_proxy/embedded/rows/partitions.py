"""Partitions: PARTITIONS, PARTITION_PARAMS, PARTITION_KEY_VALS, with their descriptors.

Job: turn structs into rows and back, many at a time. Must not know: what a call may do. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, update

from hms_cache_proxy.embedded import names as naming
from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows import descriptors
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows.common import batches, delete_of, read_maps, rows_of, write, write_maps
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.embedded.warehouse import without_scheme
from hms_cache_proxy.wire.spec import Struct


@dataclass(frozen=True, slots=True)
class Part:
    """A stored partition: its ids, its name and the struct. `write_id` as stored: 0 until it is changed, then -1 if
    that had none."""

    partition_id: int
    sd_id: int | None
    name: str
    write_id: int
    partition: Struct


def partition_names(call: Call, table_id: int, limit: int | None = None, *, as_made: bool = False) -> list[str]:
    """The names of a table's partitions, in order; `as_made`: in the order of creation."""
    columns = T.PARTITIONS.c
    order = columns.PART_ID if as_made else columns.PART_NAME
    query = select(columns.PART_NAME).where(columns.TBL_ID == table_id).order_by(order)
    return [row[0] for row in call.execute(query if limit is None else query.limit(limit))]


def empty_values(call: Call, table_id: int) -> dict[str, list[str]]:
    """By name, the values of partitions with an empty value, for which names have the default partition's."""
    columns, kept = T.PARTITIONS.c, T.PARTITION_KEY_VALS.c
    empty = select(kept.PART_ID).where(kept.PART_KEY_VAL == "")
    query = (
        select(columns.PART_NAME, kept.PART_KEY_VAL)
        .join(T.PARTITION_KEY_VALS, kept.PART_ID == columns.PART_ID)
        .where(columns.TBL_ID == table_id, columns.PART_ID.in_(empty))
        .order_by(columns.PART_NAME, kept.INTEGER_IDX)
    )
    found: dict[str, list[str]] = {}
    for name, value in call.execute(query):
        found.setdefault(name, []).append(value or "")
    return found


def count(call: Call, table_id: int) -> int:
    """The number of a table's partitions."""
    query = select(func.count()).select_from(T.PARTITIONS).where(T.PARTITIONS.c.TBL_ID == table_id)
    return int(call.execute(query).scalar_one())


def find(
    call: Call,
    row: table_rows.StoredTable,
    *,
    names: Iterable[str] | None = None,
    limit: int | None = None,
    whole: bool = False,
) -> list[Part]:
    """Partitions of a table by name: all, or the named ones that exist.

    `whole`: serdes with all stored fields, as in the calls for one partition.
    """
    columns = T.PARTITIONS.c
    query = select(T.PARTITIONS).where(columns.TBL_ID == row.table_id).order_by(columns.PART_NAME)
    if names is None:
        found = call.rows(query if limit is None else query.limit(limit))
    else:
        found = []
        for some in batches(sorted({name for name in names if name and "\0" not in name})):  # no database stores NUL
            found += call.rows(query.where(columns.PART_NAME.in_(some)))
        found.sort(key=lambda each: each.PART_NAME)
        found = found if limit is None else found[:limit]
    return _parts(call, row.table, found, whole=whole)


def _parts(call: Call, table: Struct, found: Sequence[Any], *, whole: bool) -> list[Part]:
    ids = [each.PART_ID for each in found]
    values: dict[int, list[str]] = defaultdict(list)
    columns = T.PARTITION_KEY_VALS.c
    order = (columns.PART_ID, columns.INTEGER_IDX)
    for part_id, value in rows_of(call, columns.PART_ID, ids, columns.PART_KEY_VAL, order=order):
        values[part_id].append(value)
    parameters = read_maps(call, T.PARTITION_PARAMS.c.PART_ID, ids)
    sds = descriptors.read_descriptors(call, [each.SD_ID for each in found], whole=whole)
    trimmed = whole and table_rows.is_full_acid(table.parameters)
    parts = []
    for each in found:
        sd = sds.get(each.SD_ID)
        if trimmed and sd is not None:
            table_rows.trim(sd)
        partition = new(
            "Partition",
            values=values[each.PART_ID],
            dbName=table.dbName,
            tableName=table.tableName,
            createTime=each.CREATE_TIME,
            lastAccessTime=each.LAST_ACCESS_TIME,
            sd=sd,
            parameters=parameters.get(each.PART_ID, {}),
            catName=table.catName,
            writeId=each.WRITE_ID if (each.WRITE_ID or 0) > 0 else -1,
        )
        parts.append(Part(each.PART_ID, each.SD_ID, each.PART_NAME, each.WRITE_ID or 0, partition))
    return parts


def insert_partitions(call: Call, row: table_rows.StoredTable, partitions: Sequence[Struct]) -> list[int]:
    """Insert partitions; returns their ids. A partition with the table's columns shares its column descriptor."""
    if not partitions:
        return []
    first = new_ids(call.connection, "MPartition", len(partitions))
    shared = _table_columns(call, row)
    mine = _columns(row.table.sd)
    sd_ids = iter(
        descriptors.insert_descriptors(
            call,
            [(p.sd, shared if _columns(p.sd) == mine else None) for p in partitions if p.sd is not None],
        )
    )
    rows, values = [], []
    for number, partition in enumerate(partitions):
        rows.append(
            {
                "PART_ID": first + number,
                "TBL_ID": row.table_id,
                "PART_NAME": naming.partition_name(row.table.partitionKeys, partition.values),
                "SD_ID": None if partition.sd is None else next(sd_ids),
                "CREATE_TIME": partition.createTime or 0,
                "LAST_ACCESS_TIME": partition.lastAccessTime or 0,
                "WRITE_ID": max(partition.writeId or 0, 0),
            }
        )
        for position, value in enumerate(partition.values):
            values.append({"PART_ID": first + number, "PART_KEY_VAL": value, "INTEGER_IDX": position})
    write(call, T.PARTITIONS, rows)
    write(call, T.PARTITION_KEY_VALS, values)
    write_maps(call, T.PARTITION_PARAMS.c.PART_ID, {first + n: p.parameters for n, p in enumerate(partitions)})
    return list(range(first, first + len(partitions)))


def _table_columns(call: Call, row: table_rows.StoredTable) -> int | None:
    if row.sd_id is None:
        return None
    found: int | None = call.execute(select(T.SDS.c.CD_ID).where(T.SDS.c.SD_ID == row.sd_id)).scalar()
    return found


def _columns(sd: Struct | None) -> list[tuple[str, str, str | None]] | None:
    return None if sd is None or sd.cols is None else [(col.name.lower(), col.type, col.comment) for col in sd.cols]


def update_partition(call: Call, row: table_rows.StoredTable, part: Part, after: Struct) -> None:
    """Replace everything of a partition except its id, even its values."""
    values: dict[str, Any] = {
        "CREATE_TIME": after.createTime or 0,
        "PART_NAME": naming.partition_name(row.table.partitionKeys, after.values),
        "LAST_ACCESS_TIME": after.lastAccessTime or 0,
        "WRITE_ID": -1 if after.writeId is None else after.writeId,
    }
    call.execute(update(T.PARTITIONS).where(T.PARTITIONS.c.PART_ID == part.partition_id).values(**values))
    if after.values != part.partition.values:
        delete_of(call, T.PARTITION_KEY_VALS.c.PART_ID, [part.partition_id])
        renamed = [
            {"PART_ID": part.partition_id, "PART_KEY_VAL": value, "INTEGER_IDX": position}
            for position, value in enumerate(after.values)
        ]
        write(call, T.PARTITION_KEY_VALS, renamed)
    update_parameters(call, part.partition_id, after.parameters)
    if part.sd_id is not None and after.sd is not None:
        same = _columns(part.partition.sd) == _columns(after.sd)
        descriptors.update_descriptor(call, part.sd_id, after.sd, columns=not same)


def update_parameters(call: Call, partition_id: int, parameters: dict[str, str] | None) -> None:
    """Replace a partition's parameters."""
    call.execute(delete(T.PARTITION_PARAMS).where(T.PARTITION_PARAMS.c.PART_ID == partition_id))
    write_maps(call, T.PARTITION_PARAMS.c.PART_ID, {partition_id: parameters})


def set_write_id(call: Call, partition_id: int, write_id: int) -> None:
    """Set the write id to which a partition's parameters belong."""
    call.execute(update(T.PARTITIONS).where(T.PARTITIONS.c.PART_ID == partition_id).values(WRITE_ID=write_id))


def set_columns(call: Call, table_id: int, columns: Sequence[Struct]) -> None:
    """Give all partitions of a table these columns (with one column descriptor for all)."""
    mine = T.PARTITIONS.c
    query = select(T.SDS.c.SD_ID, T.SDS.c.CD_ID).join(T.PARTITIONS, mine.SD_ID == T.SDS.c.SD_ID)
    found = call.rows(query.where(mine.TBL_ID == table_id))
    if not found:
        return
    cd_id = descriptors.insert_columns(call, columns)
    for some in batches(row.SD_ID for row in found):
        call.execute(update(T.SDS).where(T.SDS.c.SD_ID.in_(some)).values(CD_ID=cd_id))
    descriptors.drop_unused_columns(call, {row.CD_ID for row in found if row.CD_ID is not None})


def locations(call: Call, table_id: int) -> list[str]:
    """The locations of a table's partitions."""
    columns = T.PARTITIONS.c
    query = select(T.SDS.c.LOCATION).join(T.PARTITIONS, columns.SD_ID == T.SDS.c.SD_ID)
    return [row[0] for row in call.execute(query.where(columns.TBL_ID == table_id)) if row[0]]


def move(call: Call, table_id: int, source: str, target: str) -> None:
    """Replace a table's old path by the new one in the locations of its partitions, as text, like Hive."""
    old, new = without_scheme(source), without_scheme(target)
    columns = T.PARTITIONS.c
    query = select(T.SDS.c.SD_ID, T.SDS.c.LOCATION).join(T.PARTITIONS, columns.SD_ID == T.SDS.c.SD_ID)
    for sd_id, location in call.rows(query.where(columns.TBL_ID == table_id)):
        path = without_scheme(location or "")
        if old in path:
            moved = location[: len(location) - len(path)] + path.replace(old, new)
            call.execute(update(T.SDS).where(T.SDS.c.SD_ID == sd_id).values(LOCATION=moved))


def delete_partitions(call: Call, parts: Sequence[Part]) -> None:
    """Delete partitions with everything that belongs to them."""
    _delete(call, [part.partition_id for part in parts], [part.sd_id for part in parts])


def delete_all(call: Call, table_id: int) -> None:
    """Delete all partitions of a table."""
    columns = T.PARTITIONS.c
    found = call.rows(select(columns.PART_ID, columns.SD_ID).where(columns.TBL_ID == table_id))
    _delete(call, [row.PART_ID for row in found], [row.SD_ID for row in found])


def _delete(call: Call, ids: Sequence[int], sd_ids: Sequence[int | None]) -> None:
    for column in (
        T.PARTITION_PARAMS.c.PART_ID,
        T.PARTITION_KEY_VALS.c.PART_ID,
        T.PART_PRIVS.c.PART_ID,
        T.PART_COL_PRIVS.c.PART_ID,
        T.PART_COL_STATS.c.PART_ID,
        T.PARTITIONS.c.PART_ID,
    ):
        delete_of(call, column, ids)
    descriptors.delete_descriptors(call, [sd_id for sd_id in sd_ids if sd_id is not None])
