"""Calls that move files, or make directories and take them back, on objects that have their directories for themselves.

Job: lists of steps, family by family, as in file_scripts.py.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import ELSEWHERE, EXTERNAL, MANAGED, Step, struct
from tests.embedded.file_scripts import (
    FILL,
    KINDS,
    OUTSIDE,
    acid_table,
    added,
    context,
    dropped,
    made,
    prepare,
    told,
)
from tests.embedded.scripts import descriptor, field, partition, table

TRANSLATED = {"EXTERNAL": "TRUE", "TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}
"""What Hive makes of a managed table, as a client that read it sends it back."""
SENT = {"made": TRANSLATED, **{kind: fields["parameters"] for kind, fields in KINDS.items() if "parameters" in fields}}


def altered(
    db: str,
    name: str,
    new: str,
    where: str | None = None,
    *,
    to: str | None = None,
    keys: tuple[str, ...] = (),
    fields: Any = None,
    **properties: str,
) -> Step:
    """A table changed to another name, database (`to`) or place."""
    more = fields or {"parameters": OUTSIDE}
    given = table(to or db, new, partitionKeys=[field(key) for key in keys], sd=descriptor(location=where), **more)
    names = {"dbname": db, "tbl_name": name, "new_tbl": given}
    return "alter_table_with_environment_context", {**names, "environment_context": context(**properties)}


def renamed_tables(db: str) -> list[Step]:
    """Tables under another name, in another database, with partitions inside, outside and beside them."""
    other = f"{db}_other"
    mine, theirs = f"{EXTERNAL}/{db}.db", f"{EXTERNAL}/{other}.db"
    steps: list[Step] = [("create_database", {"database": struct("Database", name=other)})]
    for kind, parameters in SENT.items():
        more: dict[str, Any] = {"keys": ("p",), "fields": {"parameters": parameters}}
        name, moves = f"{kind}_t", kind == "made"
        steps += [
            made(db, name, ("p",), **KINDS[kind]),
            added(db, name, "1"),
            added(db, name, "2", where=f"{ELSEWHERE}/{name}/2"),
            added(db, name, "3", where=f"{mine}/{name}2/3"),
            FILL,
            altered(db, name, f"{kind}_u", **more),
            altered(db, name, f"{kind}_u", f"{mine}/{name}", **more),
            *told(db, f"{kind}_u"),
            altered(db, f"{kind}_u", f"{kind}_U", f"{mine}/{kind}_u", **more),
            altered(db, f"{kind}_u", f"{kind}_v", f"{mine}/{kind}_u" if moves else "", to=other, **more),
            *told(other, f"{kind}_v"),
            altered(other, f"{kind}_v", f"{kind}_w", f"{ELSEWHERE}/{kind}_w", **more),
            *told(other, f"{kind}_w"),
            FILL,
            altered(other, f"{kind}_w", f"{kind}_w", f"{ELSEWHERE}/{kind}_y", **more),
            *told(other, f"{kind}_w"),
            altered(other, f"{kind}_w", f"{kind}_x", f"{ELSEWHERE}/{kind}_y", **more),
            *told(other, f"{kind}_x"),
        ]
        plain: dict[str, Any] = {"fields": {"parameters": parameters}}
        name = f"{kind}_plain"
        steps += [
            made(db, name, **KINDS[kind]),
            prepare("directory", f"external/{db}.db/{kind}_taken"),
            FILL,
            altered(db, name, f"{kind}_taken", f"{mine}/{name}", **plain),
            altered(db, name, name, f"{mine}/{name}", **plain, to="nodb"),
            altered(db, name, f"{kind}_free", f"{mine}/{name}", **plain),
            *told(db, f"{kind}_free"),
            FILL,
            prepare("gone", f"external/{db}.db/{f'{kind}_free' if moves else name}"),
            altered(db, f"{kind}_free", f"{kind}_gone", f"{mine}/{f'{kind}_free' if moves else name}", **plain),
            *told(db, f"{kind}_gone"),
            dropped(db, f"{kind}_gone"),
        ]
    iceberg: dict[str, Any] = {"fields": {"parameters": TRANSLATED | {"table_type": "ICEBERG"}}}
    steps += [
        made(db, "ice", **KINDS["made"]),
        FILL,
        altered(db, "ice", "berg", f"{mine}/ice", **iceberg),
        *told(db, "berg"),
        altered(db, "berg", "sea", f"{theirs}/sea", **iceberg),
        *told(db, "sea"),
    ]
    return steps


def renamed_places(db: str) -> list[Step]:
    """Tables that lie somewhere of their own, and partitions whose paths only look as if they were the table's."""
    fields: dict[str, Any] = {"parameters": TRANSLATED}
    p = ("p",)
    return [
        made(db, "far", where=f"{ELSEWHERE}/a b/far/", **fields),
        made(db, "t", p, **fields),
        added(db, "t", "1"),
        added(db, "t", "2", where=f"{ELSEWHERE}/t/2"),
        added(db, "t", "3", where=f"{EXTERNAL}/{db}.db/t2/3"),
        added(db, "t", "4", where=f"{EXTERNAL}/{db}.db/t/other/4"),
        made(db, "linked", **fields),
        FILL,
        prepare("gone", f"external/{db}.db/linked"),
        prepare("directory", "elsewhere/one"),
        prepare("link", f"external/{db}.db/linked", "elsewhere/one"),
        altered(db, "far", "near", f"{ELSEWHERE}/a b/far", fields=fields),
        *told(db, "near"),
        altered(db, "t", "u", f"{EXTERNAL}/{db}.db/t", keys=p, fields=fields),
        *told(db, "u"),
        altered(db, "linked", "still", f"{EXTERNAL}/{db}.db/linked", fields=fields),
        *told(db, "still"),
    ]


