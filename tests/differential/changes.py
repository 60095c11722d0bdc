"""Random changes of every kind, straight on the metastore or through any address given.

Each change keeps the `World` true, so that later reads are generated from what exists. What the metastore refuses by a
declared exception is counted and forgotten: a refused change is a legal history too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hive_metastore.ttypes import (
    Function,
    GetTableRequest,
    Partition,
    ResourceUri,
)
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from tests.codecs import NEWEST
from tests.differential import contents, variants
from tests.differential.constraints import ConstraintChanges, LinkChanges
from tests.differential.contents import TableNote, World
from tests.differential.reads import FUNCTIONS, escape
from tests.differential.rights import RightsChanges
from tests.differential.statistics import StatisticsChanges
from tests.differential.upheavals import Upheavals
from tests.differential.variants import Variants
from tests.differential.writer import Refused, Writer
from tests.testbed.client import MetastoreClient


class Changes(StatisticsChanges, ConstraintChanges):
    fewest_tables = 20
    """Of fewer, none is dropped."""

    def __init__(
        self,
        world: World,
        client: MetastoreClient,
        through: MetastoreClient | None = None,
        *,
        statistics_are_logged: bool = True,
        version: str = NEWEST,
    ) -> None:
        """`through` makes the changes that leave no event: behind a proxy's back they cannot be followed. `version`: of
        the metastore's interface."""
        self.through = through or client
        self.statistics_of_timestamps = statistics_are_logged  # Hive 4 knows them and logs all, others neither
        self.statistics_are_logged = statistics_are_logged
        self.statistics_client = client if statistics_are_logged else self.through
        self.world, self.client, self.rng = world, client, world.random
        self.writer = Writer(self.rng, version)
        self._direct = client
        self.done: Counter[str] = Counter()
        self._serial = 0
        self._makers = [name for name in dir(self) if name.startswith("change_")]

    def one(self, name: str | None = None, *, through: bool = False) -> str:
        """Make one random change, or that of this name, `through` the proxy or not; returns its name."""
        name = name or self.rng.choice(self._makers)
        self.client = self.through if through else self._direct
        self.statistics_client = self.client if self.statistics_are_logged else self.through
        try:
            done = getattr(self, name)()
        except TException as refusal:
            done = f"refused {refusal.kind if isinstance(refusal, Refused) else type(refusal).__name__}"
            if isinstance(refusal, TTransportException):  # how Hive 3.1 says that something has failed
                for client in {self._direct, self.through, self.statistics_client}:
                    client.reconnect()
        self.done[f"{name} {done or ''}".strip()] += 1
        return name

    def _write(self, variants: Variants, client: MetastoreClient | None = None) -> str:
        return self.writer.write(client or self.client, variants)

    def _note(self, *kinds: str) -> TableNote:
        choices = [note for note in self.world.tables if not kinds or note.kind in kinds]
        return self.rng.choice(choices)

    def _table(self, note: TableNote) -> Any:
        return self.client.get_table_req(GetTableRequest(dbName=note.database, tblName=note.name)).table

    def _fresh(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}_{self._serial}"

    def _spelled(self, database: str) -> str:
        """As writers may spell it, which names the same."""
        return self.rng.choice([*[database] * 6, database.upper(), f"@hive#{database}"])

    def _add_table(self, database: str, name: str, kind: str) -> None:
        table = contents.table(self.world, database, name, kind)
        if kind in ("acid", "insert_only"):
            contents.create_table(self.client, table, kind)
        else:
            self._write(variants.create_table(table))
        note = self.world.noted(table, kind)
        for part in contents.new_partitions(self.world, note, 3) if note.keys and kind != "acid" else ():
            self._add_partition(note, part)

    def _add_partition(self, note: TableNote, part: Partition) -> None:
        """Unless the metastore has it under another spelling, or has no room for its name."""
        try:
            self._write(variants.add_partition(part))
        except Refused as refusal:
            if refusal.kind not in ("AlreadyExistsException", "MetaException"):
                raise
        else:
            note.partitions.append(part.values)

    def change_create_table(self) -> None:
        self._add_table(self.rng.choice(self.world.databases), self._fresh("n"), self.rng.choice(self.world.kinds))

    def change_drop_table(self) -> None:
        if len(self.world.tables) < self.fewest_tables:
            return self.change_create_table()
        note = self._note()
        self._write(variants.drop_table(self._spelled(note.database), note.name))
        self.world.tables.remove(note)
        self.world.dropped.append((note.database, note.name))
        return None

    def change_recreate_table(self) -> None:
        note = self._note("partitioned", "plain", "iceberg")
        self._write(variants.drop_table(note.database, note.name))
        self.world.tables.remove(note)
        self._add_table(note.database, note.name, note.kind)

    def change_rename_table(self) -> None:
        note = self._note("partitioned", "plain", "view", "iceberg", "bucketed")
        table = self._table(note)
        table.tableName = self._fresh("r")
        self._alter(note, table)
        self.world.dropped.append((note.database, note.name))
        note.name = table.tableName

    def change_table_parameter(self) -> None:
        note = self._note("partitioned", "plain", "iceberg", "view", "wide", "skewed")
        table = self._table(note)
        table.parameters[self.rng.choice(["p", "q", "metadata_location"])] = str(self.rng.random())
        self._alter(note, table)

    def change_columns_cascade(self) -> None:
        note = self._note("partitioned", "wide")
        table = self._table(note)
        table.sd.cols.append(contents.FieldSchema(self._fresh("added"), "int", None))
        self._alter(note, table, cascade=self.rng.random() < 0.5)

    def _alter(self, note: TableNote, table: Any, *, cascade: bool = False) -> None:
        self._write(variants.alter_table(self._spelled(note.database), note.name, table, cascade=cascade))

    def change_database_parameter(self) -> None:
        name = self.rng.choice(self.world.databases)
        database = self.client.get_database(name)
        database.parameters = {**(database.parameters or {}), "changed": str(self.rng.random())}
        self._write(variants.alter_database(name, database))

    def change_create_database(self) -> None:
        name = self._fresh(f"{self.world.prefix}_new")
        self._write(variants.create_database(contents.Database(name=name, description="new")))
        self.world.databases.append(name)

    def change_drop_database(self) -> None:
        extra = [name for name in self.world.databases if "_new_" in name]
        if not extra:
            return self.change_create_database()
        name = self.rng.choice(extra)
        self._write(variants.drop_database(name))
        self.world.databases.remove(name)
        self.world.tables = [note for note in self.world.tables if note.database != name]
        return None

    def _function(self, database: str, name: str) -> Function:
        resources = [ResourceUri(1, f"file:///{self.rng.randint(0, 9)}.jar")]
        return Function(name, database, f"C{self.rng.randint(0, 99)}", "me", 1, 1, 1, resources)

    def change_create_function(self) -> None:
        function = self._function(self.rng.choice(self.world.databases), self.rng.choice(FUNCTIONS))
        self._write({"create_function": {"func": function}})
        self.world.functions.append((function.dbName, function.functionName))

    def change_drop_function(self) -> None:
        if self.world.functions:
            database, name = self.world.functions.pop(self.rng.randrange(len(self.world.functions)))
            self._write({"drop_function": {"dbName": database, "funcName": name}})
        else:
            self.change_create_function()

    def change_alter_function(self) -> None:
        if not self.world.functions:
            return
        database, name = self.rng.choice(self.world.functions)
        given = {"dbName": database, "funcName": name, "newFunc": self._function(database, name)}
        self._write({"alter_function": given}, self.through)

    def change_add_partitions(self) -> None:
        note = self._note("partitioned", "wide", "skewed", "bucketed")
        for part in contents.new_partitions(self.world, note, 3):
            self._add_partition(note, part)

    def _some_partition(self) -> tuple[TableNote, list[str]]:
        choices = [note for note in self.world.tables if note.partitions]
        note = self.rng.choice(choices)
        return note, self.rng.choice(note.partitions)

    def change_drop_partition(self) -> None:
        note, values = self._some_partition()
        name = self.partition_name(note, values)
        self._write(variants.drop_partition(self._spelled(note.database), note.name, values, name))
        note.partitions.remove(values)

    def change_alter_partition(self) -> None:
        note, values = self._some_partition()
        partition = self.client.get_partition(note.database, note.name, values)
        partition.parameters = {**(partition.parameters or {}), "altered": str(self.rng.random())}
        if self.rng.random() < 0.3:
            partition.sd.location = f"{partition.sd.location}_moved"
        self._write(variants.alter_partition(self._spelled(note.database), note.name, partition))

    def change_alter_partitions(self) -> None:
        note, _ = self._some_partition()
        partitions = self.client.get_partitions(note.database, note.name, 4)
        for partition in partitions:
            partition.parameters = {**(partition.parameters or {}), "altered": str(self.rng.random())}
        self._write(variants.alter_partitions(self._spelled(note.database), note.name, partitions))

    def change_rename_partition(self) -> None:
        note, values = self._some_partition()
        partition = self.client.get_partition(note.database, note.name, values)
        renamed = self.world.values(note)
        if renamed in note.partitions:
            return
        partition.values = renamed
        self._write(variants.rename_partition(self._spelled(note.database), note.name, values, partition))
        note.partitions.remove(values)
        note.partitions.append(renamed)

    def partition_name(self, note: TableNote, values: list[str]) -> str:
        return "/".join(f"{key}={escape(value)}" for (key, _), value in zip(note.keys, values, strict=True))

    def change_truncate(self) -> None:
        note = self._note("partitioned", "plain", "managed")
        self._write(variants.truncate_table(note.database, note.name, []), self.through)


class AllChanges(Changes, Upheavals, LinkChanges, RightsChanges):
    """Changes that reach further, too, some of them through the proxy."""

    def one(self, name: str | None = None, *, through: bool = False) -> str:
        return super().one(name, through=through or self.rng.random() < 0.3)
