"""Storage descriptors: SDS, CDS, COLUMNS_V2, SERDES and the tables that refer to them.

Job: turn structs into rows and back, many at a time. A column descriptor (CDS) may be shared by a table and its
partitions, as in Hive: it is inserted again where columns differ, and deleted when nothing refers to it. Must not know:
tables.
Source: ObjectStore.convertToMStorageDescriptor, removeUnusedColumnDescriptor of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows.common import delete_of, read_maps, rows_of, write, write_maps
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

_SERDE_TYPES = {1, 2}  # SerdeType HIVE and SCHEMA_REGISTRY


def insert_columns(call: Call, columns: Sequence[Struct] | None) -> int:
    """Insert a column descriptor; returns its id."""
    cd_id = new_ids(call.connection, "MColumnDescriptor")
    call.execute(insert(T.CDS), {"CD_ID": cd_id})
    rows = [
        {
            "CD_ID": cd_id,
            "COLUMN_NAME": column.name.lower() if column.name else column.name,
            "TYPE_NAME": column.type,
            "COMMENT": column.comment,
            "INTEGER_IDX": position,
        }
        for position, column in enumerate(columns or ())
    ]
    write(call, T.COLUMNS_V2, rows)
    return cd_id


def insert_serde(call: Call, serde: Struct) -> int:
    """Insert a serde that belongs to no descriptor; returns its SERDE_ID."""
    serde_id = new_ids(call.connection, "MSerDeInfo")
    write(call, T.SERDES, [_serde_row(serde_id, serde)])
    write_maps(call, T.SERDE_PARAMS.c.SERDE_ID, {serde_id: serde.parameters})
    return serde_id


def insert_descriptors(call: Call, found: Sequence[tuple[Struct, int | None]]) -> list[int]:
    """Insert (descriptor, the column descriptor to share, or None for a new one); returns their SD_IDs."""
    if not found:
        return []
    first_sd = new_ids(call.connection, "MStorageDescriptor", len(found))
    first_serde = new_ids(call.connection, "MSerDeInfo", len(found))
    serdes, sds = [], []
    serde_parameters: dict[int, Any] = {}
    for number, (sd, cd_id) in enumerate(found):
        serde = sd.serdeInfo if sd.serdeInfo is not None else new("SerDeInfo")
        serdes.append(_serde_row(first_serde + number, serde))
        serde_parameters[first_serde + number] = serde.parameters
        row = _sd_row(sd)
        row["SD_ID"], row["SERDE_ID"] = first_sd + number, first_serde + number
        row["CD_ID"] = cd_id
        if cd_id is None and sd.cols is not None:
            row["CD_ID"] = insert_columns(call, sd.cols)
        sds.append(row)
    write(call, T.SERDES, serdes)
    write_maps(call, T.SERDE_PARAMS.c.SERDE_ID, serde_parameters)
    write(call, T.SDS, sds)
    ids = list(range(first_sd, first_sd + len(found)))
    _insert_extras(call, list(zip(ids, (sd for sd, _ in found), strict=True)))
    return ids


def update_descriptor(call: Call, sd_id: int, sd: Struct, *, columns: bool = True, constraints: bool = False) -> None:
    """Replace the content of a descriptor; with `columns` also its columns (a new column descriptor if they differ).
    `constraints`: it is a table's, whose constraints follow their columns."""
    serde_id, cd_id = call.execute(select(T.SDS.c.SERDE_ID, T.SDS.c.CD_ID).where(T.SDS.c.SD_ID == sd_id)).one()
    values = _sd_row(sd)
    if columns:
        values["CD_ID"] = None if sd.cols is None else insert_columns(call, sd.cols)
    call.execute(update(T.SDS).where(T.SDS.c.SD_ID == sd_id).values(**values))
    if columns and constraints and cd_id is not None:
        _follow(call, cd_id, values["CD_ID"], [column.name for column in sd.cols or ()])
    if columns and cd_id is not None:
        drop_unused_columns(call, [cd_id])
    serde = sd.serdeInfo if sd.serdeInfo is not None else new("SerDeInfo")
    row = _serde_row(serde_id, serde)
    call.execute(update(T.SERDES).where(T.SERDES.c.SERDE_ID == serde_id).values(**row))
    call.execute(delete(T.SERDE_PARAMS).where(T.SERDE_PARAMS.c.SERDE_ID == serde_id))
    write_maps(call, T.SERDE_PARAMS.c.SERDE_ID, {serde_id: serde.parameters})
    _delete_extras(call, [sd_id])
    _insert_extras(call, [(sd_id, sd)])