def moved_data(db: str) -> list[Step]:
    """Another location leaves files where they are, unless a replication says that it has moved them."""
    steps: list[Step] = []
    for name in ("plain", "skip"):
        parameters = OUTSIDE | ({"skip.trash": "true"} if name == "skip" else {})
        fields: dict[str, Any] = {"parameters": parameters}
        steps += [
            made(db, name, where=f"{ELSEWHERE}/{name}/old", **fields),
            FILL,
            altered(db, name, name, f"{ELSEWHERE}/{name}/new", fields=fields),
            *told(db, name),
            prepare("directory", f"elsewhere/{name}/moved"),
            FILL,
            altered(db, name, name, f"{ELSEWHERE}/{name}/old", fields=fields, REPL_DATA_LOCATION_CHANGED="true"),
            altered(db, name, name, f"{ELSEWHERE}/{name}/moved", fields=fields, REPL_DATA_LOCATION_CHANGED="true"),
            *told(db, name),
        ]
    return steps


def renamed_partitions(db: str) -> list[Step]:
    """Partitions with other values, whose directories are inside, outside, gone or taken."""
    steps: list[Step] = []
    here = f"external/{db}.db"

    def rename(name: str, old: str, new: str, where: str | None = f"{ELSEWHERE}/sent") -> Step:
        after = partition(db, name, [new], sd=descriptor(location=where))
        return "rename_partition", {"db_name": db, "tbl_name": name, "part_vals": [old], "new_part": after}

    for kind, fields in KINDS.items():
        steps += [
            made(db, kind, ("p",), **fields),
            *(added(db, kind, value) for value in "123456"),
            added(db, kind, "7", where=f"{ELSEWHERE}/{kind}/7"),
            FILL,
            prepare("directory", f"{here}/{kind}/p=taken"),
            prepare("gone", f"{here}/{kind}/p=4"),
            FILL,
            rename(kind, "1", "one"),
            rename(kind, "2", "3"),
            rename(kind, "2", "taken"),
            rename(kind, "4", "four"),
            rename(kind, "5", "5"),
            rename(kind, "6", "a b/ü", None),
            rename(kind, "6", "a b/ü"),
            rename(kind, "7", "seven"),
            rename(kind, "absent", "x"),
            rename(kind, "4", "taken"),
            FILL,
            *told(db, kind),
        ]
    return steps


