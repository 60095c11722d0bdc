"""Random calls that make, change, move, empty and drop tables and partitions, drawn from what exists.

Job: one step (method, arguments) at a time. Must not know: what a metastore answers.
Invariant: the same seed and the same model give the same step. Lists may be null, empty, partly of what is absent,
doubled, or in the wrong case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hms_cache_proxy.embedded.values import copy
from tests.embedded.acid_scripts import ABLE, FORMATS, FULL, INSERTS
from tests.embedded.differential import Step, struct
from tests.embedded.random_model import KEYS, MANAGED, VALUES, Model, Noted, name_of
from tests.embedded.random_parameters import COLUMNS, Parameters
from tests.embedded.scripts import descriptor, field, partition, table


class Steps(Parameters):
    """Draws steps; those that change parameters, columns and statistics are in the base."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._weights: dict[Callable[[], Step | None], int] = {
            self._create_database: 2,
            self._drop_database: 1,
            self._create_table: 14,
            self._failing_create: 3,
            self._drop_table: 7,
            self._alter_table: 14,
            self._truncate: 12,
            self._add_partitions: 14,
            self._append_partition: 5,
            self._alter_partitions: 12,
            self._rename_partition: 6,
            self._drop_partition: 6,
            self._drop_partitions: 6,
            self._exchange: 6,
            self._set_statistics: 8,
            self._delete_statistics: 3,
        }

        self._opening = self._first_steps()

    def _first_steps(self) -> list[Step]:
        """The last one first: a database, tables of three kinds whose partitions can be exchanged, one without any, one
        that cannot be made, and one partition emptied."""
        name = self._model.names[0]
        kinds: dict[str, dict[str, Any]] = {
            "t1": {"tableType": "MANAGED_TABLE"},
            "t2": {"parameters": {"EXTERNAL": "TRUE", "external.table.purge": "TRUE"}},
            "t3": {"parameters": {"EXTERNAL": "TRUE"}},
        }
        columns = [field(column, kind) for column, kind in COLUMNS[:2]]
        steps: list[Step] = [("create_database", {"database": struct("Database", name=name)})]
        for number, (of, fields) in enumerate(kinds.items()):
            given = table(name, of, partitionKeys=[field(key) for key in KEYS], sd=descriptor(columns), **fields)
            values = [[VALUES[number], "1"], [VALUES[number], "2"], ["x/y", "1"]]
            parts = [partition(name, of, each, sd=descriptor(columns)) for each in values]
            steps += [("create_table", {"tbl": given}), ("add_partitions", {"new_parts": parts})]
        plain = table(name, "t4", tableType="MANAGED_TABLE", sd=descriptor(columns))
        steps += [("create_table", {"tbl": plain}), self._with_key(table(name, "t5"), "absent")]
        one = name_of(list(KEYS), [VALUES[0], "1"])
        return [*steps, ("truncate_table", {"dbName": name, "tableName": "t1", "partNames": [one]})][::-1]

    @property
    def opens(self) -> bool:
        """Is the next step one of the first?"""
        return bool(self._opening)

    def draw(self) -> Step:
        """The next step."""
        if self._opening:
            return self._opening.pop()
        if not self._model.databases:
            return self._create_database()
        while True:
            drawn = self._random.choices([*self._weights], [*self._weights.values()])[0]()
            if drawn is not None:
                return drawn

    def _create_database(self) -> Step:
        fields: dict[str, Any] = {}
        if self._chance(0.3):
            fields["locationUri"] = self._model.place(default=0)
        if self._chance(0.2):
            fields["managedLocationUri"] = self._model.place(default=0)
        absent = [name for name in self._model.names if name not in self._model.databases]
        name = self._random.choice(absent or self._model.names)
        return "create_database", {"database": struct("Database", name=name, **fields)}

    def _drop_database(self) -> Step:
        name = self._random.choice(self._model.names)
        data, cascade = self._chance(0.8), self._chance(0.7)
        if self._chance(0.5):
            return "drop_database", {"name": self._cased(name), "deleteData": data, "cascade": cascade}
        fields = {"deleteData": data, "cascade": cascade, "ignoreUnknownDb": self._chance(0.5), "catalogName": "hive"}
        if self._chance(0.2):
            fields["deleteManagedDir"] = False
        return "drop_database_req", {"req": struct("DropDatabaseRequest", name=name, **fields)}

    def _new_table(self) -> tuple[Any, bool] | None:
        """A table to be made, and whether it has transactions."""
        database = self._model.database()
        if database is None:
            return None
        name = self._model.free_name(database)
        kind = self._random.choice(["made", "made", "purged", "outside", "outside", "full", "inserts"])
        place = self._model.place()
        fields: dict[str, Any] = {"tableType": "EXTERNAL_TABLE", "parameters": {"EXTERNAL": "TRUE"}}
        formats: dict[str, str] = {}
        if kind == "made":
            fields = {"tableType": "MANAGED_TABLE", "parameters": {}}
        elif kind == "purged":
            fields["parameters"]["external.table.purge"] = self._random.choice(["TRUE", "true", "false"])
        elif kind != "outside":
            formats = FORMATS if kind == "full" else {}
            fields = {"tableType": "MANAGED_TABLE", "parameters": dict(FULL if kind == "full" else INSERTS)}
            if place is not None:
                place = f"{MANAGED}/{database}_own/{place.strip('/').rpartition('/')[2]}"
        keys = [field(key) for key in KEYS[: self._random.choice([0, 0, 1, 2, 2])]]
        fields["parameters"] |= self._some_parameters()
        sd = descriptor(self._some_columns(), place, **formats)
        return table(database, self._cased(name), partitionKeys=keys, sd=sd, **fields), kind in ("full", "inserts")

    def _create_table(self) -> Step | None:
        drawn = self._new_table()
        if drawn is None:
            return None
        given, has_transactions = drawn
        if has_transactions or self._chance(0.2):
            fields = {"envContext": self._context(), **ABLE}
            return "create_table_req", {"request": struct("CreateTableRequest", table=given, **fields)}
        if self._chance(0.3):
            context = self._context()
            return "create_table_with_environment_context", {"tbl": given, "environment_context": context}
        return "create_table", {"tbl": given}

    def _failing_create(self) -> Step | None:
        """A table or partitions whose directories are made before Hive finds that they cannot be."""
        noted = self._model.table(partitioned=True)
        if noted is not None and noted.parts and self._chance(0.5):
            known = list(self._random.choice(noted.parts).values)
            given = [self._new_partition(noted), self._new_partition(noted, known)]
            if self._chance(0.3):
                given.append(self._new_partition(noted, ["one", "too", "many"]))
            return "add_partitions", {"new_parts": given}
        drawn = self._new_table()
        if drawn is None or drawn[1]:
            return None
        return self._with_key(drawn[0], self._random.choice(["absent", "absent", "a"]))

    def _with_key(self, given: Any, column: str) -> Step:
        """A table with a primary key, which cannot be made if it has no such column."""
        where = {"table_db": given.dbName, "table_name": given.tableName, "catName": "hive"}
        flags = {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False}
        key = struct("SQLPrimaryKey", column_name=column, key_seq=1, **where, **flags)
        return "create_table_with_constraints", {"tbl": given, "primaryKeys": [key]}

    def _drop_table(self) -> Step | None:
        noted = self._model.table()
        if noted is None:
            return None
        name, data = self._cased(noted.name if self._chance(0.95) else "absent"), self._chance(0.8)
        which = self._random.randrange(3)
        if which == 0:
            return "drop_table", {"dbname": noted.database, "name": name, "deleteData": data}
        if which == 1:
            given = {"dbname": noted.database, "name": name, "deleteData": data}
            return "drop_table_with_environment_context", {**given, "environment_context": self._context()}
        fields = {"deleteData": data, "envContext": self._context(), "catalogName": "hive", "dropPartitions": True}
        request = struct("DropTableRequest", dbName=noted.database, tableName=name, **fields)
        return "drop_table_req", {"dropTableReq": request}

    def _truncate(self) -> Step | None:
        noted = self._model.table()
        if noted is None:
            return None
        chosen = self._some_names(noted)
        if self._chance(0.5):
            given = {"dbName": noted.database, "tableName": self._cased(noted.name), "partNames": chosen}
            return "truncate_table", given
        context = self._context(truncateSkipDataDeletion="true") if self._chance(0.1) else self._context()
        fields = {"partNames": chosen, "environmentContext": context}
        request = struct("TruncateTableRequest", dbName=noted.database, tableName=noted.name, **fields)
        return "truncate_table_req", {"req": request}

    def _some_names(self, noted: Noted) -> list[str] | None:
        """Names of partitions: none told, none, some, absent ones, doubled ones, keys in the wrong case."""
        if self._chance(0.35):
            return None
        there = [name_of(noted.keys, part.values) for part in noted.parts]
        names = self._random.sample(there, self._random.randrange(min(3, len(there)) + 1))
        if self._chance(0.2):
            names.append(name_of(noted.keys, self._model.values(noted)) if self._chance(0.8) else "junk")
        if names and self._chance(0.2):
            names.append(names[0])
        if names and self._chance(0.1):
            names[0] = names[0].replace("p=", "P=")
        return names

    def _new_partition(self, noted: Noted, values: list[str] | None = None) -> Any:
        sd = descriptor(self._some_columns(), self._model.place(0.6))
        drawn = self._model.values(noted) if values is None else values
        return partition(noted.database, noted.name, drawn, sd=sd, parameters=self._some_parameters())

    def _add_partitions(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None:
            return None
        given = [self._new_partition(noted) for _ in range(self._random.choice([1, 1, 2, 3]))]
        if len(given) > 1:  # Hive makes all directories at once, and which of two nested ones is first is chance
            for each in given:
                each.sd.location = None
        which = self._random.randrange(4)
        if which == 0:
            return "add_partition", {"new_part": given[0]}
        if which == 1:
            return "add_partitions", {"new_parts": given}
        if which == 2:
            context = self._context()
            return "add_partition_with_environment_context", {"new_part": given[0], "environment_context": context}
        fields = {"ifNotExists": self._chance(0.7), "needResult": self._chance(0.7)}
        fields["environmentContext"] = self._context()
        request = struct("AddPartitionsRequest", dbName=noted.database, tblName=noted.name, parts=given, **fields)
        return "add_partitions_req", {"request": request}

    def _append_partition(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None:
            return None
        values, where = self._model.values(noted), {"db_name": noted.database, "tbl_name": noted.name}
        which = self._random.randrange(3)
        if which == 0:
            return "append_partition", {**where, "part_vals": values}
        if which == 1:
            return "append_partition_by_name", {**where, "part_name": name_of(noted.keys, values)}
        fields = {"partVals": values, "environmentContext": self._context(), "catalogName": "hive"}
        request = struct("AppendPartitionsRequest", dbName=noted.database, tableName=noted.name, **fields)
        return "append_partition_req", {"appendPartitionsReq": request}

    def _rename_partition(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None or not noted.parts:
            return None
        after = copy(self._random.choice(noted.parts))
        values = list(after.values)
        after.values = self._model.values(noted)
        after.parameters = self._changed(after.parameters)
        if self._chance(0.15):
            after.sd.location = self._model.place(default=0)
        if self._chance(0.5):
            given = {"db_name": noted.database, "tbl_name": noted.name, "part_vals": values, "new_part": after}
            return "rename_partition", given
        fields = {"partVals": values, "newPart": after, "catName": "hive"}
        request = struct("RenamePartitionRequest", dbName=noted.database, tableName=noted.name, **fields)
        return "rename_partition_req", {"req": request}

    def _drop_partition(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None or not noted.parts:
            return None
        values = list(self._random.choice(noted.parts).values) if self._chance(0.9) else self._model.values(noted)
        name, data = name_of(noted.keys, values), self._chance(0.8)
        where = {"db_name": noted.database, "tbl_name": self._cased(noted.name), "deleteData": data}
        which = self._random.randrange(5)
        if which == 4:
            fields = {"deleteData": data, "environmentContext": self._context(), "catName": "hive"}
            fields |= {"partVals": values} if self._chance(0.5) else {"partName": name}
            request = struct("DropPartitionRequest", dbName=noted.database, tblName=noted.name, **fields)
            return "drop_partition_req", {"dropPartitionReq": request}
        method = "drop_partition_by_name" if which % 2 else "drop_partition"
        given: dict[str, Any] = {**where, **({"part_name": name} if which % 2 else {"part_vals": values})}
        if which >= 2:
            return f"{method}_with_environment_context", {**given, "environment_context": self._context()}
        return method, given

    def _drop_partitions(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None:
            return None
        parts = struct("RequestPartsSpec", names=self._some_names(noted) or [])
        fields: dict[str, Any] = {"deleteData": self._chance(0.8), "environmentContext": self._context()}
        if self._chance(0.7):
            fields["ifExists"] = self._chance(0.5)
        if self._chance(0.5):
            fields["needResult"] = self._chance(0.5)
        request = struct("DropPartitionsRequest", dbName=noted.database, tblName=noted.name, parts=parts, **fields)
        return "drop_partitions_req", {"req": request}

    def _exchange(self) -> Step | None:
        source = self._model.table(partitioned=True)
        if source is None or not source.parts:
            return None
        others = [each for _, each in sorted(self._model.tables.items()) if each.keys == source.keys]
        alike = [each for each in others if each is not source and each.table.sd.cols == source.table.sd.cols]
        target = self._random.choice(alike if alike and self._chance(0.9) else others)
        values = self._random.choice(source.parts).values
        spec = dict(zip(source.keys, values, strict=True))
        if len(spec) > 1 and self._chance(0.4):
            spec[source.keys[-1]] = ""
        places = {"source_db": source.database, "source_table_name": source.name}
        places |= {"dest_db": target.database, "dest_table_name": target.name}
        return self._random.choice(["exchange_partition", "exchange_partitions"]), {"partitionSpecs": spec, **places}
