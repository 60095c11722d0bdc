"""What a write changes is seen at once through the proxy, by whichever call it is made (at_once.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hive_metastore.ttypes import Database, GetTableRequest, SQLForeignKey

from tests.chance import run_seed, told
from tests.differential import variants
from tests.differential.at_once import KINDS, SETTINGS, AtOnce, ChangesAtOnce
from tests.differential.constraints import ROWS, SWITCHES, constraint
from tests.differential.contents import TableNote, fill, table
from tests.differential.variants import Variants
from tests.differential.writer import call, method_of
from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection

SEED = run_seed()
WRITES = int(by_tier(test=20, all=60, every=300))
Make = Callable[..., AtOnce]


@pytest.fixture
def at_once(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> Iterator[Make]:
    """`at_once(flavour)`: a proxy in front of a metastore with a few tables."""
    with ExitStack() as stack:

        def make(flavour: str, **options: Any) -> AtOnce:
            metastore = new_metastore(flavour)
            client = stack.enter_context(MetastoreClient(*metastore.address))
            direct = stack.enter_context(RawConnection(*metastore.address))
            world = fill(client, "once", SEED, databases=2, tables=2, kinds=KINDS, partitions=2)
            proxy = new_proxy(metastore, settings=SETTINGS, **options)
            proxy.wait_event(int(client.get_current_notificationEventId().eventId))
            through = stack.enter_context(MetastoreClient(*proxy.address))
            version = metastore.flavour.version
            logged = not version.startswith("3.")
            changes = ChangesAtOnce(world, through, statistics_are_logged=logged, version=version)
            return AtOnce(proxy, direct, world, changes, version)

        yield make


def check(found: AtOnce) -> None:
    assert not found.differences, told("\n".join([found.summary(), *found.differences[:5]]))


def each_way(found: AtOnce, name: str, ways: Variants) -> None:
    """The write is made in this way, through the proxy, and everything read."""

    def act() -> str:
        call(found.changes.through, method_of(name), ways[name])
        return name

    found.after(act)


def first_column(found: AtOnce, note: TableNote) -> Any:
    request = GetTableRequest(dbName=note.database, tblName=note.name)
    return found.changes.through.get_table_req(request).table.sd.cols[0]


def foreign_key(parent: tuple[str, str], child: tuple[str, str], name: str) -> SQLForeignKey:
    """From the first column of a table to that of another."""
    return SQLForeignKey(
        pktable_db=parent[0],
        pktable_name=parent[1],
        pkcolumn_name="c0",
        fktable_db=child[0],
        fktable_name=child[1],
        fkcolumn_name="c0",
        key_seq=1,
        update_rule=0,
        delete_rule=0,
        fk_name=name,
        pk_name=None,
        **SWITCHES,
    )


@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("flavour", ["embedded", "hive42", "hive31"])
def test_what_a_write_changes_is_fenced(at_once: Make, flavour: str) -> None:
    """By chance; `python -m tests.differential --at-once 300` is the long one."""
    found = at_once(flavour)
    for _ in range(WRITES):
        found.one()
    check(found)


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("alter_partitions_req", "change_alter_partition"),
        ("drop_table_req", "change_drop_table"),
        ("update_partition_column_statistics_req", "change_partition_statistics"),
    ],
)
def test_a_missing_fence_is_seen(at_once: Make, method: str, change: str) -> None:
    """With a proxy that takes one call for one that changes nothing."""
    found = at_once("embedded", planted=f"unfenced_{method}")
    found.changes.writer.methods = frozenset({method, "create_table"})
    found.changes.fewest_tables = 1
    found.one(change)
    assert found.changes.writer.log and found.differences, found.summary()
    assert {one.partition(": ")[0] for one in found.differences} == {
        f"after {change} by {found.changes.writer.log[-1]}"
    }


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", ["embedded", "hive42"])
def test_a_table_that_is_created_with_constraints_of_another(at_once: Make, flavour: str) -> None:
    """They are made, of that table."""
    found = at_once(flavour)
    for kind in ROWS:
        for number, way in enumerate(variants.create_constrained_table(table(found.world, "", "", "plain"))):
            other, name = found.world.tables[number], f"new_{kind}_{number}".lower()
            made = table(found.world, found.world.databases[0], name, "plain")
            row = constraint(kind, (other.database, other.name, "c0"), f"of_another_{number}_{kind}")
            each_way(found, way, variants.create_constrained_table(made, **{kind: [row]}))
    check(found)


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", ["embedded", "hive42"])
def test_a_database_is_dropped_whose_table_a_foreign_key_names(at_once: Make, flavour: str) -> None:
    """The key is gone with it, from a table of another database."""
    found = at_once(flavour)
    for number, way in enumerate(variants.drop_database("")):
        name = f"once_gone{number}"
        parent = table(found.world, name, "parent", "plain")
        child = found.world.tables[number]
        parent.sd.cols[0].type = first_column(found, child).type
        key = constraint("primaryKeys", (name, "parent", "c0"), f"key{number}")
        foreign = foreign_key((name, "parent"), (child.database, child.name), f"foreign{number}")
        write = found.changes._write
        write(variants.create_database(Database(name=name)))
        write(variants.create_constrained_table(parent, primaryKeys=[key]))
        write(variants.add_constraints("foreignKeys", [foreign]))
        found.after(lambda: None)  # what is read for the first time is kept
        each_way(found, way, variants.drop_database(name))
    check(found)