def exchanged(db: str) -> list[Step]:
    """Partitions that become another table's."""
    here = f"external/{db}.db"
    source = {"source_db": db, "source_table_name": "s", "dest_db": db, "dest_table_name": "d"}

    def exchange(method: str = "exchange_partitions", **spec: str) -> Step:
        return method, {"partitionSpecs": spec, **source}

    return [
        made(db, "s", ("p", "q"), parameters=OUTSIDE),
        made(db, "d", ("p", "q"), parameters=OUTSIDE),
        *(added(db, "s", p, q) for p in "12345" for q in "12"),
        added(db, "s", "6", "1", where=f"{ELSEWHERE}/far"),
        added(db, "d", "2", "1"),
        FILL,
        exchange(p="1", q="1"),
        exchange(p="1", q=""),
        exchange(p="2", q="2"),
        exchange("exchange_partition", p="3"),
        prepare("gone", f"{here}/s/p=4"),
        exchange(p="4"),
        prepare("directory", f"{here}/d/p=5"),
        FILL,
        exchange(p="5"),
        exchange(p="6"),
        FILL,
        *told(db, "s"),
        *told(db, "d"),
        dropped(db, "s"),
        dropped(db, "d"),
    ]


def refused_exchanges(db: str) -> list[Step]:
    """Hive leaves its transaction open where it refuses early: no other call follows on the connection."""
    source = {"source_db": db, "source_table_name": "s", "dest_db": db, "dest_table_name": "d"}
    return [
        made(db, "s", ("p", "q"), parameters=OUTSIDE),
        made(db, "d", ("p", "q"), parameters=OUTSIDE),
        *(added(db, name, "2", "1") for name in "sd"),
        FILL,
        *(("exchange_partitions", {"partitionSpecs": spec, **source}) for spec in ({"p": "7"}, {"k": "7"}, {"p": "2"})),
    ]


def failed(db: str) -> list[Step]:
    """Calls that make directories and then fail take back what they made, and nothing that was there."""
    here = f"external/{db}.db"
    pk = {"table_db": db, "table_name": "c", "column_name": "nope", "key_seq": 1, "pk_name": "k"}
    pk |= {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False}
    bad_pk = [struct("SQLPrimaryKey", catName="hive", **pk)]
    several = [partition(db, "t", ["5"]), partition(db, "t", ["1"])]
    odd = [partition(db, "t", ["6"]), partition(db, "t", ["7"], sd=descriptor(location=f"{ELSEWHERE}/file/7"))]
    named = {"db_name": db, "tbl_name": "t"}
    return [
        made(db, "t", ("p",), parameters=OUTSIDE),
        added(db, "t", "1"),
        prepare("file", "elsewhere/file"),
        prepare("directory", f"{here}/there"),
        FILL,
        made(db, "t", where=f"{ELSEWHERE}/never"),
        made("nodb", "t", where=f"{ELSEWHERE}/never"),
        made(db, "in_file", where=f"{ELSEWHERE}/file/x", parameters=OUTSIDE),
        made(db, "a_file", where=f"{ELSEWHERE}/file", parameters=OUTSIDE),
        made(db, "there", parameters=OUTSIDE),
        *told(db, "there"),
        ("create_table_with_constraints", {"tbl": table(db, "c", parameters=OUTSIDE), "primaryKeys": bad_pk}),
        (
            "create_table_with_constraints",
            {
                "tbl": table(db, "c", sd=descriptor(location=f"{ELSEWHERE}/deep/er/c"), parameters=OUTSIDE),
                "primaryKeys": bad_pk,
            },
        ),
        ("add_partitions", {"new_parts": several}),
        ("add_partitions", {"new_parts": odd}),
        added(db, "t", "8", where=f"{ELSEWHERE}/file/8"),
        added(db, "t", "1", where=f"{ELSEWHERE}/again"),
        added(db, "t", "9", "10"),
        ("append_partition", {**named, "part_vals": ["1"]}),
        ("append_partition", {**named, "part_vals": ["11"]}),
        prepare("file", f"{here}/t/p=12"),
        ("append_partition", {**named, "part_vals": ["12"]}),
        ("append_partition_by_name", {**named, "part_name": "q=1"}),
        ("create_database", {"database": struct("Database", name=db, locationUri=f"{ELSEWHERE}/db")}),
        ("create_database", {"database": struct("Database", name=f"{db}_x", locationUri=f"{ELSEWHERE}/file/db")}),
        (
            "create_database",
            {
                "database": struct(
                    "Database",
                    name=f"{db}_y",
                    locationUri=f"{ELSEWHERE}/y",
                    managedLocationUri=f"{ELSEWHERE}/file/y",
                )
            },
        ),
        *told(db, "t"),
    ]


