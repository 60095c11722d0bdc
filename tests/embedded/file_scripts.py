"""Calls that remove, empty or move files, on objects that have their directories for themselves.

Job: lists of steps, family by family: (method, arguments), and the test's own `fill` and `prepare` (test_files.py).
"""

from __future__ import annotations

from typing import Any

from tests.embedded.acid_scripts import ABLE, FORMATS, FULL
from tests.embedded.differential import ELSEWHERE, Step, struct
from tests.embedded.scripts import descriptor, field, partition, request, table

FILL: Step = ("fill", {})
OUTSIDE = {"EXTERNAL": "TRUE"}
PURGED = {**OUTSIDE, "external.table.purge": "TRUE"}
KINDS: dict[str, dict[str, Any]] = {
    "made": {"tableType": "MANAGED_TABLE"},  # Hive makes it external, with its files as its own
    "purged": {"parameters": PURGED},
    "outside": {"parameters": OUTSIDE},
}


def prepare(what: str, label: str, target: str = "") -> Step:
    """Something at `external/...`, `managed/...` or `elsewhere/...` that no call made."""
    return "prepare", {"what": what, "label": label, "target": target}


def context(**properties: str) -> Any:
    """Properties that a call brings."""
    return struct("EnvironmentContext", properties=properties)


def made(db: str, name: str, keys: tuple[str, ...] = (), where: str | None = None, **fields: Any) -> Step:
    """A table, partitioned by string columns."""
    given = table(db, name, partitionKeys=[field(key) for key in keys], sd=descriptor(location=where), **fields)
    return "create_table", {"tbl": given}


def added(db: str, name: str, *values: str, where: str | None = None, **fields: Any) -> Step:
    """A partition."""
    return "add_partition", {"new_part": partition(db, name, list(values), sd=descriptor(location=where), **fields)}


def told(db: str, name: str) -> list[Step]:
    """A table and its partitions, with locations and parameters."""
    return [
        ("get_table_req", request("GetTableRequest", db, name)),
        ("get_partitions", {"db_name": db, "tbl_name": name, "max_parts": -1}),
    ]


def truncated(db: str, name: str, chosen: list[str] | None) -> Step:
    return "truncate_table", {"dbName": db, "tableName": name, "partNames": chosen}


def truncated_req(db: str, name: str, chosen: list[str] | None = None, **fields: Any) -> Step:
    given = {"dbName": db, "tableName": name, "partNames": chosen, **fields}
    return "truncate_table_req", {"req": struct("TruncateTableRequest", **given)}


def dropped(db: str, name: str, *, data: bool = True, **properties: str) -> Step:
    given = {"dbname": db, "name": name, "deleteData": data, "environment_context": context(**properties)}
    return "drop_table_with_environment_context", given


