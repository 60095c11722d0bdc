"""Reads right after each write through a proxy, of all that there is: what a write changes has to be fenced.

Job: `AtOnce` stops the follower, makes one change through the proxy, reads every object from the metastore and from the
proxy, and lets the follower go on. So the cache is as it was before the write for as long as the reads take, and what
is answered from it must be equal all the same: an object that the write has changed and that no fence covers is a
difference each time, not by chance. In TTL mode there is no follower.
Must not know: which objects a write changes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hms_cache_proxy.cache.state import Slot
from tests.codecs import NEWEST
from tests.differential.changes import AllChanges
from tests.differential.compare import Report, compare
from tests.differential.contents import TableNote, World
from tests.differential.reads import FUNCTIONS, Request, escape
from tests.differential.rights import reads_of_privileges, reads_of_roles
from tests.differential.statistics import COLUMNS
from tests.differential.wire import hms
from tests.proxy import Proxy
from tests.testbed.interface import interface
from tests.testbed.raw import RawConnection

SETTINGS = {"MAX_UNCONFIRMED_MS": "600000", "FOLLOWER_HUNG_AFTER_S": "600"}
"""Of the proxy: it answers from its cache while its follower is stopped, and lets it be."""
KINDS = ("partitioned", "plain", "partitioned", "iceberg")
"""Of the tables that a database has at first; new ones are of any kind."""
DROPPED = 4
"""Names of tables that were dropped last, which are read too."""
FEWEST, MOST = 8, 16
"""Tables."""
STEPS = 2
"""Of the follower, after which all that was written is in the cache; over Thrift the second settles it."""


class ChangesAtOnce(AllChanges):
    """No two constraints have the same name: Hive drops those of other tables with them, which readers see only with
    the next step (docs/consistency.md)."""

    fewest_tables = FEWEST

    def one(self, name: str | None = None, *, through: bool = False) -> str:
        """As ever; so that there is not ever more to read, tables are dropped where there are many."""
        return super().one(name or ("change_drop_table" if len(self.world.tables) > MOST else None), through=through)

    def _constraint(self) -> str:
        return self._fresh("c")


class NewEachTime(RawConnection):
    """A connection that is made again for each call: one that was shown something new of a database is shown nothing
    older of anything in it, fenced or not."""

    def call(self, message: bytes) -> bytes:
        self.reconnect()
        return super().call(message)


@dataclass
class AtOnce:
    """Writes of `changes`, which are made through `proxy`, each followed by all reads, of `direct` and of the proxy.
    `follows`: it has a follower."""

    proxy: Proxy
    direct: RawConnection
    world: World
    changes: ChangesAtOnce
    version: str = NEWEST
    follows: bool = True
    reads: int = 0
    differences: list[str] = field(default_factory=list)

    def one(self, change: str | None = None) -> Report:
        """One change (of this name, or any), and the reads after it."""
        return self.after(lambda: self.changes.one(change, through=True))

    def after(self, act: Callable[[], object]) -> Report:
        """The reads after what `act` writes through the proxy; the differences tell what it returns."""
        writer = self.changes.writer
        with self._held(), NewEachTime(*self.proxy.address) as proxied:
            before = len(writer.log)
            change = act()
            after = f"after {change} by {'+'.join(writer.log[before:])}" if writer.log[before:] else f"after {change}"
            requests = everything(self.world, self.version)
            report = compare(self.direct, proxied, requests, version=self.version)
        self.reads += report.requests
        self.differences += [f"{after}: {each}" for each in report.differences]
        return report

    @contextmanager
    def _held(self) -> Iterator[None]:
        """While the follower stands still; afterwards it catches up."""
        followers = self.proxy.children()["follower"] if self.follows else []
        assert len(followers) == self.follows
        for pid in followers:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in followers:
                os.kill(pid, signal.SIGCONT)
        for _ in range(STEPS if self.follows else 0):
            since_ns = time.monotonic_ns()
            self.proxy.wait(lambda since_ns=since_ns: self.proxy.word(Slot.BEGAN_NS) > since_ns, "caught up")

    def summary(self) -> str:
        """What was written and read."""
        return f"{self.reads} reads, {len(self.differences)} differences after {self.changes.writer.summary()}"


def everything(world: World, version: str = NEWEST) -> Iterator[Request]:
    """Reads of all objects of a world, by methods of this version."""
    methods = interface(version).ThriftHiveMetastore.thrift_services
    for method, arguments in _everything(world):
        if method in methods:
            yield method, arguments


def _everything(world: World) -> Iterator[Request]:
    yield "get_all_databases", {}
    yield "get_catalogs", {}
    yield "get_all_functions", {}
    yield from reads_of_roles()
    elsewhere = [f"@{catalog}#{world.databases[0]}" for catalog in world.catalogs]
    for database in [*world.databases, *elsewhere]:
        yield "get_database", {"name": database}
        yield "get_all_tables", {"db_name": database}
        yield "get_table_meta", {"db_patterns": database, "tbl_patterns": "*", "tbl_types": []}
        yield "get_functions", {"dbName": database, "pattern": "*"}
        yield "get_function", {"dbName": database, "funcName": FUNCTIONS[0]}
    for database, name in world.dropped[-DROPPED:]:
        yield "get_table_req", {"req": hms.GetTableRequest(dbName=database, tblName=name)}
    for note in world.tables:
        yield from _table(note)
        yield from reads_of_privileges(note)
        if note.keys:
            yield from _partitions(note)
    for catalog in world.catalogs:
        for note in world.tables:
            if note.database == world.databases[0]:
                place = {"catName": catalog, "dbName": note.database, "tblName": note.name}
                yield "get_table_req", {"req": hms.GetTableRequest(**place)}


def _table(note: TableNote) -> Iterator[Request]:
    place = {"dbName": note.database, "tblName": note.name}
    yield "get_table_req", {"req": hms.GetTableRequest(**place)}
    yield "get_table_statistics_req", {"request": hms.TableStatsRequest(**place, colNames=list(COLUMNS), engine="hive")}
    if note.kind != "view":
        yield "get_all_table_constraints", {"request": hms.AllTableConstraintsRequest(catName="hive", **place)}
        foreign = {"foreign_db_name": note.database, "foreign_tbl_name": note.name, "catName": "hive"}
        yield "get_foreign_keys", {"request": hms.ForeignKeysRequest(**foreign)}


def _partitions(note: TableNote) -> Iterator[Request]:
    place: dict[str, Any] = {"db_name": note.database, "tbl_name": note.name}
    keys = [key for key, _ in note.keys]
    names = ["/".join(f"{key}={escape(value)}" for key, value in zip(keys, values, strict=True))
             for values in note.partitions]  # fmt: skip
    yield "get_partition_names", {**place, "max_parts": -1}
    yield "get_partitions", {**place, "max_parts": -1}
    yield "get_partitions_by_names", {**place, "names": names}
    request = {"dbName": note.database, "tblName": note.name, "partNames": names, "colNames": list(COLUMNS)}
    yield "get_partitions_statistics_req", {"request": hms.PartitionsStatsRequest(**request, engine="hive")}
    for values in note.partitions[-1:]:
        auth = {"user_name": "me", "group_names": []}
        yield "get_partition_with_auth", {**place, "part_vals": values, **auth}
