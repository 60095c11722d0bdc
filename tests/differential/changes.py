"""Random changes of every kind, straight on the metastore or through any address given.

Each change keeps the `World` true, so that later reads are generated from what exists. What the metastore refuses by a
declared exception is counted and forgotten: a refused change is a legal history too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hive_metastore.ttypes import (
    AddCheckConstraintRequest,
    AddDefaultConstraintRequest,
    AddNotNullConstraintRequest,
    AddPrimaryKeyRequest,
    AddUniqueConstraintRequest,
    DropConstraintRequest,
    EnvironmentContext,
    Function,
    GetTableRequest,
    ResourceUri,
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
)
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from tests.differential import contents
from tests.differential.contents import TableNote, World
from tests.differential.reads import FUNCTIONS, escape
from tests.differential.statistics import StatisticsChanges
from tests.differential.upheavals import Upheavals
from tests.testbed.client import MetastoreClient


class Changes(StatisticsChanges):
    def __init__(
        self,
        world: World,
        client: MetastoreClient,
        through: MetastoreClient | None = None,
        *,
        statistics_are_logged: bool = True,
    ) -> None:
        """`through` makes the changes that leave no event: behind a proxy's back they cannot be followed."""
        self.through = through or client
        self.statistics_of_timestamps = statistics_are_logged  # Hive 4 knows them and logs all, others neither
        self.statistics_are_logged = statistics_are_logged
        self.statistics_client = client if statistics_are_logged else self.through
        self.world, self.client, self.rng = world, client, world.random
        self._direct = client
        self.done: Counter[str] = Counter()
        self._serial = 0
        self._makers = [name for name in dir(self) if name.startswith("change_")]

    def one(self, *, through: bool = False) -> str:
        """Make one random change, `through` the proxy or not; returns its name."""
        name = self.rng.choice(self._makers)
        self.client = self.through if through else self._direct
        self.statistics_client = self.client if self.statistics_are_logged else self.through
        try:
            done = getattr(self, name)()
        except TException as refusal:
            done = f"refused {type(refusal).__name__}"
            if isinstance(refusal, TTransportException):  # how Hive 3.1 says that something has failed
                for client in {self._direct, self.through, self.statistics_client}:
                    client.reconnect()
        self.done[f"{name} {done or ''}".strip()] += 1
        return name

    def _note(self, *kinds: str) -> TableNote:
        choices = [note for note in self.world.tables if not kinds or note.kind in kinds]
        return self.rng.choice(choices)

    def _table(self, note: TableNote) -> Any:
        return self.client.get_table_req(GetTableRequest(dbName=note.database, tblName=note.name)).table

    def _fresh(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}_{self._serial}"

    def change_create_table(self) -> None:
        kind = self.rng.choice(self.world.kinds)
        contents.add_table(self.world, self.client, self.rng.choice(self.world.databases), self._fresh("n"), kind, 3)

    def change_drop_table(self) -> None:
        if len(self.world.tables) < 20:
            return self.change_create_table()
        note = self._note()
        self.client.drop_table(note.database, note.name, False)
        self.world.tables.remove(note)
        self.world.dropped.append((note.database, note.name))
        return None

    def change_recreate_table(self) -> None:
        note = self._note("partitioned", "plain", "iceberg")
        self.client.drop_table(note.database, note.name, False)
        self.world.tables.remove(note)
        contents.add_table(self.world, self.client, note.database, note.name, note.kind, 3)

    def change_rename_table(self) -> None:
        note = self._note("partitioned", "plain", "view", "iceberg", "bucketed")
        table = self._table(note)
        table.tableName = self._fresh("r")
        self.client.alter_table(note.database, note.name, table)
        self.world.dropped.append((note.database, note.name))
        note.name = table.tableName

    def change_table_parameter(self) -> None:
        note = self._note("partitioned", "plain", "iceberg", "view", "wide", "skewed")
        table = self._table(note)
        table.parameters[self.rng.choice(["p", "q", "metadata_location"])] = str(self.rng.random())
        self.client.alter_table(note.database, note.name, table)

    def change_columns_cascade(self) -> None:
        note = self._note("partitioned", "wide")
        table = self._table(note)
        table.sd.cols.append(contents.FieldSchema(self._fresh("added"), "int", None))
        context = EnvironmentContext({"CASCADE": "true"}) if self.rng.random() < 0.5 else None
        self.client.alter_table_with_environment_context(note.database, note.name, table, context)

    def change_database_parameter(self) -> None:
        name = self.rng.choice(self.world.databases)
        database = self.client.get_database(name)
        database.parameters = {**(database.parameters or {}), "changed": str(self.rng.random())}
        self.client.alter_database(name, database)

    def change_create_database(self) -> None:
        name = self._fresh(f"{self.world.prefix}_new")
        self.client.create_database(contents.Database(name=name, description="new"))
        self.world.databases.append(name)

    def change_drop_database(self) -> None:
        extra = [name for name in self.world.databases if "_new_" in name]
        if not extra:
            return self.change_create_database()
        name = self.rng.choice(extra)
        self.client.drop_database(name, False, True)
        self.world.databases.remove(name)
        self.world.tables = [note for note in self.world.tables if note.database != name]
        return None

    def _function(self, database: str, name: str) -> Function:
        resources = [ResourceUri(1, f"file:///{self.rng.randint(0, 9)}.jar")]
        return Function(name, database, f"C{self.rng.randint(0, 99)}", "me", 1, 1, 1, resources)

    def change_create_function(self) -> None:
        self.client.create_function(self._function(self.rng.choice(self.world.databases), self.rng.choice(FUNCTIONS)))

    def change_drop_function(self) -> None:
        self.client.drop_function(self.rng.choice(self.world.databases), self.rng.choice(FUNCTIONS))

    def change_alter_function(self) -> None:
        database, name = self.rng.choice(self.world.databases), self.rng.choice(FUNCTIONS)
        self.through.alter_function(database, name, self._function(database, name))

    def change_add_partitions(self) -> None:
        contents.add_partitions(self.world, self.client, self._note("partitioned", "wide", "skewed", "bucketed"), 3)

    def _some_partition(self) -> tuple[TableNote, list[str]]:
        choices = [note for note in self.world.tables if note.partitions]
        note = self.rng.choice(choices)
        return note, self.rng.choice(note.partitions)

    def change_drop_partition(self) -> None:
        note, values = self._some_partition()
        self.client.drop_partition(note.database, note.name, values, False)
        note.partitions.remove(values)

    def change_alter_partition(self) -> None:
        note, values = self._some_partition()
        partition = self.client.get_partition(note.database, note.name, values)
        partition.parameters = {**(partition.parameters or {}), "altered": str(self.rng.random())}
        if self.rng.random() < 0.3:
            partition.sd.location = f"{partition.sd.location}_moved"
        self.client.alter_partition(note.database, note.name, partition)

    def change_alter_partitions(self) -> None:
        note, _ = self._some_partition()
        partitions = self.client.get_partitions(note.database, note.name, 4)
        for partition in partitions:
            partition.parameters = {**(partition.parameters or {}), "altered": str(self.rng.random())}
        self.client.alter_partitions(note.database, note.name, partitions)

    def change_rename_partition(self) -> None:
        note, values = self._some_partition()
        partition = self.client.get_partition(note.database, note.name, values)
        renamed = self.world.values(note)
        if renamed in note.partitions:
            return
        partition.values = renamed
        self.client.rename_partition(note.database, note.name, values, partition)
        note.partitions.remove(values)
        note.partitions.append(renamed)

    def partition_name(self, note: TableNote, values: list[str]) -> str:
        return "/".join(f"{key}={escape(value)}" for (key, _), value in zip(note.keys, values, strict=True))

    def change_add_constraint(self) -> None:
        """Of one of a few names, which Hive 4 allows at several tables."""
        note = self._note("plain", "iceberg", "partitioned", "wide")
        columns = [column.name for column in self._table(note).sd.cols] + [key for key, _ in note.keys]
        name, column = self._constraint(), self.rng.choice(columns)
        where = {"catName": "hive", "table_db": note.database, "table_name": note.name, "column_name": column}
        row: dict[str, Any] = {**where, "enable_cstr": True, "validate_cstr": False, "rely_cstr": True}
        kind = self.rng.randrange(5)
        if kind == 0:
            self._add_primary_key([SQLPrimaryKey(**row, key_seq=1, pk_name=name)])
        elif kind == 1:
            rows = [SQLUniqueConstraint(**row, key_seq=1, uk_name=name)]
            self.client.add_unique_constraint(AddUniqueConstraintRequest(rows))
        elif kind == 2:
            self.client.add_not_null_constraint(
                AddNotNullConstraintRequest([SQLNotNullConstraint(**row, nn_name=name)])
            )
        elif kind == 3:
            defaults = [SQLDefaultConstraint(**row, default_value="0", dc_name=name)]
            self.client.add_default_constraint(AddDefaultConstraintRequest(defaults))
        else:
            checks = [SQLCheckConstraint(**row, check_expression="1 > 0", dc_name=name)]
            self.client.add_check_constraint(AddCheckConstraintRequest(checks))

    def _add_primary_key(self, rows: list[SQLPrimaryKey]) -> None:
        self.client.add_primary_key(AddPrimaryKeyRequest(rows))

    def change_drop_constraint(self) -> None:
        note = self._note()
        self.client.drop_constraint(DropConstraintRequest(note.database, note.name, self._constraint()))

    def _constraint(self) -> str:
        return f"c{self.rng.randrange(6)}"

    def change_truncate(self) -> None:
        note = self._note("partitioned", "plain", "managed")
        self.through.truncate_table(note.database, note.name, [])


class AllChanges(Changes, Upheavals):
    """Changes that reach further, too, some of them through the proxy."""

    def one(self, *, through: bool = False) -> str:
        return super().one(through=through or self.rng.random() < 0.3)
