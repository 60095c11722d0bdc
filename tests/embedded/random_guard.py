"""Random calls of one metastore with the guard, and the first file that an object lost which a call did not name.

Job: draw steps as random_run.py does, on locations that overlap, and look at the directories of all other objects after
each. Must not know: Hive.
Invariants: an object is named by a call if its table is; the tables of a database that is dropped are named. A file
belongs to the object in whose directory it is: of two directories, one in the other, the inner one.
"""

from __future__ import annotations

import os
from random import Random

from hms_cache_proxy.embedded.warehouse import path_text, without_scheme
from tests.embedded.differential import Step
from tests.embedded.random_files import missing
from tests.embedded.random_model import Model, Noted
from tests.embedded.random_run import Side, asked_table, strings
from tests.embedded.random_steps import Steps
from tests.testbed.metastore import Metastore


class Guarded:
    """One run."""

    def __init__(self, metastore: Metastore, name: str, seed: int) -> None:
        self.side = Side(metastore, name)
        self.model = Model((name, f"{name}_b"), Random(seed), overlapping=True)
        self.steps = Steps(self.model)
        self.side.files.link("elsewhere/link", "elsewhere/a")

    def run(self, count: int) -> str:
        """So many steps, or fewer until a file is lost; which."""
        for number in range(1, count + 1):
            self.side.files.make(missing(self.side.files.read()))
            step = self.steps.draw()
            lost = self._lost(step)
            if lost:
                return f"step {number}, {step[0]} {step[1]!r}: {lost}"
        return ""

    def close(self) -> None:
        """All that was made goes."""
        for name in self.model.names:
            self.side.ask("drop_database", {"name": name, "deleteData": True, "cascade": True})
        self.side.close()

    def _lost(self, step: Step) -> str:
        """A file that was there before the call, in the directory of an object that is there after it, unnamed."""
        said = {text.lower() for text in strings(step[1])}
        dropped = step[0].startswith("drop_database")
        others = [
            noted
            for place, noted in sorted(self.model.tables.items())
            if not (place[0] in said and (dropped or place[1] in said))
        ]
        held = {path: noted for noted in others for path in self._paths(noted)}
        every = {path for noted in self.model.tables.values() for path in self._paths(noted)}
        before = {path: _files(path, every) for path in held}
        self.side.ask(*step)
        self._look(said)
        for path, files in before.items():
            noted = held[path]
            if (noted.database, noted.name) in self.model.tables and not files <= _files(path, set()):
                return f"{noted.database}.{noted.name} lost {min(files - _files(path, set()))}"
        return ""

    def _paths(self, noted: Noted) -> list[str]:
        """Directories of a table and of its partitions, on this machine."""
        told = [each.sd.location for each in (noted.table, *noted.parts)]
        own = [self.side.own(location) for location in told if location]
        return [os.path.realpath(without_scheme(path_text(location))) for location in own]

    def _look(self, said: set[str]) -> None:
        """What there is now of what the call may have changed."""
        for database in (name for name in self.model.names if name in said):
            found = self.side.seen("get_database", {"name": database})
            tables: list[str] = []
            if found is None:
                self.model.databases.pop(database, None)
            else:
                self.model.databases[database] = found
                tables = self.side.seen("get_all_tables", {"db_name": database})
            for place in [place for place in self.model.tables if place[0] == database and place[1] not in tables]:
                del self.model.tables[place]
            for name in tables:
                self.model.tables[database, name] = self._noted(database, name)

    def _noted(self, database: str, name: str) -> Noted:
        table = self.side.seen("get_table_req", asked_table(database, name)).table
        everyone = {"db_name": database, "tbl_name": name, "max_parts": -1}
        parts = self.side.seen("get_partitions", everyone) if table.partitionKeys else []
        return Noted(database, table, parts)


def _files(path: str, places: set[str]) -> set[str]:
    """All files below a directory, without those in other places there; links are not followed."""
    found = set()
    for directory, below, names in os.walk(path):
        below[:] = [name for name in below if os.path.join(directory, name) not in places]
        found |= {os.path.join(directory, name) for name in names}
    return found
