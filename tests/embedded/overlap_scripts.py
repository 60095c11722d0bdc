"""Calls on objects whose directories are the same, or lie in one another's, as Hive carries them out.

Job: lists of steps, as in file_scripts.py. Hive knows no guard: whatever lies in a directory goes with it.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import ELSEWHERE, EXTERNAL, Step, struct
from tests.embedded.file_scripts import (
    FILL,
    KINDS,
    OUTSIDE,
    PURGED,
    added,
    dropped,
    made,
    prepare,
    several_dropped,
    told,
    truncated,
)
from tests.embedded.move_scripts import TRANSLATED, altered
from tests.embedded.scripts import descriptor, partition

GONE: dict[str, Any] = {"deleteData": True}


def one_directory(db: str) -> list[Step]:
    """Two tables in one place, by one path, by another spelling, and by a link."""
    steps: list[Step] = []
    ways = {"same": "same", "slash": "slash//", "dots": "x/../dots", "link": "linked"}
    for name, path in ways.items():
        if name == "link":
            steps += [prepare("directory", "elsewhere/link"), prepare("link", "elsewhere/linked", "elsewhere/link")]
        for number, where in enumerate((name, path, path)):
            steps += [made(db, f"{name}{number}", where=f"{ELSEWHERE}/{where}", parameters=PURGED)]
        steps += [FILL, truncated(db, f"{name}1", None), FILL, dropped(db, f"{name}2"), *told(db, f"{name}1")]
        steps += [truncated(db, f"{name}1", None), FILL, dropped(db, f"{name}0"), dropped(db, f"{name}1")]
    return steps


def inside(db: str) -> list[Step]:
    """A table in another one's directory, a database in a table's, a table in a partition's."""
    other = f"{db}_in"
    place = {"locationUri": f"{ELSEWHERE}/outer/db"}
    return [
        made(db, "outer", ("p",), where=f"{ELSEWHERE}/outer", parameters=PURGED),
        added(db, "outer", "1"),
        made(db, "inner", where=f"{ELSEWHERE}/outer/inner", parameters=PURGED),
        made(db, "deep", where=f"{ELSEWHERE}/outer/p=1/deep", parameters=OUTSIDE),
        ("create_database", {"database": struct("Database", name=other, **place)}),
        made(other, "t", parameters=OUTSIDE),
        FILL,
        truncated(db, "inner", None),
        truncated(db, "outer", ["p=1"]),
        truncated(db, "deep", None),
        FILL,
        dropped(db, "inner"),
        ("drop_partition", {"db_name": db, "tbl_name": "outer", "part_vals": ["1"], **GONE}),
        FILL,
        dropped(db, "outer"),
        *told(other, "t"),
        ("drop_database", {"name": other, **GONE, "cascade": True}),
    ]


def partitions(db: str) -> list[Step]:
    """Partitions in each other's directories, in other tables', and at the place of their own table."""
    steps: list[Step] = [made(db, "far", where=f"{ELSEWHERE}/far", parameters=OUTSIDE)]
    for kind, fields in KINDS.items():
        root = f"{EXTERNAL}/{db}.db/{kind}"
        of = {"db_name": db, "tbl_name": kind}
        steps += [
            made(db, kind, ("p",), **fields),
            *(added(db, kind, value) for value in "12345"),
            added(db, kind, "same", where=f"{root}/p=1"),
            added(db, kind, "below", where=f"{root}/p=2/below"),
            added(db, kind, "root", where=root),
            added(db, kind, "other", where=f"{ELSEWHERE}/far"),
            FILL,
            truncated(db, kind, ["p=same"]),
            FILL,
            truncated(db, kind, ["p=below"]),
            ("drop_partition", {**of, "part_vals": ["same"], **GONE}),
            several_dropped(db, kind, ["p=2", "p=absent"]),
            FILL,
            ("drop_partition", {**of, "part_vals": ["other"], **GONE}),
            *told(db, kind),
            ("drop_partition", {**of, "part_vals": ["root"], **GONE}),
            *told(db, kind),
            FILL,
            dropped(db, kind),
        ]
    return steps


def moves(db: str) -> list[Step]:
    """Renames and exchanges of directories that others live in."""
    fields: dict[str, Any] = {"parameters": TRANSLATED}
    here = f"{EXTERNAL}/{db}.db"
    of = {"source_db": db, "source_table_name": "s", "dest_db": db, "dest_table_name": "d"}
    after = partition(db, "parts", ["one"], sd=descriptor(location=f"{here}/parts/p=1"))
    return [
        made(db, "t", **KINDS["made"]),
        made(db, "guest", where=f"{here}/t/guest", parameters=OUTSIDE),
        made(db, "twin", where=f"{here}/t", parameters=OUTSIDE),
        FILL,
        altered(db, "t", "u", f"{here}/t", fields=fields),
        *(step for name in ("u", "guest", "twin") for step in told(db, name)),
        made(db, "parts", ("p",), **KINDS["made"]),
        added(db, "parts", "1"),
        added(db, "parts", "2", where=f"{here}/parts/p=1/two"),
        FILL,
        ("rename_partition", {"db_name": db, "tbl_name": "parts", "part_vals": ["1"], "new_part": after}),
        *told(db, "parts"),
        *(made(db, name, ("p",), parameters=OUTSIDE) for name in "sd"),
        added(db, "s", "1"),
        made(db, "in_s", where=f"{here}/s/p=1/in", parameters=OUTSIDE),
        FILL,
        ("exchange_partitions", {"partitionSpecs": {"p": "1"}, **of}),
        *told(db, "d"),
    ]


def databases(db: str) -> list[Step]:
    """Databases in one directory, and one that holds another database's tables."""
    steps: list[Step] = []
    for name in ("a", "b"):
        place = {"locationUri": f"{ELSEWHERE}/shared"}
        steps += [("create_database", {"database": struct("Database", name=f"{db}_{name}", **place)})]
        steps += [made(f"{db}_{name}", f"t{name}", **KINDS["made"])]
    steps += [
        ("create_database", {"database": struct("Database", name=f"{db}_c")}),
        made(db, "guest", where=f"{EXTERNAL}/{db}_c.db/guest", parameters=OUTSIDE),
        FILL,
        ("drop_database", {"name": f"{db}_a", **GONE, "cascade": True}),
        *told(f"{db}_b", "tb"),
        ("drop_database", {"name": f"{db}_c", **GONE, "cascade": False}),
        *told(db, "guest"),
    ]
    return steps


OVERLAPPING = {
    "one_directory": one_directory,
    "inside": inside,
    "partitions": partitions,
    "moves": moves,
    "databases": databases,
}