def truncates(db: str) -> list[Step]:
    """No list, an empty one, names that are there and names that are not."""
    lists: list[list[str] | None] = [
        None, [], ["p=absent/q=1"], ["p=1/q=1", "p=absent/q=1"], ["p=1/q=2", "p=1/q=2"], ["P=1/q=1"], ["p=1"], ["junk"],
        [""],
    ]  # fmt: skip
    steps: list[Step] = []
    for name, fields in KINDS.items():
        steps += [made(db, name, ("p", "q"), **fields), made(db, f"{name}_plain", **fields)]
        steps += [added(db, name, value, other) for value in "12" for other in "12"]
        steps += [prepare("directory", f"external/{db}.db/{name}/p=1/q=1/sub"), FILL]
        for chosen in lists[::-1]:
            steps += [truncated(db, name, chosen), truncated_req(db, name, chosen), FILL]
        for chosen in (None, [], ["p=1/q=1"]):
            steps += [truncated(db, f"{name}_plain", chosen), FILL, truncated_req(db, f"{name}_plain", chosen), FILL]
        steps += told(db, name) + told(db, f"{name}_plain")
    view: dict[str, Any] = {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x", "viewExpandedText": "y"}
    return [
        *steps,
        made(db, "v", **view),
        truncated(db, "v", None),
        truncated(db, "v", []),
        truncated(db, "nope", None),
        truncated("nodb", "nope", None),
        truncated_req(f"@hive#{db}", "made"),
    ]


def truncated_places(db: str) -> list[Step]:
    """Directories that are gone, that are files or links, with blanks and other letters, and what is in them."""
    here = f"external/{db}.db"
    steps: list[Step] = []
    for name in ("gone", "file", "link"):
        steps += [made(db, name, parameters=OUTSIDE), made(db, f"p_{name}", ("p",), parameters=OUTSIDE)]
        steps += [added(db, f"p_{name}", value) for value in "12"]
        steps += [FILL, prepare("gone", f"{here}/{name}"), prepare("gone", f"{here}/p_{name}/p=1")]
    steps += [
        prepare("file", f"{here}/file"),
        prepare("file", f"{here}/p_file/p=1"),
        *(prepare("directory", f"elsewhere/{name}/sub") for name in ("one", "two")),
        prepare("link", f"{here}/link", "elsewhere/one"),
        prepare("link", f"{here}/p_link/p=1", "elsewhere/two"),
        FILL,
    ]
    for name in ("gone", "file", "link"):
        steps += [truncated(db, name, None), truncated(db, f"p_{name}", ["p=2"]), truncated(db, f"p_{name}", ["p=1"])]
    steps += [
        made(db, "trash", parameters={**OUTSIDE, "skip.trash": "true"}),
        made(db, "blank", where=f"{ELSEWHERE}/a b/ü%41/", parameters=OUTSIDE),
        made(db, "dots", where=f"{ELSEWHERE}/x/../y/./z", parameters=OUTSIDE),
        FILL,
        *(truncated(db, name, None) for name in ("trash", "blank", "dots")),
        *(step for name in ("gone", "link", "blank", "dots", "p_link") for step in told(db, name)),
    ]
    return steps


def _dropped_req(db: str, name: str, **fields: Any) -> Step:
    given = {"catalogName": "hive", "dbName": db, "tableName": name} | fields
    return "drop_table_req", {"dropTableReq": struct("DropTableRequest", **given)}


def drops(db: str) -> list[Step]:
    """Tables, with partitions inside and outside of them."""
    steps: list[Step] = []
    calls: dict[str, Any] = {
        "plain": lambda name: ("drop_table", {"dbname": db, "name": name, "deleteData": True}),
        "kept": lambda name: ("drop_table", {"dbname": db, "name": name, "deleteData": False}),
        "purge": lambda name: dropped(db, name, ifPurge="TRUE"),
        "context": lambda name: dropped(db, name, data=False, ifPurge="TRUE"),
        "req": lambda name: _dropped_req(db, name, deleteData=True, dropPartitions=True),
        "bare_req": lambda name: _dropped_req(db, name, catalogName=None, deleteData=True, dropPartitions=True),
        "kept_req": lambda name: _dropped_req(db, name, dropPartitions=True),
    }
    for how, call in calls.items():
        for kind, fields in KINDS.items():
            name = f"{kind}_{how}"
            steps += [
                made(db, name, ("p",), **fields),
                added(db, name, "1"),
                added(db, name, "2", where=f"{ELSEWHERE}/{name}"),
                added(db, name, "3", where=f"{ELSEWHERE}/{name}_gone"),
                FILL,
                prepare("gone", f"elsewhere/{name}_gone"),
                call(name),
                call(name),
            ]
    view: dict[str, Any] = {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x", "viewExpandedText": "y"}
    return [*steps, made(db, "v", **view), dropped(db, "v"), dropped(db, "nope"), dropped("nodb", "nope")]


def dropped_places(db: str) -> list[Step]:
    """Tables whose directories are gone, files, links, or written in other ways."""
    here = f"external/{db}.db"
    steps: list[Step] = []
    for name in ("gone", "file", "link", "inner"):
        steps += [made(db, name, tableType="MANAGED_TABLE"), FILL, prepare("gone", f"{here}/{name}")]
    steps += [
        prepare("file", f"{here}/file"),
        prepare("directory", "elsewhere/one/sub"),
        prepare("link", f"{here}/link", "elsewhere/one"),
        prepare("directory", f"{here}/inner"),
        prepare("link", f"{here}/inner/in", "elsewhere/one"),
        made(db, "through", where=f"{ELSEWHERE}/via/t", parameters=PURGED),
        FILL,
        prepare("link", "elsewhere/linked", "elsewhere/via"),
        made(db, "by_link", where=f"{ELSEWHERE}/linked/u", parameters=PURGED),
        made(db, "slash", where=f"{ELSEWHERE}/slash//a/", parameters=PURGED),
        made(db, "blank", where=f"{ELSEWHERE}/a b/ü%41=", parameters=PURGED),
        made(db, "dots", where=f"{ELSEWHERE}/x/../y/./z", parameters=PURGED),
        made(db, "quoted", where=f"{ELSEWHERE}/it's_%_x", parameters=PURGED),
        FILL,
    ]
    names = ("gone", "file", "link", "inner", "through", "by_link", "slash", "blank", "dots", "quoted")
    return [*steps, *(told(db, name)[0] for name in names), *(dropped(db, name) for name in names)]


def several_dropped(db: str, name: str, chosen: Any, **fields: Any) -> Step:
    parts = struct("RequestPartsSpec", names=chosen)
    given = {"parts": parts, "deleteData": True, "ifExists": True, "needResult": True} | fields
    return "drop_partitions_req", request("DropPartitionsRequest", db, name, **given)


def dropped_partitions(db: str) -> list[Step]:
    """One by one and several, by values, name and request; with the directories above that are empty then."""
    steps: list[Step] = []
    of = {"db_name": db}

    for name, fields in KINDS.items():
        mine = {**of, "tbl_name": name}
        purge = {"environment_context": context(ifPurge="true")}
        steps += [
            made(db, name, ("p", "q", "r"), **fields),
            *(added(db, name, "1", q, r) for q in "12" for r in "12345"),
            added(db, name, "2", "1", "1"),
            added(db, name, "3", "1", "1", where=f"{ELSEWHERE}/{name}/far/away"),
            added(db, name, "4", "1", "1"),
            added(db, name, "5", "1", "1"),
            prepare("file", f"external/{db}.db/{name}/p=1/q=1/r=1/data"),
            prepare("file", f"external/{db}.db/{name}/p=1/q=1/r=2/data"),
            ("drop_partition", {**mine, "part_vals": ["1", "1", "1"], "deleteData": True}),
            ("drop_partition", {**mine, "part_vals": ["1", "1", "1"], "deleteData": True}),
            ("drop_partition", {**mine, "part_vals": ["1", "1", "2"], "deleteData": False}),
            ("drop_partition_by_name", {**mine, "part_name": "p=1/q=1/r=3", "deleteData": True}),
            ("drop_partition_by_name", {**mine, "part_name": "P=1/q=1/r=4", "deleteData": True}),
            ("drop_partition_with_environment_context",
             {**mine, "part_vals": ["1", "1", "4"], "deleteData": True, **purge}),
            ("drop_partition_by_name_with_environment_context",
             {**mine, "part_name": "p=1/q=1/r=5", "deleteData": True, **purge}),
            ("drop_partition_req", {"dropPartitionReq": struct(
                "DropPartitionRequest", dbName=db, tblName=name, partVals=["1", "2", "1"], deleteData=True)}),
            ("drop_partition_req", {"dropPartitionReq": struct(
                "DropPartitionRequest", catName="hive", dbName=db, tblName=name, partVals=["1", "2", "1"],
                deleteData=True)}),
            ("drop_partition_req", {"dropPartitionReq": struct(
                "DropPartitionRequest", catName="hive", dbName=db, tblName=name, partName="p=1/q=2/r=2")}),
            several_dropped(db, name, ["p=1/q=2/r=3", "p=absent/q=2/r=3"], ifExists=False),
            several_dropped(db, name, ["p=1/q=2/r=3", "p=1/q=2/r=3"], ifExists=False),
            several_dropped(db, name, ["p=1/q=2/r=3", "p=1/q=2/r=3", "p=absent/q=2/r=3"]),
            several_dropped(db, name, []),
            several_dropped(db, name, ["p=1/q=2/r=4", "p=1/q=2/r=5"], needResult=False),
            several_dropped(db, name, ["p=2/q=1/r=1"], deleteData=False),
            ("drop_partition", {**mine, "part_vals": ["3", "1", "1"], "deleteData": True}),
            FILL,
            several_dropped(db, name, ["p=4/q=1/r=1"], environmentContext=context(ifPurge="true")),
            ("drop_partition", {**mine, "part_vals": ["5", "1", "1"], "deleteData": True}),
        ]  # fmt: skip
    return steps + [step for name in KINDS for step in told(db, name)]


def archived(db: str) -> list[Step]:
    """Partitions that say they are archived: what they were made of goes, or nothing."""
    steps: list[Step] = [made(db, "a", ("p", "q"), tableType="MANAGED_TABLE")]
    for number, where in enumerate((f"{ELSEWHERE}/origin", None)):
        says = {"is_archived": "true"} | ({"original_location": where} if where else {})
        steps += [
            added(db, "a", str(number), "1", parameters=says),
            prepare("directory", f"elsewhere/origin{number}"),
            FILL,
            ("drop_partition", {"db_name": db, "tbl_name": "a", "part_vals": [str(number), "1"], "deleteData": True}),
        ]
    return steps


def databases(db: str) -> list[Step]:
    """Databases with all that is in them, and with directories of their own."""
    steps: list[Step] = []

    def database(name: str, **fields: Any) -> Step:
        return "create_database", {"database": struct("Database", name=name, **fields)}

    def full(name: str) -> list[Step]:
        return [
            made(name, "m", ("p",), tableType="MANAGED_TABLE"),
            added(name, "m", "1"),
            added(name, "m", "2", where=f"{ELSEWHERE}/{name}/part"),
            made(name, "far", where=f"{ELSEWHERE}/{name}/far", tableType="MANAGED_TABLE"),
            made(name, "purged", where=f"{ELSEWHERE}/{name}/purged", parameters=PURGED),
            made(name, "outside", where=f"{ELSEWHERE}/{name}/outside", parameters=OUTSIDE),
            made(name, "in", parameters=OUTSIDE),
            acid_table(name, "acid", f"{ELSEWHERE}/{name}/acid"),
            acid_table(name, "own"),
            prepare("directory", f"managed/{name}.db/x"),
            FILL,
        ]

    ways: list[dict[str, Any]] = [
        {"deleteData": True, "cascade": False},
        {"deleteData": False, "cascade": True},
        {"deleteData": True, "cascade": True},
    ]
    for number, way in enumerate(ways):
        name = f"{db}_{number}"
        steps += [database(name), *full(name), ("drop_database", {"name": name, **way})]
        steps += [("drop_database", {"name": name, **way})]
    for number, way in enumerate([*ways, {**ways[2], "deleteManagedDir": False}], 4):
        name = f"{db}_{number}"
        places = {"locationUri": f"{ELSEWHERE}/{name}_db", "managedLocationUri": f"{ELSEWHERE}/{name}_mgd"}
        given = {"ignoreUnknownDb": False, **way}
        steps += [
            database(name, **places),
            *full(name),
            ("drop_database_req", {"req": struct("DropDatabaseRequest", name=name, catalogName="hive", **given)}),
        ]
    return steps


def acid_table(db: str, name: str, where: str | None = None, keys: tuple[str, ...] = ()) -> Step:
    sd = descriptor(location=where, **FORMATS)
    fields = {"tableType": "MANAGED_TABLE", "parameters": FULL, "partitionKeys": [field(key) for key in keys]}
    return "create_table_req", {"request": struct("CreateTableRequest", table=table(db, name, sd=sd, **fields), **ABLE)}


def transactional(db: str) -> list[Step]:
    """Tables with transactions: files go, or a base directory says that what is older does not count."""
    of = {"db_name": db, "tbl_name": "p"}
    skips: dict[str, Any] = {"environmentContext": context(truncateSkipDataDeletion="true")}
    writes = {"environment_context": context(writeId="3")}
    several = {"deleteData": False, "environmentContext": context(writeId="4")}
    valid: dict[str, Any] = {"validWriteIdList": f"{db}.t:9:9223372036854775807::"}
    steps: list[Step] = [acid_table(db, "t"), acid_table(db, "p", keys=("p",))]
    steps += [added(db, "p", value) for value in "1234567"]
    return [
        *steps,
        FILL,
        truncated_req(db, "t", writeId=1, **valid),
        truncated(db, "t", None),
        truncated(db, "p", ["p=1"]),
        FILL,
        truncated_req(db, "t", **skips, writeId=2, **valid),
        truncated_req(db, "p", ["p=2"], **skips, writeId=2),
        truncated_req(db, "p", ["p=2"], **skips, writeId=3, **valid),
        ("drop_partition_with_environment_context", {**of, "part_vals": ["3"], "deleteData": False, **writes}),
        ("drop_partition_with_environment_context", {**of, "part_vals": ["4"], "deleteData": True, **writes}),
        ("drop_partition", {**of, "part_vals": ["5"], "deleteData": False}),
        several_dropped(db, "p", ["p=6"], **several),
        *told(db, "t"),
        *told(db, "p"),
        dropped(db, "t"),
        dropped(db, "p"),
    ]


FILE_SCRIPTS = {
    "truncates": truncates,
    "truncated_places": truncated_places,
    "drops": drops,
    "dropped_places": dropped_places,
    "dropped_partitions": dropped_partitions,
    "archived": archived,
    "databases": databases,
    "transactional": transactional,
}
