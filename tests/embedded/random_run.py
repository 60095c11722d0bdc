"""Random calls made of two metastores at once, and the first difference of what they answer, keep and do to files.

Job: draw a step, fill directories, make the call, compare the reply, both file trees and the tables that the call
names; now and then, and at the end, everything. Must not know: how steps are drawn.
Invariant: a run ends with its first difference, since what follows would differ by this alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from hms_cache_proxy.wire.spec import Struct
from tests.comparison import first_difference
from tests.embedded.differential import Asked, Step, struct
from tests.embedded.random_files import Files, missing, parted
from tests.embedded.random_model import EXTERNAL, MANAGED, Model, Noted, name_of
from tests.embedded.random_parameters import COLUMNS
from tests.embedded.random_steps import Steps
from tests.methods.oracle import Oracle, Reply
from tests.testbed.metastore import Metastore

EVERY = 50
"""Steps between two reads of everything."""
HALF_DONE = ("truncate_table", "truncate_table_req", "exchange_partition", "exchange_partitions")
"""Calls that Hive refuses after it has changed some of the files: here a refused call changes none
(test_shared_directories.py shows it of each)."""
_PRINTED = re.compile(rb"(Partition\(values:\[[^\]]*\], dbName:\w+, tableName:\w+).*", re.DOTALL)
_SYSTEM = re.compile(rb"^(Got exception: java\.io|Unable to move|java\.lang\.NullPointerException).*", re.DOTALL)
INSERT_ONLY_TABLES = 2  # ClientCapability
FILLED = 0.7
"""How often all directories are filled before a step: sometimes they are empty or half empty."""


class Remembering(Oracle):
    """A connection that keeps its last reply."""

    last: Reply

    def ask(self, method: str, **arguments: Any) -> Reply:
        """Call a method."""
        self.last = super().ask(method, **arguments)
        return self.last


class Side(Asked):
    """One metastore with its directories."""

    def __init__(self, metastore: Metastore, name: str) -> None:
        places = {str(metastore.external): b"/WH/external", str(metastore.warehouse): b"/WH/managed"}
        super().__init__(metastore.address, name, places)
        self._oracle.close()
        self._oracle = Remembering("{}:{}".format(*metastore.address))
        self._own_places = {EXTERNAL: f"file:{metastore.external}", MANAGED: f"file:{metastore.warehouse}"}
        self.files = Files(metastore, name, Path(self._elsewhere))

    def seen(self, method: str, arguments: dict[str, Any]) -> Any:
        """What a call gives, as arguments of later calls have it; None where it raises."""
        self._oracle.ask(method, **self._own(arguments))
        return self.told()

    def told(self) -> Any:
        """The same of the last call."""
        assert isinstance(self._oracle, Remembering)
        return self._as_argument(getattr(self._oracle.last.value, "success", None))

    def ask(self, method: str, arguments: dict[str, Any]) -> Any:
        """As Asked's; of messages that print a partition as Java does, only its values count, and of those that pass on
        what the file system or Java says, nothing."""
        reply = super().ask(method, arguments)
        for raised in reply[1].values() if isinstance(reply, tuple) and isinstance(reply[1], dict) else ():
            if isinstance(raised, tuple) and "message" in raised[1]:
                printed = _PRINTED.sub(rb"\1", raised[1]["message"])
                raised[1]["message"] = _SYSTEM.sub(b"THE SYSTEM'S", printed)
        return reply

    def renew(self) -> None:
        """A new connection: Hive leaves the transaction of a refused exchange open, and the next call that is refused
        on this connection would undo all that was done since."""
        self._oracle.reconnect()

    def close(self) -> None:
        self.files.remove()
        super().close()

    def own(self, value: str) -> str:
        """A location with this metastore's own directories."""
        return str(self._own(value))

    def _own(self, value: Any) -> Any:
        if isinstance(value, str):
            for place, own in self._own_places.items():
                value = value.replace(place, own)
        return super()._own(value)

    def _as_argument(self, value: Any) -> Any:
        if isinstance(value, bytes):
            for place, name in self._places:
                value = value.replace(place, name)
            return value.decode()
        if isinstance(value, list):
            return [self._as_argument(item) for item in value]
        if isinstance(value, dict):
            return {self._as_argument(key): self._as_argument(item) for key, item in value.items()}
        if isinstance(value, Struct):
            return type(value)(**{key: self._as_argument(item) for key, item in value.__dict__.items()})
        return value


class Difference(NamedTuple):
    """Where a run ended; `number` of the step."""

    number: int
    step: Step
    what: str


