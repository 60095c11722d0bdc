"""Directories that several objects live in: what the embedded metastore keeps, and what Hive does there.

The guard is one of two ways in which the embedded metastore treats files otherwise than Hive 4.2 (docs/metastore.md):
the other is that a truncation which fails empties nothing. With `metastore.delete_shared_directories`, and for objects
that have their directories for themselves, test_files.py shows that there is no difference.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.differential import ELSEWHERE, EXTERNAL, Step, struct
from tests.embedded.file_scripts import (
    FILL,
    KINDS,
    OUTSIDE,
    PURGED,
    acid_table,
    added,
    context,
    dropped,
    made,
    prepare,
    truncated,
    truncated_req,
)
from tests.embedded.move_scripts import TRANSLATED, altered
from tests.embedded.random_run import HALF_DONE
from tests.embedded.scripts import descriptor, partition
from tests.embedded.test_files import Side
from tests.testbed.metastore import Metastore

DROPPED: dict[str, Any] = {"deleteData": True}


@dataclass(frozen=True)
class Case:
    """Objects whose directories overlap, a call on one of them, and the directory that is kept for another's sake."""

    objects: Callable[[str], list[Step]]
    call: Callable[[str], Step]
    kept: str
    of: str
    holds: str


def _two(db: str, where: str, other: str) -> list[Step]:
    steps = [made(db, "t", ("p",), where=where, parameters=PURGED), added(db, "t", "1")]
    return [*steps, made(db, "guest", where=other, parameters=OUTSIDE)]


def _linked(db: str) -> list[Step]:
    return [
        prepare("directory", "elsewhere/real/t"),
        prepare("link", "elsewhere/link", "elsewhere/real"),
        *_two(db, f"{ELSEWHERE}/real/t", f"{ELSEWHERE}/link/t"),
    ]


def _linked_partition(db: str) -> list[Step]:
    """A partition of a table that is reached through a link lies in another partition's directory."""
    return [
        prepare("directory", "elsewhere/real"),
        prepare("link", "elsewhere/link", "elsewhere/real"),
        made(db, "t", ("p",), where=f"{ELSEWHERE}/real", parameters=PURGED),
        added(db, "t", "1"),
        made(db, "guest", ("p",), where=f"{ELSEWHERE}/link", parameters=OUTSIDE),
        added(db, "guest", "1"),
    ]


def _partitions(db: str) -> list[Step]:
    root = f"{ELSEWHERE}/t"
    return [
        made(db, "t", ("p",), where=root, parameters=PURGED),
        added(db, "t", "1"),
        added(db, "t", "2", where=f"{root}/p=1/2"),
        added(db, "t", "root", where=root),
    ]


def _spelled(db: str) -> list[Step]:
    """A partition's location is stored as it was sent, when several are altered at once."""
    after = partition(db, "guest", ["1"], sd=descriptor(location=f"{ELSEWHERE}/x/../t/p=1"))
    return [
        made(db, "t", ("p",), where=f"{ELSEWHERE}/t", parameters=PURGED),
        added(db, "t", "1"),
        made(db, "guest", ("p",), parameters=OUTSIDE),
        added(db, "guest", "1"),
        ("alter_partitions", {"db_name": db, "tbl_name": "guest", "new_parts": [after]}),
    ]


def _moved(db: str) -> list[Step]:
    here = f"{EXTERNAL}/{db}.db/t"
    return [
        made(db, "t", ("p",), **KINDS["made"]),
        added(db, "t", "1"),
        made(db, "guest", where=f"{here}/p=1/guest", parameters=OUTSIDE),
        made(db, "d", ("p",), parameters=OUTSIDE),
    ]


def _beside(db: str) -> list[Step]:
    """A link to a partition's directory lies beside it: in the directory that goes with it if it is empty then."""
    return [
        prepare("directory", "elsewhere/real"),
        prepare("link", "elsewhere/link", "elsewhere/real"),
        made(db, "t", ("p", "q"), where=f"{ELSEWHERE}/t", parameters=PURGED),
        added(db, "t", "1", "2", where=f"{ELSEWHERE}/real"),
        made(db, "guest", where=f"{ELSEWHERE}/link", parameters=OUTSIDE),
    ]