def catalogs(db: str) -> list[Step]:
    """A catalog's directory, and that of its default database."""
    catalog = struct("Catalog", name=db, locationUri=f"{ELSEWHERE}/cat")
    other = struct("Catalog", name=f"{db}_b", locationUri=f"{ELSEWHERE}/file")
    inside = struct("Database", name=f"{db}_in", catalogName=db)
    t = table(f"{db}_in", "t", catName=db, parameters=OUTSIDE)
    drop = ("drop_catalog", {"catName": struct("DropCatalogRequest", name=db)})
    return [
        prepare("file", "elsewhere/file"),
        ("create_catalog", {"catalog": struct("CreateCatalogRequest", catalog=catalog)}),
        ("create_catalog", {"catalog": struct("CreateCatalogRequest", catalog=catalog)}),
        ("create_catalog", {"catalog": struct("CreateCatalogRequest", catalog=other)}),
        ("create_database", {"database": inside}),
        ("create_table", {"tbl": t}),
        prepare("directory", "elsewhere/cat/x"),
        FILL,
        drop,
        ("drop_database", {"name": f"@{db}#{db}_in", "deleteData": True, "cascade": True}),
        drop,
        drop,
    ]


def transactional_renames(db: str) -> list[Step]:
    """Managed tables and their partitions move with their names; a copy is made where the call says so."""
    other = f"{db}_other"
    sd = descriptor(inputFormat="org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
                    outputFormat="org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat")  # fmt: skip
    acid = {"transactional": "true", "transactional_properties": "default"}

    def given(where: str, new: str, place: str) -> Any:
        keys = [field("p")]
        here = struct("StorageDescriptor", **{**sd.__dict__, "location": f"{MANAGED}/{place}"})
        return table(where, new, sd=here, partitionKeys=keys, tableType="MANAGED_TABLE", parameters=acid)

    def rename(name: str, old: str, new: str, write_id: int | None = None, **fields: Any) -> Step:
        after = partition(db, name, [new], sd=descriptor(location=f"{ELSEWHERE}/sent"), writeId=write_id)
        values = {"dbName": db, "tableName": name, "partVals": [old], "newPart": after, "catName": "hive"} | fields
        return "rename_partition_req", {"req": struct("RenamePartitionRequest", **values)}

    return [
        ("create_database", {"database": struct("Database", name=other)}),
        acid_table(db, "t", keys=("p",)),
        *(added(db, "t", value) for value in "123"),
        added(db, "t", "4", where=f"{ELSEWHERE}/4"),
        FILL,
        rename("t", "1", "one"),
        rename("t", "4", "four"),
        rename("t", "2", "two", 2, clonePart=True),
        rename("t", "3", "three", clonePart=True),
        *told(db, "t"),
        ("alter_table", {"dbname": db, "tbl_name": "t", "new_tbl": given(db, "u", f"{db}.db/t")}),
        *told(db, "u"),
        ("alter_table", {"dbname": db, "tbl_name": "u", "new_tbl": given(other, "v", f"{db}.db/u")}),
        *told(other, "v"),
        dropped(other, "v"),
    ]


MOVE_SCRIPTS = {
    "renamed_tables": renamed_tables,
    "renamed_places": renamed_places,
    "moved_data": moved_data,
    "renamed_partitions": renamed_partitions,
    "exchanged": exchanged,
    "refused_exchanges": refused_exchanges,
    "failed": failed,
    "catalogs": catalogs,
    "transactional_renames": transactional_renames,
}