def _sd_row(sd: Struct) -> dict[str, Any]:
    return {
        "INPUT_FORMAT": sd.inputFormat,
        "OUTPUT_FORMAT": sd.outputFormat,
        "LOCATION": sd.location,
        "NUM_BUCKETS": sd.numBuckets,
        "IS_COMPRESSED": bool(sd.compressed),
        "IS_STOREDASSUBDIRECTORIES": bool(sd.storedAsSubDirectories),
    }


def _serde_row(serde_id: int, serde: Struct) -> dict[str, Any]:
    return {
        "SERDE_ID": serde_id,
        "NAME": serde.name,
        "SLIB": serde.serializationLib,
        "DESCRIPTION": serde.description,
        "SERIALIZER_CLASS": serde.serializerClass,
        "DESERIALIZER_CLASS": serde.deserializerClass,
        "SERDE_TYPE": serde.serdeType or 0,
    }


def _insert_extras(call: Call, found: Sequence[tuple[int, Struct]]) -> None:
    """Insert parameters, bucket and sort columns, skew."""
    write_maps(call, T.SD_PARAMS.c.SD_ID, {sd_id: sd.parameters for sd_id, sd in found})
    buckets, sorts = [], []
    for sd_id, sd in found:
        for position, name in enumerate(sd.bucketCols or ()):
            buckets.append({"SD_ID": sd_id, "BUCKET_COL_NAME": name, "INTEGER_IDX": position})
        for position, order in enumerate(sd.sortCols or ()):
            row = {"SD_ID": sd_id, "COLUMN_NAME": order.col, "ORDER": order.order, "INTEGER_IDX": position}
            sorts.append(row)
        if sd.skewedInfo is not None:
            _insert_skew(call, sd_id, sd.skewedInfo)
    write(call, T.BUCKETING_COLS, buckets)
    write(call, T.SORT_COLS, sorts)


def _insert_skew(call: Call, sd_id: int, skew: Struct) -> None:
    rows = [
        {"SD_ID": sd_id, "SKEWED_COL_NAME": name, "INTEGER_IDX": position}
        for position, name in enumerate(skew.skewedColNames or ())
    ]
    write(call, T.SKEWED_COL_NAMES, rows)
    for position, values in enumerate(skew.skewedColValues or ()):
        list_id = _insert_strings(call, values)
        write(call, T.SKEWED_VALUES, [{"SD_ID_OID": sd_id, "STRING_LIST_ID_EID": list_id, "INTEGER_IDX": position}])
    for values, place in (skew.skewedColValueLocationMaps or {}).items():
        list_id = _insert_strings(call, values)
        row = {"SD_ID": sd_id, "STRING_LIST_ID_KID": list_id, "LOCATION": place}
        write(call, T.SKEWED_COL_VALUE_LOC_MAP, [row])


def _insert_strings(call: Call, values: Iterable[str]) -> int:
    list_id = new_ids(call.connection, "MStringList")
    write(call, T.SKEWED_STRING_LIST, [{"STRING_LIST_ID": list_id}])
    rows = [
        {"STRING_LIST_ID": list_id, "STRING_LIST_VALUE": value, "INTEGER_IDX": position}
        for position, value in enumerate(values)
    ]
    write(call, T.SKEWED_STRING_LIST_VALUES, rows)
    return list_id


def _delete_extras(call: Call, sd_ids: Sequence[int]) -> None:
    lists = [row[1] for row in rows_of(call, T.SKEWED_VALUES.c.SD_ID_OID, sd_ids, T.SKEWED_VALUES.c.STRING_LIST_ID_EID)]
    places = T.SKEWED_COL_VALUE_LOC_MAP.c
    lists += [row[1] for row in rows_of(call, places.SD_ID, sd_ids, places.STRING_LIST_ID_KID)]
    for column in (
        T.SD_PARAMS.c.SD_ID,
        T.BUCKETING_COLS.c.SD_ID,
        T.SORT_COLS.c.SD_ID,
        T.SKEWED_COL_NAMES.c.SD_ID,
        T.SKEWED_VALUES.c.SD_ID_OID,
        places.SD_ID,
    ):
        delete_of(call, column, sd_ids)
    delete_of(call, T.SKEWED_STRING_LIST_VALUES.c.STRING_LIST_ID, lists)
    delete_of(call, T.SKEWED_STRING_LIST.c.STRING_LIST_ID, lists)


