"""Reads by requests with every field that Hive 4.2 has, set or not, and reads whose replies are only kept: a part of
`Reads`.

Requests are of `hms`, the newest interface. Fields are left out, empty, or odd, each of them now and then.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tests.differential.contents import CAPABILITIES, TableNote
from tests.differential.parts import PartOfReads
from tests.differential.wire import hms
from tests.testbed.objects import PROCESSOR_CAPABILITIES

Request = tuple[str, dict[str, Any]]
CATALOGS = ["hive", "hive", "hive", "HIVE", " hive ", "nocat", ""]
PATTERNS = ["*", "*", "t1*", "T*", "t?_plain", "*view|t0*", ".*", "", None, "%", "t_\\_plain", "t1|", "[tn]*", "n_*"]
TABLE_FILTERS = [
    "hive_filter_field_owner__ = \"me\"",
    "hive_filter_field_owner__ like \".*e.*\"",
    "hive_filter_field_last_access__ > 1",
    "hive_filter_field_params__p = \"v\"",
    "hive_filter_field_params__EXTERNAL = \"TRUE\" and hive_filter_field_owner__ != \"me\"",
    "hive_filter_field_tableType__ = \"VIRTUAL_VIEW\"",
    "x = 1", "", None,
]  # fmt: skip
FIELDS = [
    "dbName",
    "tableName",
    "values",
    "createTime",
    "sd.location",
    "sd.serdeInfo.name",
    "parameters",
    "sd.cols",
    "x",
]


class RequestReads(PartOfReads):
    """Requests with all of their fields; a part of `Reads`."""

    @abstractmethod
    def database(self, *, catalog: bool = True) -> str: ...
    @abstractmethod
    def values(self, note: TableNote) -> list[str]: ...
    @abstractmethod
    def partial(self, note: TableNote) -> list[str]: ...
    @abstractmethod
    def limit(self) -> int: ...
    @abstractmethod
    def filter(self, note: TableNote) -> str: ...
    @abstractmethod
    def engine(self) -> str | None: ...

    # -- parts of requests -------------------------------------------------------------------------------------
    def _sometimes(self, share: float, **fields: list[Any]) -> dict[str, Any]:
        """Each of the fields with this probability, with one of its values."""
        return {name: self.rng.choice(choices) for name, choices in fields.items() if self.rng.random() < share}

    def _catalogs(self) -> list[str]:
        return CATALOGS + self.world.catalogs[:1] * 2

    def _placed(self, catalog: float = 0.5) -> tuple[TableNote, dict[str, Any]]:
        note = self.partitioned()
        place = {"dbName": self.spell(note.database), "tblName": self.spell(note.name)}
        return note, {**place, **self._sometimes(catalog, catName=self._catalogs())}

    def _projection(self) -> dict[str, Any]:
        return self._sometimes(
            0.04,
            skipColumnSchemaForPartition=[True, False],
            includeParamKeyPattern=["", "k%", "numR*", "%"],
            excludeParamKeyPattern=["", "k%"],
        )

    def _limited(self) -> dict[str, Any]:
        return self._sometimes(0.6, maxParts=[-1, -1, 0, 1, 2, 5, 32767, -2, -32768])

    def _table_id(self) -> dict[str, Any]:
        return self._sometimes(0.05, id=[-1, 0, 1, 1 << 40], validWriteIdList=["", "x", "a.b:5:9223372036854775807::"])

    def _names(self, note: TableNote) -> list[str]:
        names = [self.partition_name(note) for _ in range(self.rng.choice([0, 1, 3, 20]))]
        return names + names[:2] if self.rng.random() < 0.3 else names

    # -- partitions --------------------------------------------------------------------------------------------
    def make_get_partitions_by_filter_req(self) -> Request:
        note, place = self._placed(0.9)
        fields = {**place, "filter": self.filter(note), **self._limited(), **self._projection()}
        return "get_partitions_by_filter_req", {"req": hms.GetPartitionsByFilterRequest(**fields)}

    def make_get_partitions_by_filter__large(self) -> Request:
        note = self.world.large or self.partitioned()
        place = {"db_name": note.database, "tbl_name": note.name}
        limit = self.rng.choice([-1, 0, 1, 7, 500])
        return "get_partitions_by_filter", {**place, "filter": self.filter(note), "max_parts": limit}

    def make_get_num_partitions_by_filter__large(self) -> Request:
        note = self.world.large or self.partitioned()
        place = {"db_name": note.database, "tbl_name": note.name}
        return "get_num_partitions_by_filter", {**place, "filter": self.filter(note)}

    def make_fetch_partition_names_req(self) -> Request:
        _, place = self._placed(0.9)
        fields = {**place, **self._limited(), **self._table_id(), **self._projection()}
        return "fetch_partition_names_req", {"partitionReq": hms.PartitionsRequest(**fields)}

    def make_get_partitions_req__all(self) -> Request:
        _, place = self._placed()
        fields = {**place, **self._limited(), **self._table_id(), **self._projection()}
        return "get_partitions_req", {"req": hms.PartitionsRequest(**fields)}

    def make_get_partition_req__all(self) -> Request:
        note, place = self._placed()
        return "get_partition_req", {
            "req": hms.GetPartitionRequest(**place, **self._table_id(), partVals=self.values(note))
        }

    def make_get_partition_names_ps_req__all(self) -> Request:
        note, place = self._placed()
        fields = {
            **place,
            **self._limited(),
            **self._table_id(),
            **self._sometimes(0.9, partValues=[self.partial(note)]),
        }
        return "get_partition_names_ps_req", {"req": hms.GetPartitionNamesPsRequest(**fields)}

    def make_get_partitions_ps_with_auth_req__all(self) -> Request:
        note, place = self._placed()
        fields = {**place, **self._limited(), **self._table_id(), **self._projection()}
        fields |= self._sometimes(0.9, partVals=[self.partial(note)])
        fields |= self._sometimes(0.2, userName=["me", ""], groupNames=[[], ["g"]])
        fields |= self._sometimes(0.1, partNames=[self._names(note)])
        return "get_partitions_ps_with_auth_req", {"req": hms.GetPartitionsPsWithAuthRequest(**fields)}

    def make_get_partitions_by_names_req__all(self) -> Request:
        note = self.partitioned()
        fields = {"db_name": self.database(), "tbl_name": self.spell(note.name)}
        if self.rng.random() < 0.8:
            fields["db_name"] = note.database
        fields |= self._sometimes(0.9, names=[self._names(note)])
        fields |= self._sometimes(0.05, get_col_stats=[True, False], getFileMetadata=[False], engine=["hive", "impala"])
        fields |= {**self._projection(), **self._capable(), **self._table_id()}
        return "get_partitions_by_names_req", {"req": hms.GetPartitionsByNamesRequest(**fields)}

    def make_get_partition_names_req__all(self) -> Request:
        note, place = self._placed()
        fields = {**place, **self._limited(), **self._table_id()}
        orders = ["", "0:+", "0:-"] if len(note.keys) == 1 else [""]  # equal values come as the database likes
        fields |= self._sometimes(0.1, order=orders, defaultPartitionName=["", "x"])
        expression = self.rng.choice([b"\xff", b"\xff", b"\xff", b""])
        return "get_partition_names_req", {"req": hms.PartitionsByExprRequest(**fields, expr=expression)}

    def make_get_partition_values(self) -> Request:
        note, place = self._placed()
        keys = [hms.FieldSchema(name=key, type=kind) for key, kind in note.keys]
        chosen = self.rng.sample(keys, self.rng.randint(0, len(keys)))
        fields = {**place, "partitionKeys": chosen, **self._sometimes(0.3, applyDistinct=[True, False])}
        fields |= self._sometimes(0.2, filter=[self.filter(note), ""], ascending=[True, False], maxParts=[-1, 0, 2])
        return "get_partition_values", {"request": hms.PartitionValuesRequest(**fields)}

    def make_get_partitions_with_specs(self) -> Request:
        note, place = self._placed(0.6)
        projected = self.rng.sample(FIELDS, self.rng.randint(0, 3))
        projection = hms.GetProjectionsSpec(fieldList=projected, **self._sometimes(0.1, includeParamKeyPattern=["k%"]))
        mode = self.rng.choice([0, 1, 2, None])
        wanted = {0: self._names(note), 1: self.partial(note), 2: [self.filter(note)], None: []}[mode]
        chosen = hms.GetPartitionsFilterSpec(**({} if mode is None else {"filterMode": mode, "filters": wanted}))
        fields = {**place, "projectionSpec": projection, "filterSpec": chosen}
        fields |= self._sometimes(0.1, withAuth=[True, False], user=["me"], groupNames=[[]])
        return "get_partitions_with_specs", {"request": hms.GetPartitionsRequest(**fields)}

    def _by_expression(self, method: str) -> Request:
        _, place = self._placed()
        fields = {**place, **self._limited(), **self._projection()}
        return method, {"req": hms.PartitionsByExprRequest(**fields, expr=self.rng.choice([b"\xff", b"", b"garbage"]))}

    def make_get_partitions_by_expr(self) -> Request:
        return self._by_expression("get_partitions_by_expr")

    def make_get_partitions_spec_by_expr(self) -> Request:
        return self._by_expression("get_partitions_spec_by_expr")

    def make_get_partitions_with_auth(self) -> Request:
        database, name = self.names()
        who = {"user_name": self.rng.choice(["me", "", None]), "group_names": self.rng.choice([[], ["g"], None])}
        return "get_partitions_with_auth", {"db_name": database, "tbl_name": name, "max_parts": self.limit(), **who}

    def make_get_partitions_pspec(self) -> Request:
        database, name = self.names()
        limit = self.rng.choice([-1, -1, 0, 1, 3, 1 << 20])
        return "get_partitions_pspec", {"db_name": database, "tbl_name": name, "max_parts": limit}

    def make_get_part_specs_by_filter(self) -> Request:
        note = self.partitioned()
        place = {"db_name": note.database, "tbl_name": self.spell(note.name), "max_parts": self.rng.choice([-1, 0, 2])}
        return "get_part_specs_by_filter", {**place, "filter": self.filter(note)}

    # -- tables, databases, functions, catalogs ----------------------------------------------------------------
    def _capable(self) -> dict[str, Any]:
        words = [[], ["EXTREAD"], CAPABILITIES, list(PROCESSOR_CAPABILITIES), list(PROCESSOR_CAPABILITIES)]
        return self._sometimes(0.12, processorCapabilities=words, processorIdentifier=["", "differential"])

    def make_get_table_req__all(self) -> Request:
        database, name = self.names()
        fields = {**self._sometimes(0.4, catName=self._catalogs()), **self._capable(), **self._table_id()}
        fields |= self._sometimes(0.1, getColumnStats=[True, False], engine=["hive", "impala", ""])
        fields |= self._sometimes(0.1, capabilities=[hms.ClientCapabilities(values=value) for value in ([], [1], [2])])
        return "get_table_req", {"req": hms.GetTableRequest(dbName=database, tblName=name, **fields)}

    def make_get_table_objects_by_name_req__all(self) -> Request:
        notes = [self.partitioned() for _ in range(self.rng.choice([0, 1, 3, 10]))]
        database = notes[0].database if notes else self.database()
        names = [self.spell(note.name) for note in notes if note.database == database]
        names += names[:1] if self.rng.random() < 0.3 else []
        fields = {
            **self._sometimes(0.9, tblNames=[names]),
            **self._sometimes(0.3, catName=self._catalogs()),
            **self._capable(),
        }
        projections = [hms.GetProjectionsSpec(fieldList=some) for some in ([], ["tableName"], ["dbName", "tableType"])]
        fields |= self._sometimes(0.05, projectionSpec=projections, tablesPattern=["*", "t1*", ""])
        return "get_table_objects_by_name_req", {"req": hms.GetTablesRequest(dbName=database, **fields)}

    def make_get_tables__more(self) -> Request:
        return "get_tables", {"db_name": self.database(), "pattern": self.rng.choice(PATTERNS[:-6])}

    def make_get_table_meta__more(self) -> Request:
        databases = [
            self.database(),
            f"{self.world.prefix}_db*",
            self.world.prefix + "_db0|" + self.world.prefix + "*1",
        ]
        kinds: list[list[str]] = [[], ["EXTERNAL_TABLE"], ["VIRTUAL_VIEW", "x"], [""], ["MATERIALIZED_VIEW"]]
        patterns = {"db_patterns": self.rng.choice(databases), "tbl_patterns": self.rng.choice(["*", "t1*", "t*|n*"])}
        return "get_table_meta", {**patterns, "tbl_types": self.rng.choice(kinds)}

    def make_get_table_names_by_filter(self) -> Request:
        arguments = {"dbname": self.database(), "filter": self.rng.choice(TABLE_FILTERS)}
        return "get_table_names_by_filter", {**arguments, "max_tables": self.rng.choice([-1, -1, 1000])}

    def make_get_tables_ext(self) -> Request:
        fields: dict[str, Any] = {
            "catalog": self.rng.choice(self._catalogs()),
            "database": self.database(catalog=False),
        }
        fields |= {
            "tableNamePattern": self.rng.choice(["*", "t1*", "n*"]),
            "requestedFields": self.rng.choice([0, 1, 2]),
        }
        return "get_tables_ext", {"req": hms.GetTablesExtRequest(**fields, **self._capable())}

    def make_get_materialized_views_for_rewriting(self) -> Request:
        return "get_materialized_views_for_rewriting", {"db_name": self.database()}

    def make_get_databases_req(self) -> Request:
        patterns = [f"{self.world.prefix}*", f"{self.world.prefix}_db0", "*", None, "", "nothing*"]
        fields = {**self._sometimes(0.5, catalogName=self._catalogs()), "pattern": self.rng.choice(patterns)}
        return "get_databases_req", {"request": hms.GetDatabaseObjectsRequest(**fields)}

    def make_get_functions_req(self) -> Request:
        fields = self._sometimes(
            0.4, catalogName=self._catalogs(), pattern=["*", "f*", "f0", None], returnNames=[True, False]
        )
        return "get_functions_req", {"request": hms.GetFunctionsRequest(dbName=self.database(), **fields)}

    def make_get_functions__more(self) -> Request:
        return "get_functions", {"dbName": self.database(), "pattern": self.rng.choice(["*", "f*", "F0", "", "f0|f1"])}

    def make_get_function__more(self) -> Request:
        return "get_function", {"dbName": self.database(), "funcName": self.spell("f0")}

    def make_get_catalogs(self) -> Request:
        return "get_catalogs", {}

    def make_get_catalog(self) -> Request:
        return "get_catalog", {"catName": hms.GetCatalogRequest(name=self.rng.choice(self._catalogs()))}

    # -- constraints -------------------------------------------------------------------------------------------
    def _constraints(self, request: Any) -> Any:
        database, name = self.names()
        return request(catName=self.rng.choice(self._catalogs()), db_name=database, tbl_name=name)

    def make_get_unique_constraints(self) -> Request:
        return "get_unique_constraints", {"request": self._constraints(hms.UniqueConstraintsRequest)}

    def make_get_check_constraints(self) -> Request:
        return "get_check_constraints", {"request": self._constraints(hms.CheckConstraintsRequest)}

    def make_get_not_null_constraints__all(self) -> Request:
        return "get_not_null_constraints", {"request": self._constraints(hms.NotNullConstraintsRequest)}

    def make_get_default_constraints__all(self) -> Request:
        return "get_default_constraints", {"request": self._constraints(hms.DefaultConstraintsRequest)}

    def make_get_foreign_keys__all(self) -> Request:
        fields: dict[str, Any] = self._sometimes(0.7, catName=self._catalogs())
        for side in self.rng.choice([("parent",), ("foreign",), ("parent", "foreign"), ()]):
            fields[f"{side}_db_name"], fields[f"{side}_tbl_name"] = self.names()
            if self.rng.random() < 0.05:
                del fields[f"{side}_tbl_name"]
        return "get_foreign_keys", {"request": hms.ForeignKeysRequest(**fields)}