class Run:
    """One run. `overlapping`: may objects share directories?"""

    def __init__(self, hive: Metastore, ours: Metastore, name: str, seed: int, *, overlapping: bool) -> None:
        self.sides = Side(hive, name), Side(ours, name)
        self.model = Model((name, f"{name}_b"), Random(seed), overlapping)
        self.steps = Steps(self.model)
        self.made: Counter[str] = Counter()
        self.half_done: Counter[str] = Counter()
        if overlapping:
            for side in self.sides:
                side.files.link("elsewhere/link", "elsewhere/a")
        self._tree = self.sides[1].files.read()

    def run(self, count: int) -> Difference | None:
        """So many steps, or fewer until the first difference."""
        for number in range(1, count + 1):
            self._fill()
            step = self.steps.draw()
            what = self._compare(step)
            if not what and (number % EVERY == 0 or number == count):
                what = next(self._everything(), "")
            if what:
                return Difference(number, step, what)
        return None

    def close(self) -> None:
        """All that was made goes."""
        for side in self.sides:
            for name in self.model.names:
                side.ask("drop_database", {"name": name, "deleteData": True, "cascade": True})
            side.close()

    def _fill(self) -> None:
        """The trees are equal here: each difference has ended the run."""
        if self.steps.opens or self.model.random.random() < FILLED:
            wanted = missing(self._tree)
            for side in self.sides:
                side.files.make(wanted)
            self._tree = dict(sorted({**self._tree, **wanted}.items()))

    def _compare(self, step: Step) -> str:
        """The reply, the files, and the tables that the call names."""
        hive, ours = self.sides
        expected, found = hive.ask(*step), ours.ask(*step)
        good = isinstance(expected, tuple) and set(expected[1]) <= {"success"}
        self.made[f"{step[0]}{'' if good else ' refused'}"] += 1
        if not good:
            hive.renew()
        what = first_difference(expected, found)
        if what:
            return f"the reply {what}"
        before, self._tree = self._tree, ours.files.read()
        what = parted(hive.files.read(), self._tree)
        if what and not good and step[0] in HALF_DONE:
            hive.files.restore(before)
            self.half_done[step[0]] += 1
            what = parted(before, self._tree)
        if what:
            return f"files: {what}"
        return next(self._reads(self._named(step)), "")

    def _named(self, step: Step) -> list[tuple[str, str]]:
        """Places of tables that a call may have changed."""
        said = {text.lower() for text in strings(step[1])}
        databases = [name for name in self.model.names if name in said]
        if step[0].startswith(("create_database", "drop_database")):
            self._read_databases(databases)
        known = [place for place in self.model.tables if place[0] in databases]
        named = [(name, text) for name in databases for text in said if text[:1] == "t" and len(text) == 2]
        return sorted({*known, *named} if step[0].startswith("drop_database") else named)

    def _read_databases(self, databases: list[str]) -> None:
        for name in databases:
            found = self.sides[0].seen("get_database", {"name": name})
            if found is None:
                self.model.databases.pop(name, None)
            else:
                self.model.databases[name] = found

    def _reads(self, places: list[tuple[str, str]]) -> Iterator[str]:
        """What differs of these tables and their partitions; the model learns what Hive tells."""
        for database, name in places:
            request = asked_table(database, name)
            yield from self._read("get_table_req", request)
            found = self.sides[0].told()
            if found is None:
                self.model.tables.pop((database, name), None)
                continue
            parts: list[Any] = []
            if found.table.partitionKeys:
                everyone = {"db_name": database, "tbl_name": name, "max_parts": -1}
                yield from self._read("get_partitions", everyone)
                parts = self.sides[0].told()
            self.model.tables[database, name] = Noted(database, found.table, parts)

    def _read(self, method: str, arguments: dict[str, Any]) -> Iterator[str]:
        hive, ours = (side.ask(method, arguments) for side in self.sides)
        what = first_difference(hive, ours)
        if what:
            yield f"{method} of {'.'.join(strings(arguments))}{what}"

    def _everything(self) -> Iterator[str]:
        """What differs of all databases, tables, partitions and statistics."""
        for database in self.model.names:
            yield from self._read("get_database", {"name": database})
            yield from self._read("get_all_tables", {"db_name": database})
        yield from self._reads(sorted(self.model.tables))
        columns = [name for name, _ in COLUMNS]
        for _, noted in sorted(self.model.tables.items()):
            where = {"dbName": noted.database, "tblName": noted.name, "colNames": columns, "engine": "hive"}
            yield from self._read("get_table_statistics_req", {"request": struct("TableStatsRequest", **where)})
            where["partNames"] = [name_of(noted.keys, part.values) for part in noted.parts]
            if noted.parts:
                request = struct("PartitionsStatsRequest", **where)
                yield from self._read("get_partitions_statistics_req", {"request": request})


def asked_table(database: str, name: str) -> dict[str, Any]:
    """Arguments of get_table_req, from a client that knows tables which are only inserted into."""
    capable = struct("ClientCapabilities", values=[INSERT_ONLY_TABLES])
    return {"req": struct("GetTableRequest", dbName=database, tblName=name, capabilities=capable)}


def strings(value: Any) -> Iterator[str]:
    """All strings in arguments, places and parameters too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, Struct):
        yield from strings(value.__dict__)