def delete_descriptors(call: Call, sd_ids: Sequence[int]) -> None:
    """Delete descriptors that nothing refers to any more, with their serdes, and columns that only they had."""
    found = [row for row in rows_of(call, T.SDS.c.SD_ID, sd_ids, T.SDS.c.SERDE_ID, T.SDS.c.CD_ID)]
    _delete_extras(call, sd_ids)
    delete_of(call, T.SDS.c.SD_ID, sd_ids)
    serde_ids = [row.SERDE_ID for row in found if row.SERDE_ID is not None]
    delete_of(call, T.SERDE_PARAMS.c.SERDE_ID, serde_ids)
    delete_of(call, T.SERDES.c.SERDE_ID, serde_ids)
    drop_unused_columns(call, {row.CD_ID for row in found if row.CD_ID is not None})


def _follow(call: Call, old_cd: int, new_cd: int | None, names: Sequence[str]) -> None:
    """Move constraints with their columns, found by name, to another column descriptor. If the column is gone, delete
    the constraint (4.2: HiveAlterHandler)."""
    keys = T.KEY_CONSTRAINTS.c
    sides = ((keys.PARENT_CD_ID, keys.PARENT_INTEGER_IDX), (keys.CHILD_CD_ID, keys.CHILD_INTEGER_IDX))
    for number, column in enumerate(read_columns(call, [old_cd]).get(old_cd, ())):
        for cd, index in sides:
            mine = (cd == old_cd) & (index == number)
            if column.name in names:
                to = {cd.name: new_cd, index.name: names.index(column.name)}
                call.execute(update(T.KEY_CONSTRAINTS).where(mine).values(**to))
            else:
                call.execute(delete(T.KEY_CONSTRAINTS).where(mine))


def drop_unused_columns(call: Call, cd_ids: Iterable[int]) -> None:
    """Delete column descriptors that no descriptor uses any more, and the constraints on their columns."""
    for cd_id in cd_ids:
        if call.execute(select(func.count()).select_from(T.SDS).where(T.SDS.c.CD_ID == cd_id)).scalar_one():
            continue
        keys = T.KEY_CONSTRAINTS.c
        call.execute(delete(T.KEY_CONSTRAINTS).where((keys.PARENT_CD_ID == cd_id) | (keys.CHILD_CD_ID == cd_id)))
        call.execute(delete(T.COLUMNS_V2).where(T.COLUMNS_V2.c.CD_ID == cd_id))
        call.execute(delete(T.CDS).where(T.CDS.c.CD_ID == cd_id))


def read_descriptors(call: Call, sd_ids: Iterable[int | None], *, whole: bool) -> dict[int, Struct]:
    """Descriptors by SD_ID. `whole`: with the fields of serdes that lists leave out (description, classes, type)."""
    ids = [sd_id for sd_id in sd_ids if sd_id is not None]
    sds = T.SDS.c
    columns = (sds.CD_ID, sds.SERDE_ID, sds.INPUT_FORMAT, sds.OUTPUT_FORMAT, sds.LOCATION, sds.NUM_BUCKETS)
    rows = list(rows_of(call, sds.SD_ID, ids, *columns, sds.IS_COMPRESSED, sds.IS_STOREDASSUBDIRECTORIES))
    cols = read_columns(call, {row.CD_ID for row in rows})
    serdes = read_serdes(call, [row.SERDE_ID for row in rows], whole=whole)
    parameters = read_maps(call, T.SD_PARAMS.c.SD_ID, ids)
    buckets, sorts, skews = _read_lists(call, ids)
    found = {}
    for row in rows:
        found[row.SD_ID] = new(
            "StorageDescriptor",
            cols=None if row.CD_ID is None else list(cols.get(row.CD_ID, ())),  # the column structs are never changed
            location=row.LOCATION,
            inputFormat=row.INPUT_FORMAT,
            outputFormat=row.OUTPUT_FORMAT,
            compressed=bool(row.IS_COMPRESSED),
            numBuckets=row.NUM_BUCKETS,
            serdeInfo=serdes.get(row.SERDE_ID),
            bucketCols=buckets[row.SD_ID],
            sortCols=sorts[row.SD_ID],
            parameters=parameters.get(row.SD_ID, {}),
            skewedInfo=skews.get(row.SD_ID)
            or new("SkewedInfo", skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={}),
            storedAsSubDirectories=bool(row.IS_STOREDASSUBDIRECTORIES),
        )
    return found


