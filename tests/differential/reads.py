"""Generate read requests from what a world holds and from what it does not.

Every generator returns (method, arguments by IDL name). Names are spelled plainly most of the time, and now and then in
odd case, with blanks, with a catalog (`@hive#db`), absent, empty, or not ASCII.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote, unquote

from hive_metastore.ttypes import (
    AllTableConstraintsRequest,
    DefaultConstraintsRequest,
    ForeignKeysRequest,
    GetDatabaseRequest,
    GetFieldsRequest,
    GetPartitionNamesPsRequest,
    GetPartitionRequest,
    GetPartitionsByNamesRequest,
    GetPartitionsPsWithAuthRequest,
    GetSchemaRequest,
    GetTableRequest,
    GetTablesRequest,
    NotNullConstraintsRequest,
    PartitionsByExprRequest,
    PartitionsRequest,
    PrimaryKeysRequest,
)

from tests.differential.contents import LATIN1_ENDS, TableNote, World
from tests.differential.filters import Filters
from tests.differential.statistics import StatisticsReads
from tests.testbed.interface import interface

Request = tuple[str, dict[str, Any]]
METHODS_23 = frozenset(
    "get_all_databases get_databases get_database get_all_tables get_tables get_tables_by_type get_table get_table_req"
    " get_table_objects_by_name get_table_objects_by_name_req get_partition get_partition_with_auth"
    " get_partition_by_name get_partition_names get_partitions get_partition_names_ps get_partitions_ps"
    " get_partitions_ps_with_auth get_partitions_by_names get_partitions_by_filter".split()
)
FUNCTIONS = ("f0", "f1", "f2")
LIMITS = [-1, -1, -1, 0, 1, 2, 5, 32767, -2]


class Reads(Filters, StatisticsReads):
    """A stream of requests over one world, of some methods or of all; deterministic in its seed.

    `make_METHOD` makes requests of a method, `make_METHOD__x` other ones of the same.
    """

    def __init__(self, world: World, seed: int, methods: Collection[str] | None = None) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self._makers: list[Callable[[], Request]] = [
            getattr(self, name)
            for name in dir(self)
            if name.startswith("make_")
            and (methods is None or name.removeprefix("make_").partition("__")[0] in methods)
        ]

    def __iter__(self) -> Reads:
        return self

    def __next__(self) -> Request:
        return self.rng.choice(self._makers)()

    # -- names -------------------------------------------------------------------------------------------------
    def spell(self, name: str) -> str:
        roll = self.rng.random()
        if roll < 0.80:
            return name
        return self.rng.choice(
            [
                name.upper(),
                name.title(),
                f" {name}",
                f"{name} ",
                f"\t{name}\n",
                name + "ü",
                "",
                "no_" + name,
                name[:-1],
                f"{name}%",
            ]
        )

    def database(self, *, catalog: bool = True) -> str:
        name = self.spell(self.rng.choice(self.world.databases))
        roll = self.rng.random()
        if not catalog or roll < 0.85:
            return name
        odd = [f"@hive#{name}", f"@HIVE#{name}", f"@nocat#{name}", "@hive#", "@hive#!", f"@{name}"]
        return self.rng.choice(odd + [f"@{catalog}#{name}" for catalog in self.world.catalogs[:1] * 4])

    def note(self) -> TableNote:
        return self.rng.choice(self.world.tables)

    def names(self) -> tuple[str, str]:
        note = self.note()
        if self.world.dropped and self.rng.random() < 0.05:
            return self.rng.choice(self.world.dropped)
        database = note.database if self.rng.random() < 0.8 else self.database()
        return database, self.spell(note.name)

    def partitioned(self) -> TableNote:
        choices = [note for note in self.world.tables if note.keys]
        return self.rng.choice(choices) if choices and self.rng.random() < 0.93 else self.note()

    def limit(self) -> int:
        return self.rng.choice(LIMITS)

    def values(self, note: TableNote) -> list[str]:
        roll = self.rng.random()
        if note.partitions and roll < 0.7:
            return list(self.rng.choice(note.partitions))
        if roll < 0.9:
            values = self.world.values(note)
            if values and self.world.latin1 and self.rng.random() < 0.3:
                values[-1] += self.rng.choice(LATIN1_ENDS)
            return values
        return self.rng.choice([[], ["a"], ["a", "b", "c", "d"], [""]])

    def partial(self, note: TableNote) -> list[str]:
        values = self.values(note)
        for index in range(len(values)):
            if self.rng.random() < 0.4:
                values[index] = ""
        return values[: self.rng.randint(0, len(values))] if self.rng.random() < 0.4 else values

    def partition_name(self, note: TableNote) -> str:
        values = self.values(note)
        pairs = zip([key for key, _ in note.keys], values, strict=False)
        name = "/".join(f"{key}={escape(value)}" for key, value in pairs)
        roll = self.rng.random()
        if roll < 0.85:
            return name
        if not self.hostile:
            return self.spell(name)
        odd = ["", "/", name + "/", "/" + name, name.replace("=", "==", 1), "/".join(reversed(name.split("/")))]
        odd += [unquote(name), quote(name, safe="=/"), name.swapcase(), name.partition("=")[2], name + "/x=1"]
        return self.spell(name) if roll < 0.93 else self.rng.choice(odd)

    # -- databases ---------------------------------------------------------------------------------------------
    def make_get_all_databases(self) -> Request:
        return "get_all_databases", {}

    def make_get_databases(self) -> Request:
        prefix = self.world.prefix
        patterns = [
            "*",
            f"{prefix}*",
            f"{prefix.upper()}_DB*",
            f"{prefix}_db1",
            f"*0|{prefix}_db1",
            ".*",
            "",
            "a.b",
            f"{prefix}_db?",
        ]
        return "get_databases", {
            "pattern": self.rng.choice(patterns + [None, f"@hive#{prefix}*", "@nocat#*", "@hive#"])
        }

    def make_get_database(self) -> Request:
        return "get_database", {"name": self.database()}

    def make_get_database_req(self) -> Request:
        request = GetDatabaseRequest(name=self.database(catalog=False))
        if self.rng.random() < 0.4:
            request.catalogName = self.rng.choice(["hive", "HIVE", "nocat", ""])
        return "get_database_req", {"request": request}

    # -- tables ------------------------------------------------------------------------------------------------
    def make_get_all_tables(self) -> Request:
        return "get_all_tables", {"db_name": self.database()}

    def make_get_tables(self) -> Request:
        patterns = [
            "*",
            "t1*",
            "T*",
            "*view|t0*",
            ".*",
            "t.*",
            "",
            "|",
            "t?_plain",
            "t1_partitioned",
            " t1*",
            None,
        ]
        return "get_tables", {"db_name": self.database(), "pattern": self.rng.choice(patterns)}

    def make_get_tables_by_type(self) -> Request:
        kinds = [
            "VIRTUAL_VIEW",
            "EXTERNAL_TABLE",
            "MANAGED_TABLE",
            "external_table",
            "MATERIALIZED_VIEW",
            "nonsense",
            "",
        ]
        return "get_tables_by_type", {
            "db_name": self.database(),
            "pattern": self.rng.choice(["*", ".*", "t1*"]),
            "tableType": self.rng.choice(kinds),
        }

    def make_get_table_meta(self) -> Request:
        return "get_table_meta", {
            "db_patterns": self.database(),
            "tbl_patterns": self.rng.choice(["*", "t1*"]),
            "tbl_types": self.rng.choice([[], ["EXTERNAL_TABLE", "VIRTUAL_VIEW"]]),
        }

    # -- columns -----------------------------------------------------------------------------------------------
    def _columns(self, method: str) -> Request:
        database, name = self.names()
        return method, {"db_name": database, "table_name": name}

    def make_get_fields(self) -> Request:
        return self._columns("get_fields")

    def make_get_schema(self) -> Request:
        return self._columns("get_schema")

    def make_get_fields_with_environment_context(self) -> Request:
        return self._columns("get_fields_with_environment_context")

    def make_get_schema_with_environment_context(self) -> Request:
        return self._columns("get_schema_with_environment_context")

    def make_get_fields_req(self) -> Request:
        database, name = self.names()
        catalog = self.rng.choice([None, "hive", "HIVE", "nocat"])
        return "get_fields_req", {"req": GetFieldsRequest(catName=catalog, dbName=database, tblName=name)}

    def make_get_schema_req(self) -> Request:
        database, name = self.names()
        catalog = self.rng.choice([None, "hive", "HIVE", "nocat"])
        return "get_schema_req", {"req": GetSchemaRequest(catName=catalog, dbName=database, tblName=name)}

    # -- functions ---------------------------------------------------------------------------------------------
    def make_get_function(self) -> Request:
        name = self.rng.choice(FUNCTIONS)
        return "get_function", {"dbName": self.rng.choice(self.world.databases), "funcName": name}

    def make_get_functions(self) -> Request:
        return "get_functions", {"dbName": self.rng.choice(self.world.databases), "pattern": "*"}

    def make_get_all_functions(self) -> Request:
        return "get_all_functions", {}

    def make_get_table_req(self) -> Request:
        database, name = self.names()
        request = GetTableRequest(dbName=database, tblName=name)
        if self.rng.random() < 0.3:
            request.catName = self.rng.choice(["hive", "HIVE", "nocat", ""])
        if self.rng.random() < 0.1:
            request.getColumnStats, request.engine = True, "hive"
        if self.rng.random() < 0.1:
            request.processorCapabilities, request.processorIdentifier = ["EXTREAD"], "differential"
        return "get_table_req", {"req": request}

    def make_get_table_objects_by_name_req(self) -> Request:
        database = self.rng.choice(self.world.databases) if self.rng.random() < 0.8 else self.database(catalog=False)
        names = [self.spell(self.note().name) for _ in range(self.rng.choice([0, 1, 1, 2, 5]))]
        request = GetTablesRequest(dbName=database, tblNames=names)
        if self.rng.random() < 0.3:
            request.catName = self.rng.choice(["hive", "HIVE", "nocat"])
        return "get_table_objects_by_name_req", {"req": request}

    # -- partitions --------------------------------------------------------------------------------------------
    def make_get_partition_names_req(self) -> Request:
        note = self.partitioned()
        request = PartitionsByExprRequest(
            dbName=note.database,
            tblName=self.spell(note.name),
            expr=b"\xff",
            maxParts=self.limit(),
            order=self.rng.choice([None, None, ""]),
        )
        return "get_partition_names_req", {"req": request}

    def make_get_partition(self) -> Request:
        note = self.partitioned()
        return "get_partition", {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_vals": self.values(note),
        }

    def make_get_partition_req(self) -> Request:
        note = self.partitioned()
        request = GetPartitionRequest(dbName=note.database, tblName=self.spell(note.name), partVals=self.values(note))
        return "get_partition_req", {"req": request}

    def make_get_partition_with_auth(self) -> Request:
        note = self.partitioned()
        arguments = {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_vals": self.values(note),
        }
        return "get_partition_with_auth", {
            **arguments,
            "user_name": "me",
            "group_names": self.rng.choice([[], ["g"], None]),
        }

    def make_get_partition_by_name(self) -> Request:
        note = self.partitioned()
        return "get_partition_by_name", {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_name": self.partition_name(note),
        }

    def make_get_all_table_constraints(self) -> Request:
        database, name = self.names()
        request = AllTableConstraintsRequest(dbName=database, tblName=name, catName=self.rng.choice(["hive", " HIVE"]))
        return "get_all_table_constraints", {"request": request}

    def make_get_primary_keys(self) -> Request:
        database, name = self.names()
        catalog = self.rng.choice([None, "hive", "Hive"])
        return "get_primary_keys", {"request": PrimaryKeysRequest(db_name=database, tbl_name=name, catName=catalog)}

    def make_get_not_null_constraints(self) -> Request:
        return "get_not_null_constraints", {"request": NotNullConstraintsRequest("hive", *self.names())}

    def make_get_default_constraints(self) -> Request:
        return "get_default_constraints", {"request": DefaultConstraintsRequest("hive", *self.names())}

    def make_get_foreign_keys(self) -> Request:
        database, name = self.names()
        request = ForeignKeysRequest(foreign_db_name=database, foreign_tbl_name=name, catName="hive")
        return "get_foreign_keys", {"request": request}

    def make_get_partition_names(self) -> Request:
        note = self.partitioned()
        return "get_partition_names", {
            "db_name": self.spell(note.database),
            "tbl_name": self.spell(note.name),
            "max_parts": self.limit(),
        }

    def make_get_partitions(self) -> Request:
        note = self.partitioned()
        return "get_partitions", {
            "db_name": self.spell(note.database),
            "tbl_name": self.spell(note.name),
            "max_parts": self.limit(),
        }

    def make_get_partitions_req(self) -> Request:
        note = self.partitioned()
        return "get_partitions_req", {
            "req": PartitionsRequest(dbName=note.database, tblName=self.spell(note.name), maxParts=self.limit())
        }

    def make_get_partition_names_ps(self) -> Request:
        note = self.partitioned()
        arguments = {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_vals": self.partial(note),
        }
        return "get_partition_names_ps", {**arguments, "max_parts": self.limit()}

    def make_get_partition_names_ps_req(self) -> Request:
        note = self.partitioned()
        request = GetPartitionNamesPsRequest(
            dbName=note.database,
            tblName=self.spell(note.name),
            partValues=self.partial(note),
            maxParts=self.limit(),
        )
        return "get_partition_names_ps_req", {"req": request}

    def make_get_partitions_ps(self) -> Request:
        note = self.partitioned()
        arguments = {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_vals": self.partial(note),
        }
        return "get_partitions_ps", {**arguments, "max_parts": self.limit()}

    def make_get_partitions_ps_with_auth(self) -> Request:
        note = self.partitioned()
        arguments = {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "part_vals": self.partial(note),
        }
        return "get_partitions_ps_with_auth", {
            **arguments,
            "max_parts": self.limit(),
            "user_name": "me",
            "group_names": [],
        }

    def make_get_partitions_ps_with_auth_req(self) -> Request:
        note = self.partitioned()
        request = GetPartitionsPsWithAuthRequest(
            dbName=note.database,
            tblName=self.spell(note.name),
            partVals=self.partial(note),
            maxParts=self.limit(),
        )
        return "get_partitions_ps_with_auth_req", {"req": request}

    def make_get_partitions_by_names(self) -> Request:
        note = self.partitioned()
        return "get_partitions_by_names", {
            "db_name": note.database,
            "tbl_name": self.spell(note.name),
            "names": [self.partition_name(note) for _ in range(self.rng.choice([0, 1, 3, 20]))],
        }

    def make_get_partitions_by_names_req(self) -> Request:
        note = self.partitioned()
        names = [self.partition_name(note) for _ in range(self.rng.choice([0, 1, 3, 20]))]
        request = GetPartitionsByNamesRequest(db_name=note.database, tbl_name=self.spell(note.name), names=names)
        if self.rng.random() < 0.1:
            request.get_col_stats, request.engine = True, "hive"
        return "get_partitions_by_names_req", {"req": request}

    def make_get_partitions_by_filter(self) -> Request:
        note = self.partitioned()
        arguments = {"db_name": note.database, "tbl_name": self.spell(note.name)}
        return "get_partitions_by_filter", {
            **arguments,
            "filter": self.filter(note),
            "max_parts": self.limit(),
        }

    def make_get_num_partitions_by_filter(self) -> Request:
        method, arguments = self.make_get_partitions_by_filter()
        del arguments["max_parts"]
        return "get_num_partitions_by_filter", arguments


ESCAPED = set("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}


def escape(value: str) -> str:
    """A value as it stands in a partition name (Hive: FileUtils.escapePathName)."""
    if not value:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value)


class OldReads(Reads):
    """The methods that Hive 4.0.1 removed, for an oracle that still has them."""

    def make_get_table(self) -> Request:
        database, name = self.names()
        return "get_table", {"dbname": database, "tbl_name": name}

    def make_get_table_objects_by_name(self) -> Request:
        database = self.rng.choice(self.world.databases) if self.rng.random() < 0.9 else self.database()
        names = [self.spell(self.note().name) for _ in range(self.rng.choice([0, 1, 1, 2, 5]))]
        return "get_table_objects_by_name", {"dbname": database, "tbl_names": names}


class Reads31(OldReads):
    """What Hive 3.1 has, but for a pattern with which it tries its database for 20 s, and aggregate statistics: those
    come from a cache of ten minutes."""

    def __init__(self, world: World, seed: int) -> None:
        methods = frozenset(interface("3.1.3").ThriftHiveMetastore.thrift_services)
        super().__init__(world, seed, methods - {"get_aggr_stats_for"})

    def __next__(self) -> Request:
        while (request := super().__next__())[1].get("pattern") == "|":
            pass
        return request
