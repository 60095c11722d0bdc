"""What calls do to directories: the same calls to Hive 4.2.0 and to the embedded metastore, and both file trees.

Every directory has files before a call that may remove, empty or move it. After each step the reply and the whole trees
are compared, after the script the log rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.comparison import first_difference
from tests.embedded.conftest import BACKENDS
from tests.embedded.differential import Step, struct
from tests.embedded.file_scripts import FILE_SCRIPTS, FILL, KINDS, added, made, several_dropped
from tests.embedded.file_trees import Tree, parted
from tests.embedded.move_scripts import MOVE_SCRIPTS
from tests.embedded.overlap_scripts import OVERLAPPING
from tests.embedded.test_like_hive import connected, events, without_ids
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

OWN = FILE_SCRIPTS | MOVE_SCRIPTS


_DESCRIBED = re.compile(rb"(Partition\(values:\[[^]]*\], dbName:[^,]*, tableName:[^,)]*).*", re.DOTALL)


def short(reply: Any) -> Any:
    """A reply whose exception does not print a whole partition, and names no exception of a Java thread."""
    for name, value in reply[1].items() if isinstance(reply, tuple) and isinstance(reply[1], dict) else ():
        if name != "success" and isinstance(value, tuple) and "message" in value[1]:
            value[1]["message"] = _DESCRIBED.sub(rb"\1", value[1]["message"]).removeprefix(b"java.io.IOException: ")
    return reply


class Side:
    """One metastore with its trees."""

    def __init__(self, metastore: Metastore, name: str) -> None:
        self.asked = connected(metastore, name)
        self.tree = Tree(metastore, name, self.asked.elsewhere)
        self._after = self.asked._oracle.do("get_current_notificationEventId").eventId
        self._name = name

    def do(self, step: Step) -> Any:
        """One step; the reply to a call, nothing for the rest."""
        method, arguments = step
        if method == "fill":
            return self.tree.fill()
        if method == "prepare":
            return self.tree.prepare(**arguments)
        return short(self.asked.ask(method, arguments))

    def logged(self) -> Any:
        """Rows of the log, decoded, in a form that can be compared."""
        return without_ids(events(self.asked, self._after, self._name))

    def close(self) -> None:
        self.tree.remove()
        self.asked.close()


@pytest.fixture(scope="module", params=BACKENDS)
def as_hive(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Metastore]:
    """One that removes directories which other objects live in, as Hive does."""
    metastore = bed.private_metastore(request.param, settings={"METASTORE_DELETE_SHARED_DIRECTORIES": "true"})
    yield metastore
    bed.release(metastore)


def compare(hive: Side, ours: Side, steps: list[Step]) -> list[str]:
    """What differs, step by step."""
    found = []
    for number, step in enumerate(steps):
        expected, answered = hive.do(step), ours.do(step)
        what = f"{number} {step[0]}"
        difference = first_difference(expected, answered)
        if difference:
            found.append(f"{what} {difference}")
        if step[0].startswith("get_"):
            continue
        trees = parted(hive.tree.read(), ours.tree.read())
        if trees:
            found += [f"{what}: {line}" for line in trees]
            break  # what follows would differ by this alone
    if not found:
        logged: list[Any] = [hive.logged(), ours.logged()]
        kinds: list[Any] = [[(event[0], event[2]) for event in each] for each in logged]
        difference = first_difference(*kinds) or first_difference(*logged)
        found += [f"log {difference}"] if difference else []
    return found


def check(hms42: Metastore, ours: Metastore, name: str, steps: list[Step]) -> None:
    sides = Side(hms42, name), Side(ours, name)
    steps = [("create_database", {"database": struct("Database", name=name)}), ("fill", {}), *steps]
    found = compare(*sides, steps)
    for side in sides:
        side.close()
    assert not found, "\n".join(found)


@pytest.mark.real
@pytest.mark.parametrize("name", OWN)
def test_files(hms42: Metastore, embedded: Metastore, unique_name: str, name: str) -> None:
    """Objects that have their directories for themselves: the guard changes nothing."""
    check(hms42, embedded, unique_name, OWN[name](unique_name))


@pytest.mark.real
@pytest.mark.parametrize("name", OVERLAPPING)
def test_overlapping_files(hms42: Metastore, as_hive: Metastore, unique_name: str, name: str) -> None:
    """Objects that share directories, without the guard."""
    check(hms42, as_hive, unique_name, OVERLAPPING[name](unique_name))


@pytest.mark.real
def test_a_drop_by_expression(hms42: Metastore, embedded: Metastore, unique_name: str) -> None:
    """The embedded metastore takes a filter's text where Hive takes a Java object: files go as for names with Hive."""
    sides = Side(hms42, unique_name), Side(embedded, unique_name)
    parts = [added(unique_name, "t", p, q) for p in "12" for q in "12"]
    for side in sides:
        side.do(("create_database", {"database": struct("Database", name=unique_name)}))
        for step in [made(unique_name, "t", ("p", "q"), **KINDS["purged"]), *parts, FILL]:
            side.do(step)
    text = struct("RequestPartsSpec", exprs=[struct("DropPartitionsExpr", expr=b'p = "1"')])
    sides[0].do(several_dropped(unique_name, "t", ["p=1/q=1", "p=1/q=2"]))
    request = {"dbName": unique_name, "tblName": "t", "parts": text, "deleteData": True, "ifExists": False}
    reply = sides[1].do(("drop_partitions_req", {"req": struct("DropPartitionsRequest", **request)}))
    trees = [side.tree.read() for side in sides]
    for side in sides:
        side.close()
    assert len(reply[1]["success"][1]["partitions"]) == 2
    assert trees[0] == trees[1] and "external/DB.db/t/p=2/q=1/data" in trees[1]