def _nested(db: str) -> list[Step]:
    """Two partitions that go at once lie in each other, and the guest in the inner one."""
    return [
        made(db, "t", ("p",), where=f"{ELSEWHERE}/mine", parameters=PURGED),
        added(db, "t", "1", where=f"{ELSEWHERE}/t"),
        added(db, "t", "2", where=f"{ELSEWHERE}/t/in"),
        made(db, "guest", where=f"{ELSEWHERE}/t/in", parameters=OUTSIDE),
    ]


def _databases(db: str) -> list[Step]:
    place = {"locationUri": f"{ELSEWHERE}/shared"}
    names = (f"{db}_a", f"{db}_b")
    return [("create_database", {"database": struct("Database", name=name, **place)}) for name in names]


def _one(db: str, value: str) -> Step:
    return "drop_partition", {"db_name": db, "tbl_name": "t", "part_vals": [value], **DROPPED}


REMOVALS: dict[str, Case] = {
    "table, same place": Case(
        lambda db: _two(db, f"{ELSEWHERE}/t", f"{ELSEWHERE}//t/"),
        lambda db: dropped(db, "t"),
        "elsewhere/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
    "table, inside": Case(
        lambda db: _two(db, f"{ELSEWHERE}/t", f"{ELSEWHERE}/x/../t/in/side"),
        lambda db: dropped(db, "t", ifPurge="true"),
        "elsewhere/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
    "table, by a link": Case(
        _linked, lambda db: dropped(db, "t"), "elsewhere/real/t", "table hive.DB.t", "table hive.DB.guest"
    ),
    "partition, by a link": Case(
        _linked_partition,
        lambda db: _one(db, "1"),
        "elsewhere/real/p=1",
        "partition p=1 of table hive.DB.t",
        "partition p=1 of hive.DB.guest",
    ),
    "partition, by a link beside it": Case(
        _beside,
        lambda db: (
            "drop_partition_by_name", {"db_name": db, "tbl_name": "t", "part_name": "p=1/q=2", **DROPPED},
        ),
        "elsewhere/real",
        "partition p=1/q=2 of table hive.DB.t",
        "table hive.DB.guest",
    ),
    "partitions, in each other": Case(
        _nested,
        lambda db: dropped(db, "t"),
        "elsewhere/t",
        "a partition of table hive.DB.t",
        "table hive.DB.guest",
    ),
    "partition, spelled otherwise": Case(
        _spelled,
        lambda db: _one(db, "1"),
        "elsewhere/t/p=1",
        "partition p=1 of table hive.DB.t",
        "partition p=1 of hive.DB.guest",
    ),
    "partition, inside": Case(
        _partitions,
        lambda db: _one(db, "1"),
        "elsewhere/t/p=1",
        "partition p=1 of table hive.DB.t",
        "partition p=2 of hive.DB.t",
    ),
    "partition, its table's place": Case(
        _partitions,
        lambda db: _one(db, "root"),
        "elsewhere/t",
        "partition p=root of table hive.DB.t",
        "table hive.DB.t",
    ),
    "rename of a table": Case(
        _moved,
        lambda db: altered(db, "t", "u", f"{EXTERNAL}/{db}.db/t", keys=("p",), fields={"parameters": TRANSLATED}),
        "external/DB.db/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
    "rename of a partition": Case(
        _moved,
        lambda db: (
            "rename_partition",
            {
                "db_name": db,
                "tbl_name": "t",
                "part_vals": ["1"],
                "new_part": partition(db, "t", ["2"], sd=descriptor(location=f"{ELSEWHERE}/sent")),
            },
        ),
        "external/DB.db/t/p=1",
        "partition p=1 of table hive.DB.t",
        "table hive.DB.guest",
    ),
    "exchange": Case(
        _moved,
        lambda db: (
            "exchange_partitions",
            {
                "partitionSpecs": {"p": "1"},
                "source_db": db,
                "source_table_name": "t",
                "dest_db": db,
                "dest_table_name": "d",
            },
        ),
        "external/DB.db/t/p=1",
        "partitions of table hive.DB.t",
        "table hive.DB.guest",
    ),
    "database": Case(
        _databases,
        lambda db: ("drop_database", {"name": f"{db}_a", **DROPPED, "cascade": True}),
        "elsewhere/shared",
        "database hive.DB_a",
        "database hive.DB_b",
    ),
    "data that was moved": Case(
        lambda db: _two(db, f"{ELSEWHERE}/t", f"{ELSEWHERE}/t/in"),
        lambda db: altered(
            db, "t", "t", f"{ELSEWHERE}/new", keys=("p",), fields={"parameters": PURGED},
            REPL_DATA_LOCATION_CHANGED="true",
        ),
        "elsewhere/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
}  # fmt: skip


@pytest.fixture
def sides(hms42: Metastore, embedded: Metastore, unique_name: str) -> Iterator[tuple[Side, Side]]:
    """Hive's and the embedded metastore's, with a database of the test's own."""
    both = Side(hms42, unique_name), Side(embedded, unique_name)
    for side in both:
        side.do(("create_database", {"database": struct("Database", name=unique_name)}))
    yield both
    for side in both:
        side.close()


def everything(side: Side, db: str) -> list[Any]:
    """All tables and partitions of a database, if it is there."""
    listed = side.asked.value("get_all_tables", {"db_name": db}) or []
    found = []
    for name in sorted(each.decode() for each in listed):
        found.append(side.do(("get_table_req", {"req": struct("GetTableRequest", dbName=db, tblName=name)})))
        found.append(side.do(("get_partitions", {"db_name": db, "tbl_name": name, "max_parts": -1})))
    return found


def warnings(metastore: Metastore, kept: Path) -> list[dict[str, str]]:
    """What the lines of the log say which tell that a directory is kept."""
    lines = [line for line in metastore.log.read_text().splitlines() if "[warning  ] a directory is kept" in line]
    told = [dict(word.split("=", 1) for word in shlex.split(line) if "=" in word[1:]) for line in lines]
    return [each for each in told if each["directory"] == str(kept)]


@pytest.mark.real
@pytest.mark.parametrize("name", REMOVALS)
def test_a_directory_is_kept(sides: tuple[Side, Side], embedded: Metastore, unique_name: str, name: str) -> None:
    """Rows, reply and log are Hive's; the directory stays with all that is in it; a warning names both objects."""
    case, (hive, ours) = REMOVALS[name], sides
    for side in sides:
        for step in [*case.objects(unique_name), FILL]:
            side.do(step)
    kept = case.kept
    before = [side.tree.read() for side in sides]
    replies = [side.do(case.call(unique_name)) for side in sides]
    after = [side.tree.read() for side in sides]
    assert replies[0] == replies[1]
    assert everything(hive, unique_name) == everything(ours, unique_name)
    assert hive.logged() == ours.logged()
    inside = {label for label in before[1] if f"{label}/".startswith(f"{kept}/")}
    assert inside and inside - after[0].keys()  # Hive removes or moves it
    assert {label: before[1][label] for label in inside} == {label: after[1].get(label) for label in inside}
    (warning,) = warnings(embedded, ours.tree.path(kept))
    told = {key: warning[key].replace(unique_name, "DB") for key in ("of", "holds")}
    assert told == {"of": case.of, "holds": case.holds}


TRUNCATIONS: dict[str, Case] = {
    "table, same place": Case(
        lambda db: [made(db, name, where=f"{ELSEWHERE}/t", parameters=OUTSIDE) for name in ("t", "guest")],
        lambda db: truncated(db, "t", None),
        "elsewhere/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
    "partition, its table's place": Case(
        _partitions,
        lambda db: truncated(db, "t", ["p=root"]),
        "elsewhere/t",
        "table hive.DB.t",
        "table hive.DB.t",
    ),
    "partition, inside": Case(
        _partitions,
        lambda db: truncated_req(db, "t", ["p=1"]),
        "elsewhere/t/p=1",
        "table hive.DB.t",
        "partition p=2 of hive.DB.t",
    ),
    "table, by a link": Case(
        lambda db: [
            prepare("directory", "elsewhere/real/t"),
            prepare("link", "elsewhere/link", "elsewhere/real"),
            made(db, "t", where=f"{ELSEWHERE}/link/t", parameters=OUTSIDE),
            made(db, "guest", where=f"{ELSEWHERE}/real/t/in", parameters=OUTSIDE),
        ],
        lambda db: truncated(db, "t", None),
        "elsewhere/real/t",
        "table hive.DB.t",
        "table hive.DB.guest",
    ),
}


@pytest.mark.real
@pytest.mark.parametrize("name", TRUNCATIONS)
def test_a_truncation_is_refused(sides: tuple[Side, Side], unique_name: str, name: str) -> None:
    """Before anything changes: files, rows and log are as before. Hive empties the directory."""
    case, (hive, ours) = TRUNCATIONS[name], sides
    for side in sides:
        for step in [*case.objects(unique_name), FILL]:
            side.do(step)
    before = ours.tree.read(), everything(ours, unique_name), ours.logged()
    hives = hive.tree.read()
    assert "o1" not in hive.do(case.call(unique_name))[1]
    assert hives.keys() > hive.tree.read().keys()
    reply = ours.do(case.call(unique_name))
    kind, fields = reply[1]["o1"]
    assert kind == "MetaException"
    message = fields["message"].decode()
    begins = f"{case.of} is not truncated: {case.holds} lives in its directory"
    assert message.startswith(begins) and "metastore.delete_shared_directories" in message
    assert before == (ours.tree.read(), everything(ours, unique_name), ours.logged())


def test_all_partitions_may_share_their_table_s_directories(sides: tuple[Side, Side], unique_name: str) -> None:
    """A truncation without a list names them all."""
    for side in sides:
        for step in [made(unique_name, "t", ("p",), parameters=OUTSIDE), added(unique_name, "t", "1")]:
            side.do(step)
        side.do(added(unique_name, "t", "2", where=f"{EXTERNAL}/{unique_name}.db/t/p=1"))
        side.do(FILL)
        assert "o1" not in side.do(truncated(unique_name, "t", None))[1]
    assert sides[0].tree.read() == sides[1].tree.read()


FAILING: dict[str, Callable[[str], tuple[list[Step], Step]]] = {
    "a partition's directory is gone": lambda db: (
        [
            made(db, "t", ("p",), parameters=OUTSIDE),
            *(added(db, "t", value) for value in "12"),
            FILL,
            prepare("gone", f"external/{db}.db/t/p=2"),
        ],
        truncated(db, "t", ["p=2", "p=1"]),
    ),
    "a partition lies in another's directory": lambda db: (
        [
            made(db, "t", ("p",), parameters=OUTSIDE),
            added(db, "t", "1"),
            added(db, "t", "2", where=f"{EXTERNAL}/{db}.db/t/p=1/2"),
            FILL,
        ],
        truncated(db, "t", ["p=1", "p=2"]),
    ),
    "no write of a transaction": lambda db: ([acid_table(db, "t"), FILL], truncated(db, "t", None)),
    "no write of a transaction, and files are kept": lambda db: (
        [acid_table(db, "t"), FILL],
        truncated_req(db, "t", writeId=2, environmentContext=context(truncateSkipDataDeletion="true")),
    ),
}


@pytest.mark.real
@pytest.mark.parametrize("name", FAILING)
def test_a_truncation_that_fails_changes_no_files(sides: tuple[Side, Side], unique_name: str, name: str) -> None:
    """Hive has changed some when it finds out; the reply is the same."""
    hive, ours = sides
    steps, call = FAILING[name](unique_name)
    for side in sides:
        for step in steps:
            side.do(step)
    before = hive.tree.read(), ours.tree.read()
    assert before[0] == before[1]
    replies = hive.do(call), ours.do(call)
    assert replies[0] == replies[1] and "o1" in replies[0][1]
    assert hive.tree.read() != before[0]
    assert ours.tree.read() == before[1]


EXCHANGES = ("exchange_partition", "exchange_partitions")


@pytest.mark.real
@pytest.mark.parametrize("method", EXCHANGES)
def test_an_exchange_that_fails_changes_no_files(sides: tuple[Side, Side], unique_name: str, method: str) -> None:
    """Likewise: Hive has made the directory above the one that it cannot move."""
    hive, ours = sides
    tables = (made(unique_name, name, ("p", "q"), parameters=OUTSIDE) for name in "sd")
    steps = [*tables, added(unique_name, "s", "1", "1"), prepare("gone", f"external/{unique_name}.db/s/p=1/q=1")]
    places = {"source_db": unique_name, "source_table_name": "s", "dest_db": unique_name, "dest_table_name": "d"}
    for side in sides:
        for step in steps:
            side.do(step)
    before = hive.tree.read(), ours.tree.read()
    assert before[0] == before[1]
    call = (method, {"partitionSpecs": {"p": "1", "q": "1"}, **places})
    replies = hive.do(call), ours.do(call)
    assert replies[0] == replies[1] and "success" not in replies[0][1]
    assert hive.tree.read().keys() - before[0].keys() == {"external/DB.db/d/p=1"}
    assert ours.tree.read() == before[1]


def test_these_are_the_calls_that_hive_leaves_half_done() -> None:
    """What random calls pass over is shown by the tests above to be so, and nothing else is passed over."""
    assert {failing("db")[1][0] for failing in FAILING.values()} | {*EXCHANGES} == {*HALF_DONE}