def read_columns(call: Call, cd_ids: Iterable[int | None]) -> dict[int, list[Struct]]:
    """Columns by CD_ID."""
    columns = T.COLUMNS_V2.c
    found: dict[int, list[Struct]] = defaultdict(list)
    rows = rows_of(
        call,
        columns.CD_ID,
        [cd_id for cd_id in cd_ids if cd_id is not None],
        *(columns.COLUMN_NAME, columns.TYPE_NAME, columns.COMMENT),
        order=(columns.CD_ID, columns.INTEGER_IDX),
    )
    for cd_id, name, kind, comment in rows:
        found[cd_id].append(new("FieldSchema", name=name, type=kind, comment=comment))
    return found


def read_serdes(call: Call, serde_ids: Sequence[int], *, whole: bool) -> dict[int, Struct]:
    """Serdes by SERDE_ID; `whole` as in read_descriptors."""
    columns = T.SERDES.c
    wanted = (columns.NAME, columns.SLIB, columns.DESCRIPTION, columns.SERIALIZER_CLASS, columns.DESERIALIZER_CLASS)
    parameters = read_maps(call, T.SERDE_PARAMS.c.SERDE_ID, serde_ids)
    found = {}
    for row in rows_of(call, columns.SERDE_ID, serde_ids, *wanted, columns.SERDE_TYPE):
        serde = new("SerDeInfo", name=row.NAME, serializationLib=row.SLIB, parameters=parameters.get(row.SERDE_ID, {}))
        if whole:
            serde.description = row.DESCRIPTION
            serde.serializerClass, serde.deserializerClass = row.SERIALIZER_CLASS, row.DESERIALIZER_CLASS
            serde.serdeType = row.SERDE_TYPE if row.SERDE_TYPE in _SERDE_TYPES else None
        found[row.SERDE_ID] = serde
    return found


def _read_lists(
    call: Call, sd_ids: Sequence[int]
) -> tuple[dict[int, list[str]], dict[int, list[Struct]], dict[int, Struct]]:
    """Bucket columns, sort columns and skew by SD_ID."""
    buckets: dict[int, list[str]] = defaultdict(list)
    sorts: dict[int, list[Struct]] = defaultdict(list)
    columns = T.BUCKETING_COLS.c
    for sd_id, name in rows_of(call, columns.SD_ID, sd_ids, columns.BUCKET_COL_NAME, order=(columns.INTEGER_IDX,)):
        buckets[sd_id].append(name)
    columns = T.SORT_COLS.c
    order = (columns.INTEGER_IDX,)
    for sd_id, name, direction in rows_of(call, columns.SD_ID, sd_ids, columns.COLUMN_NAME, columns.ORDER, order=order):
        sorts[sd_id].append(new("Order", col=name, order=direction))
    return buckets, sorts, _read_skews(call, sd_ids)


def _read_skews(call: Call, sd_ids: Sequence[int]) -> dict[int, Struct]:
    found: dict[int, Struct] = {}

    def of(sd_id: int) -> Struct:
        empty: dict[str, Any] = {"skewedColNames": [], "skewedColValues": [], "skewedColValueLocationMaps": {}}
        return found.setdefault(sd_id, new("SkewedInfo", **empty))

    columns = T.SKEWED_COL_NAMES.c
    for sd_id, name in rows_of(call, columns.SD_ID, sd_ids, columns.SKEWED_COL_NAME, order=(columns.INTEGER_IDX,)):
        of(sd_id).skewedColNames.append(name)
    columns = T.SKEWED_VALUES.c
    order = (columns.INTEGER_IDX,)
    values = list(rows_of(call, columns.SD_ID_OID, sd_ids, columns.STRING_LIST_ID_EID, order=order))
    columns = T.SKEWED_COL_VALUE_LOC_MAP.c
    places = list(rows_of(call, columns.SD_ID, sd_ids, columns.STRING_LIST_ID_KID, columns.LOCATION))
    strings: dict[int, list[str]] = defaultdict(list)
    columns = T.SKEWED_STRING_LIST_VALUES.c
    wanted = [row[1] for row in (*values, *places)]
    by_list = (columns.STRING_LIST_ID, columns.INTEGER_IDX)
    for list_id, value in rows_of(call, columns.STRING_LIST_ID, wanted, columns.STRING_LIST_VALUE, order=by_list):
        strings[list_id].append(value)
    for sd_id, list_id in values:
        of(sd_id).skewedColValues.append(strings[list_id])
    for sd_id, list_id, place in places:
        of(sd_id).skewedColValueLocationMaps[tuple(strings[list_id])] = place
    return found
